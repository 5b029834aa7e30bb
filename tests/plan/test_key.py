"""What a key is made of: each ingredient that must change it, and each thing that must not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest
from samples import (
    KERNELS,
    LOCK,
    MACHINE,
    STACK,
    TORCH,
    locked_file,
    plan_inputs,
    sha,
    with_locked,
    with_recipe,
)

from orchestrator.audit.report import AUDIT_NUMBER
from orchestrator.model.arch import parse_request
from orchestrator.model.lock import LockedSource
from orchestrator.model.recipe import (
    ArchLimit,
    ArchUse,
    Assembler,
    BuildEstimate,
    Files,
    KernelException,
    ModulePolicy,
    PackedWheel,
    PatchRef,
    Probe,
    Repair,
    Source,
    UnitException,
    Variant,
    When,
)
from orchestrator.plan.key import audit_key, build_key, changed, digest
from orchestrator.plan.planner import PlanInputs, keyed_steps

if TYPE_CHECKING:
    from orchestrator.plan.steps import KeyedStep


def step(inputs: PlanInputs, name: str = "kernels") -> KeyedStep:
    return next(item for item in keyed_steps(inputs, ()) if item.name == name)


def recipe(**changes: object) -> PlanInputs:
    return with_recipe(msgspec.structs.replace(KERNELS, **changes))


def build(**changes: object) -> PlanInputs:
    assert KERNELS.build is not None
    return recipe(build=msgspec.structs.replace(KERNELS.build, **changes))


def machine(**changes: object) -> PlanInputs:
    return plan_inputs(machine=dataclasses.replace(MACHINE, **changes))  # type: ignore[arg-type] # by field name


def stack(**changes: object) -> PlanInputs:
    return plan_inputs(stack=msgspec.structs.replace(STACK, **changes))


BASE = step(plan_inputs())

MOVES: dict[str, tuple[PlanInputs, str]] = {
    "source bytes": (
        with_locked("kernels", sources={"main": LockedSource(file=locked_file("kernels", content="x"))}),
        "source main",
    ),
    "source commit": (
        with_locked("kernels", sources={"main": LockedSource(commit="a" * 40)}),
        "source main",
    ),
    "submodule commit": (
        with_locked(
            "kernels", sources={"main": LockedSource(commit="a" * 40, submodules={"third_party/x": "b" * 40})}
        ),
        "source main",
    ),
    "local source": (plan_inputs(local_sources={("kernels", "main"): sha("tree")}), "source main"),
    "source place": (
        recipe(sources={"main": Source(sdist="kernels", env="KERNELS_SRC")}),
        "source main place",
    ),
    "patch bytes": (
        plan_inputs(patch_digest=lambda _recipe, patch: sha(f"new {patch}")),
        "patch 0001-first",
    ),
    "patch order": (
        recipe(patches=tuple(reversed(KERNELS.patches))),
        "patch 0001-first",
    ),
    "patch gone": (recipe(patches=KERNELS.patches[:1]), "patch 0002-second"),
    "version": (with_locked("kernels", version="1.1"), "version"),
    "environment": (build(env={"FORCE": "2"}), "env FORCE"),
    "another variable": (build(env={"FORCE": "1", "MORE": "1"}), "env MORE"),
    "config setting": (build(config_settings={"fast": "yes"}), "config fast"),
    "commands": (build(commands=(("make",),)), "commands"),
    "backend": (build(backend="commands", commands=(("make",),)), "backend"),
    "directory": (build(directory="python"), "directory"),
    "outputs": (build(outputs=("kernels*.whl",)), "outputs"),
    "links": (build(links={"lib/libx.so": "{requires}/x/libx.so.1"}), "link lib/libx.so"),
    "repair": (build(repair=Repair(requires=("six",))), "repair"),
    "packed wheels": (build(wheels=(PackedWheel(distribution="kernels-extra", summary="s"),)), "wheels"),
    "text of ours": (
        dataclasses.replace(
            build(
                wheels=(PackedWheel(distribution="kernels-extra", summary="s", texts={"a.py": "shim.py"}),)
            ),
            text_digest=lambda recipe, text: sha(f"{recipe} {text}"),
        ),
        "text shim.py",
    ),
    "build requirement": (with_locked("kernels", requires=(locked_file("ninja", "2.0"),)), "requires ninja"),
    "its bytes": (
        with_locked("kernels", requires=(locked_file("ninja", content="other"),)),
        "requires ninja",
    ),
    "prebuilt torch": (
        with_locked("pytorch", prebuilt=locked_file("torch", "2.14.1", content="other")),
        "needs pytorch",
    ),
    "what torch runs with": (with_locked("pytorch", run=(locked_file("sympy", "2"),)), "needs pytorch run"),
    "arch": (plan_inputs(arch=parse_request("12.0f")), "arch"),
    "arch variable": (recipe(arch=ArchUse(env={"TORCH_CUDA_ARCH_LIST": "torch-extension"})), "arch"),
    "toolkit": (machine(toolkit="system def"), "toolkit"),
    "compiler": (machine(compiler="g++ 14"), "compiler"),
    "Python ABI": (machine(python_abi="cpython-313"), "python"),
    "libc": (machine(libc="glibc 2.28"), "libc"),
    "platform": (machine(platform="linux-aarch64"), "platform"),
    "commands' environment": (machine(environment={"LANG": "C"}), "environment LANG"),
    "variant that holds": (
        build(variants=(Variant(when=When(arch=("12.1a",)), env={"EXTRA": "1"}),)),
        "env EXTRA",
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_this_changes_the_key_and_is_named(name: str) -> None:
    inputs, ingredient = MOVES[name]
    now = step(inputs)
    assert now.key != BASE.key
    named = {change.ingredient for change in changed(BASE.ingredients, now.ingredients)}
    assert any(word.startswith(ingredient) for word in named), named


STAYS: dict[str, PlanInputs] = {
    "summary": recipe(summary="Other words"),
    "homepage": recipe(homepage="https://example.test"),
    "policy": recipe(modules=(ModulePolicy(match="*.so", expect="host"),)),
    "memory": build(memory_per_unit=2**33),
    "estimate": build(estimate=BuildEstimate(cpu=3600.0, disk=2**30)),
    "compiler that it wants": build(compiler={"gcc": ">=13"}),
    "limits": recipe(
        arch=ArchUse(
            env=KERNELS.arch.env,
            limits=(ArchLimit(major=12, at_most=1, reason="r", instead="12.1a"),),
        )
    ),
    "probe": recipe(probe=Probe(unit="a.cu")),
    "files": recipe(files=Files(only=("kernels/**",))),
    "assemblers": recipe(assemblers=(Assembler(file="kernels/ptxas"),)),
    "published wheel in the lock": with_locked("kernels", prebuilt=locked_file("kernels", content="p")),
    "run needs": recipe(needs=msgspec.structs.replace(KERNELS.needs, run=())),
    "variant that does not hold": build(variants=(Variant(when=When(version=">=9"), env={"EXTRA": "1"}),)),
    "patch that does not hold": recipe(
        patches=(*KERNELS.patches, PatchRef(name="0003-later", when=When(version=">=9")))
    ),
    "another component's source": with_locked("pure", sources={"main": LockedSource(commit="c" * 40)}),
    "stack summary": stack(summary="Other words"),
    "lock's own name": plan_inputs(lock=msgspec.structs.replace(LOCK, inputs="x", stack="demo")),
    "spelling of the arch": plan_inputs(arch=parse_request(" SM_121A ")),
    "order of variables": build(env=dict(reversed(list({"FORCE": "1"}.items())))),
    "device": plan_inputs(device=parse_request("12.1a").entries[0].arch.device),
}


@pytest.mark.parametrize("name", STAYS)
def test_this_does_not(name: str) -> None:
    assert step(STAYS[name]).key == BASE.key


def test_a_component_without_device_code_depends_on_neither_arch_nor_toolkit() -> None:
    base = step(plan_inputs(), "pure")
    assert step(plan_inputs(arch=parse_request("9.0a")), "pure").key == base.key
    assert step(machine(toolkit="system def"), "pure").key == base.key
    assert step(machine(compiler="g++ 14"), "pure").key != base.key


def test_a_built_need_hands_its_key_on() -> None:
    def needing(version: str) -> KeyedStep:
        needs = msgspec.structs.replace(KERNELS.needs, build=("pure",))
        inputs = with_recipe(msgspec.structs.replace(KERNELS, needs=needs))
        component = msgspec.structs.replace(LOCK.components["pure"], version=version)
        lock = msgspec.structs.replace(LOCK, components=LOCK.components | {"pure": component})
        return step(dataclasses.replace(inputs, lock=lock))

    assert needing("3.0").key != needing("3.1").key


def test_keys_move_only_with_the_number_raised_by_hand() -> None:
    """Golden: when this fails and the change is meant, raise BUILD_LOGIC and write the new key here."""
    assert BASE.ingredients["logic"] == "1"
    assert BASE.key == "a6d3cb5711b2174284a91c6b01666a9612db40d7308861a0ecde76eb0d263c75"


def test_the_key_does_not_depend_on_the_order_of_ingredients() -> None:
    assert build_key(dict(reversed(list(BASE.ingredients.items())))) == BASE.key


def test_audit_key_follows_policy_wheel_device_and_arch_but_not_reasons() -> None:
    policy = (ModulePolicy(match="*.so", expect="native"),)
    base = audit_key(["w"], policy, ["12.1"], "12.1a")
    with_reason = (ModulePolicy(match="*.so", expect="native", reason="because"),)
    assert audit_key(["w"], with_reason, ["12.1"], "12.1a") == base
    host = (ModulePolicy(match="*.so", expect="host"),)
    others = [
        audit_key(["v"], policy, ["12.1"], "12.1a"),
        audit_key(["w"], host, ["12.1"], "12.1a"),
        audit_key(["w"], policy, ["12.0"], "12.1a"),
        audit_key(["w"], policy, ["12.1"], "12.0f"),
    ]
    assert len({base, *others}) == 5


def test_audit_key_follows_what_may_be_missing_and_which_files_there_may_be() -> None:
    policy = ModulePolicy(match="*.so", expect="native")
    optional = msgspec.structs.replace(policy, required=False)
    keys = [
        audit_key(["w"], [policy], ["12.1"], "12.1a"),
        audit_key(["w"], [optional], ["12.1"], "12.1a"),
        audit_key(["w"], [policy], ["12.1"], "12.1a", only=("a/**",)),
        audit_key(["w"], [policy], ["12.1"], "12.1a", only=("a/**", "b/**")),
    ]
    assert len(set(keys)) == 4
    assert audit_key(["w"], [policy], ["12.1"], "12.1a", only=("b/**", "a/**")) == keys[3]


def test_audit_key_follows_what_must_be_assembled() -> None:
    def key(*assembled: tuple[str, str], only: tuple[str, ...] | None = None) -> str:
        return audit_key(["w"], [], ["12.1"], "12.1a", only=only, assembled=assembled)

    one, other = ("ptxas", "sm_121a"), ("ptxas", "sm_120f")
    assert len({key(), key(one), key(other), key(one, other), key(one, only=("a/**",))}) == 5
    assert key(one, other) == key(other, one)


def test_what_must_be_assembled_follows_the_request_for_a_published_wheel_too() -> None:
    assembler = Assembler(file="torch/ptxas", lowest="10.0")
    inputs = with_recipe(msgspec.structs.replace(TORCH, assemblers=(assembler,)))
    for arch, expected in (("12.1a;9.0a", (("torch/ptxas", "sm_121a"),)), ("9.0a", ())):
        asked = dataclasses.replace(inputs, arch=parse_request(arch))
        assert step(asked, "pytorch").assembled == expected


def test_the_golden_audit_key() -> None:
    """What a recipe does not say leaves the key of an audit as it was."""
    policy = ModulePolicy(match="*.so", expect="native")
    assert audit_key(["w"], [policy], ["12.1"], "12.1a") == digest(
        [AUDIT_NUMBER, ["w"], [["*.so", "native", []]], ["12.1"], "12.1a"]
    )


def test_audit_key_follows_exceptions_but_not_their_reasons() -> None:
    def key(*kernels: str, reason: str = "r") -> str:
        exceptions = tuple(KernelException(kernels=each, reason=reason) for each in kernels)
        policy = ModulePolicy(match="*.so", expect="native", exceptions=exceptions)
        return audit_key(["w"], [policy], ["12.1"], "12.1a")

    assert len({key(), key("*a*"), key("*b*"), key("*a*", "*b*")}) == 4
    assert key("*a*", reason="another") == key("*a*")


def test_audit_key_follows_the_order_of_the_policy_since_the_first_that_matches_holds() -> None:
    some = ModulePolicy(match="a*.so", expect="native")
    others = ModulePolicy(match="*.so", expect="host")
    assert audit_key(["w"], [some, others], ["12.1"], "12.1a") != audit_key(
        ["w"], [others, some], ["12.1"], "12.1a"
    )


def test_exceptions_never_move_the_build_key() -> None:
    exempt = KernelException(kernels="*sm89*", reason="guarded")
    assert KERNELS.modules
    modules = tuple(msgspec.structs.replace(item, exceptions=(exempt,)) for item in KERNELS.modules)
    changed_step = step(recipe(modules=modules))
    assert changed_step.view.modules[0].exceptions == (exempt,)
    assert changed_step.key == BASE.key


def test_units_for_elsewhere_never_move_the_build_key() -> None:
    exempt = UnitException(source="marlin/*.cu", reason="always compiled")
    changed_step = step(build(elsewhere=(exempt,)))
    assert changed_step.view.build.elsewhere == (exempt,)
    assert changed_step.key == BASE.key


def test_changes_read_well() -> None:
    before = {"arch": "12.1a", "patch x": "a" * 64 + " #1", "env A": "1"}
    now = {"arch": "12.0f", "patch x": "b" * 64 + " #1", "env B": "1"}
    assert [str(change) for change in changed(before, now)] == [
        "arch changed from 12.1a to 12.0f",
        "env A is gone",
        "env B is new",
        "patch x changed from aaaaaaaaaaaa #1 to bbbbbbbbbbbb #1",
    ]
