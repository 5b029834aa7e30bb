"""What a manifest keeps of an audit, and what a person is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from devicefiles import FOLDER
from faketools import assembler
from samples import KERNELS, plan_inputs, with_recipe
from solibs import compiled
from wheelhouse import make_wheel

from orchestrator.build import verdict
from orchestrator.model.arch import Device, parse_request
from orchestrator.model.recipe import Assembler, KernelException, ModulePolicy, When
from orchestrator.plan.planner import keyed_steps

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.audit.report import SpecReport
    from orchestrator.plan.steps import KeyedStep
    from orchestrator.store.manifest import Audit


def step(arch: str = "12.1a", *policy: ModulePolicy) -> KeyedStep:
    modules = policy or (ModulePolicy(match="kernels/*.so", expect="native"),)
    inputs = with_recipe(msgspec.structs.replace(KERNELS, modules=modules))
    inputs = plan_inputs(recipes=inputs.recipes, arch=parse_request(arch))
    return next(item for item in keyed_steps(inputs, ()) if item.name == "kernels")


def wheel_of(folder: Path, module: str) -> Path:
    files = {"kernels/_C.so": (FOLDER / module).read_bytes(), "kernels/__init__.py": b""}
    return make_wheel(folder, "kernels", files)[1]


def audit_of(
    asked: KeyedStep, wheels: list[Path], digests: list[str], *, cuda_major: int | None = None
) -> tuple[Audit, SpecReport]:
    return verdict.audit(asked, wheels, digests, cuda_major=cuda_major, scratch=wheels[0].parent)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return wheel_of(tmp_path, "native.so")


def test_a_wheel_that_holds_what_was_asked_for(wheel: Path) -> None:
    asked = step("9.0a;12.1a")
    audit, report = audit_of(asked, [wheel], ["digest"])
    assert audit.verdict == "pass"
    assert audit.coverage == "sm_121a, sm_90a 2/2 on 9.0; sm_121a, sm_90a 2/2 on 12.1"
    assert audit.key == verdict.key_of(asked, ["digest"])
    assert verdict.problems(report) == []
    assert verdict.warnings(report) == []


def test_what_nobody_asked_for_is_a_warning(wheel: Path) -> None:
    audit, report = audit_of(step(), [wheel], ["digest"])
    assert (audit.verdict, audit.coverage) == ("pass", "sm_121a, sm_90a 2/2")
    (warning,) = verdict.warnings(report)
    assert warning == "kernels/_C.so: 2 of 2 containers hold what was not asked for: sm_90a (2)"


def test_what_it_lacks_is_one_line_each(tmp_path: Path) -> None:
    audit, report = audit_of(step(), [wheel_of(tmp_path, "wrong.so")], ["digest"])
    assert (audit.verdict, audit.coverage) == ("fail", "sm_120a 0/2")
    (problem,) = verdict.problems(report)
    assert problem.startswith("kernels/_C.so: none of 2 containers has SASS for 12.1")
    assert any("asked for, and in no module: sm_121a" in text for text in verdict.warnings(report))


def test_a_pattern_may_match_in_any_wheel_of_an_artifact(wheel: Path, tmp_path: Path) -> None:
    shim = make_wheel(tmp_path, "shim", {"shim/__init__.py": b""})[1]
    policy = (
        ModulePolicy(match="kernels/*.so", expect="native"),
        ModulePolicy(match="shim/__init__.py", expect="host"),
    )
    assert audit_of(step("12.1a", *policy), [wheel, shim], ["a", "b"])[0].verdict == "pass"
    assert audit_of(step("12.1a", *policy), [wheel], ["a"])[0].verdict == "fail"


def test_an_exception_of_the_recipe_excuses_and_changes_the_audit_key_only(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "wrong.so")
    exceptions = tuple(KernelException(kernels=each, reason="for another chip") for each in ("add", "sc?le"))
    entry = ModulePolicy(match="kernels/*.so", expect="native")
    strict, mild = step("12.1a", entry), step("12.1a", msgspec.structs.replace(entry, exceptions=exceptions))
    assert strict.key == mild.key
    assert verdict.key_of(strict, ["a"]) != verdict.key_of(mild, ["a"])
    assert audit_of(strict, [wheel], ["a"])[0].verdict == "fail"
    audit, report = audit_of(mild, [wheel], ["a"])
    assert audit.verdict == "pass", verdict.problems(report)
    assert report.devices[0].modules[0].excepted == 2


def test_host_only(tmp_path: Path) -> None:
    pure = make_wheel(tmp_path, "kernels", {"kernels/__init__.py": b""})[1]
    policy = ModulePolicy(match="kernels/__init__.py", expect="host")
    assert audit_of(step("12.1a", policy), [pure], ["a"])[0].coverage == "host only"


def test_libraries_of_another_cuda_than_the_toolkits_are_a_fault(tmp_path: Path) -> None:
    runtime = compiled(tmp_path, "libcudart.so.12", 'extern "C" int cudaFree(void *) { return 0; }')
    host = compiled(
        tmp_path, "host.so", 'extern "C" int cudaFree(void *); int f() { return cudaFree(0); }', runtime
    )
    files = {"kernels/_C.so": (FOLDER / "native.so").read_bytes(), "other/host.so": host.read_bytes()}
    wheel = make_wheel(tmp_path, "kernels", files)[1]
    audit, report = audit_of(step(), [wheel], ["digest"], cuda_major=12)
    assert audit.verdict == "pass", verdict.problems(report)
    audit, report = audit_of(step(), [wheel], ["digest"], cuda_major=13)
    assert audit.verdict == "fail"
    assert any("libcudart.so.12" in problem for problem in verdict.problems(report))


def test_of_two_families_an_entry_holds_on_those_that_its_arch_serves() -> None:
    modules = [
        ModulePolicy(match="a.so", expect="native", when=When(arch=("9.0a",))),
        ModulePolicy(match="b.so", expect="native", when=When(version=">=1")),
        ModulePolicy(match="c.so", expect="native", when=When(arch=("12.0f", "12.1a"))),
    ]
    hopper, spark = Device(9, 0), Device(12, 1)
    request = parse_request("9.0a;12.0f").entries
    found = verdict.expectations(modules, request, (hopper, spark))
    assert [entry.devices for entry in found] == [frozenset({hopper}), None, frozenset({spark})]
    assert [entry.devices for entry in verdict.expectations(modules, request, (spark,))] == [None] * 3


@pytest.mark.parametrize(("able", "expected"), [("sm_121a", "pass"), ("sm_90a", "fail")])
def test_an_assembler_in_a_built_wheel_is_asked(tmp_path: Path, able: str, expected: str) -> None:
    wheel = make_wheel(
        tmp_path, "kernels", {"kernels/__init__.py": "", "kernels/bin/ptxas": assembler(able)}
    )[1]
    recipe = msgspec.structs.replace(
        KERNELS,
        modules=(ModulePolicy(match="kernels/*.py", expect="host"),),
        assemblers=(Assembler(file="kernels/bin/ptxas"),),
    )
    asked = next(item for item in keyed_steps(with_recipe(recipe), ()) if item.name == "kernels")
    audit, report = audit_of(asked, [wheel], ["a"])
    told = "ptxas assembles" if able == "sm_121a" else "kernels/bin/ptxas does not assemble"
    assert (audit.verdict, audit.key) == (expected, verdict.key_of(asked, ["a"]))
    assert f"host only; {told} sm_121a" in audit.coverage
    assert len(verdict.problems(report)) == (expected == "fail")
