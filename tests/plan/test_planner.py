"""From recipes, stack and lock to a plan: selection, applicability, actions and their reasons."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from samples import KERNELS, LOCK, STACK, locked_file, plan_inputs, with_locked, with_recipe

from orchestrator.errors import ArchError, NotApplicableError, RecipeError, UnknownNameError
from orchestrator.model.arch import parse_request
from orchestrator.model.lock import LockedSource
from orchestrator.model.recipe import ArchUse, Needs, Source
from orchestrator.model.stack import with_prebuilt
from orchestrator.plan.estimate import UnitCosts
from orchestrator.plan.planner import Past, PlanInputs, decide, keyed_steps
from orchestrator.plan.steps import Estimate, Plan


def planned(
    inputs: PlanInputs, *names: str, known: dict[str, Past] | None = None, last: dict[str, Past] | None = None
) -> Plan:
    return decide(inputs, keyed_steps(inputs, names), known or {}, last or {})


def test_all_takes_the_whole_stack_in_build_order() -> None:
    plan = planned(plan_inputs())
    assert [(step.name, step.action) for step in plan.steps] == [
        ("pure", "build"),
        ("pytorch", "prebuilt"),
        ("kernels", "build"),
    ]
    assert [step.name for step in plan.builds] == ["pure", "kernels"]


def test_a_name_takes_what_it_needs_and_no_more() -> None:
    assert [step.name for step in planned(plan_inputs(), "kernels").steps] == ["pytorch", "kernels"]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        planned(plan_inputs(), "kernel")
    assert caught.value.hint == "did you mean kernels?"


def test_an_unread_commit_leaves_the_step_and_what_builds_on_it_without_a_key() -> None:
    """Nothing is guessed: what cannot be known has no key, and the reason names the command that reads it."""
    open_ = {"main": LockedSource(commit="unresolved", tag="v1.0")}
    kernels = msgspec.structs.replace(KERNELS, needs=Needs(build=("pytorch", "pure"), run=("pytorch",)))
    inputs = dataclasses.replace(with_locked("pure", sources=open_), recipes=with_recipe(kernels).recipes)
    steps = {step["name"]: step for step in planned(inputs).to_json()["steps"]}
    assert {name: step["key"] for name, step in steps.items() if not step["key"]} == {
        "pure": None,
        "kernels": None,
    }
    assert "source main (tag v1.0) is unresolved: `sparkbuild lock --stack demo`" in steps["pure"]["why"]
    assert "builds on pure" in steps["kernels"]["why"]
    assert "`sparkbuild lock --stack demo`" in steps["kernels"]["why"]
    local = dataclasses.replace(inputs, local_sources={("pure", "main"): "0" * 64})
    assert all(step["key"] for step in planned(local).to_json()["steps"]), "a folder in its place is known"


def test_json_has_the_contract_s_fields() -> None:
    shown = planned(plan_inputs(), "kernels").to_json()
    assert (shown["schema"], shown["arch"], shown["stack"]) == ("sparkbuild.plan/1", "12.1a", "demo")
    step = shown["steps"][1]
    assert step | {"key": None} == {
        "name": "kernels",
        "version": "1.0",
        "action": "build",
        "effective_arches": ["12.1a"],
        "key": None,
        "why": "not built yet",
        "needs": ["pytorch"],
        "estimate": {"cpu_s": None, "peak_bytes": 2 << 30, "disk_bytes": None, "units": None},
        "notes": [],
    }
    assert len(step["key"]) == 64


APPLIES_TO_HOPPER = with_recipe(
    msgspec.structs.replace(KERNELS, applies=("9.0a", "10.0f"), instead="use Triton")
)


def test_what_does_not_apply_is_a_row_with_all_and_an_error_alone() -> None:
    step = planned(APPLIES_TO_HOPPER).step("kernels")
    assert step.action == "not-applicable"
    assert "made for 9.0a, 10.0f only" in step.why
    assert "use Triton" in step.why
    with pytest.raises(NotApplicableError) as caught:
        planned(APPLIES_TO_HOPPER, "kernels")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "use Triton"


def test_effective_arches_reach_the_step() -> None:
    inputs = msgspec.structs.replace(KERNELS, applies=("9.0a", "10.0f"))
    several = with_recipe(inputs)
    several = PlanInputs(
        stack=several.stack,
        lock=several.lock,
        recipes=several.recipes,
        arch=parse_request("12.1a;9.0a;10.3a"),
        machine=several.machine,
        patch_digest=several.patch_digest,
    )
    step = planned(several).step("kernels")
    assert step.keyed.arch == "9.0a;10.0f"
    assert [str(device) for device in step.keyed.devices] == ["9.0", "10.0"]
    assert any("10.3a is built as 10.0f" in note for note in step.keyed.notes)
    assert any(note == "without 12.1a: made for 9.0a, 10.0f only" for note in step.keyed.notes)


def test_a_missing_suffix_is_an_error_with_the_hint() -> None:
    inputs = plan_inputs(arch=parse_request("9.0"), recipes=APPLIES_TO_HOPPER.recipes)
    with pytest.raises(ArchError) as caught:
        planned(inputs)
    assert "9.0a" in str(caught.value)


def test_a_family_that_one_dialect_cannot_say_leaves_the_others() -> None:
    both = ArchUse(env={"SPARKBUILD_NVCC_GENCODE": "nvcc", "TORCH_CUDA_ARCH_LIST": "torch-extension"})
    inputs = plan_inputs(
        arch=parse_request("12.0f"), recipes=with_recipe(msgspec.structs.replace(KERNELS, arch=both)).recipes
    )
    step = planned(inputs).step("kernels")
    assert step.keyed.arch_env == {"SPARKBUILD_NVCC_GENCODE": "-gencode=arch=compute_120f,code=sm_120f"}
    only = ArchUse(env={"TORCH_CUDA_ARCH_LIST": "torch-extension"})
    with pytest.raises(RecipeError, match="none of kernels's arch dialects"):
        planned(
            plan_inputs(
                arch=parse_request("12.0f"),
                recipes=with_recipe(msgspec.structs.replace(KERNELS, arch=only)).recipes,
            )
        )


def test_actions_follow_the_store() -> None:
    inputs = plan_inputs()
    steps = {step.name: step for step in keyed_steps(inputs, ())}
    key, ingredients = steps["kernels"].key or "", dict(steps["kernels"].ingredients)
    cost = Estimate(cpu_s=664.0, peak_bytes=3 * 2**30, disk_bytes=10, basis="seen")
    reuse = planned(inputs, known={key: Past(ingredients, estimate=cost)}).step("kernels")
    assert (reuse.action, reuse.why) == ("reuse", "built before from the same ingredients")
    assert reuse.estimate == cost
    rejected = planned(inputs, known={key: Past(ingredients, rejected=True)}).step("kernels")
    assert (rejected.action, rejected.why) == (
        "reuse",
        "built before; its audit failed, so it is kept as rejected",
    )
    other = planned(inputs, last={"kernels": Past(ingredients | {"arch": "12.0f"}, estimate=cost)})
    assert other.step("kernels").why == "arch changed from 12.0f to 12.1a"
    assert other.step("kernels").estimate == cost
    gone = planned(inputs, last={"kernels": Past(ingredients)}).step("kernels")
    assert gone.why == "the same ingredients as the last artifact, which is gone"


def test_what_units_took_reaches_the_step_that_is_built() -> None:
    inputs = plan_inputs()
    costs = UnitCosts.of([(5, 10.0), (7, 30.0)], whole=True)
    assert costs is not None
    plan = decide(inputs, keyed_steps(inputs, ()), {}, {}, {"kernels": costs, "pytorch": costs})
    assert plan.step("kernels").estimate.units == 2
    assert plan.step("kernels").estimate.cpu_s == 40.0
    assert plan.step("pytorch").estimate.units is None
    assert plan.step("pure").estimate.cpu_s is None


def test_a_stack_can_be_asked_to_take_a_component_as_published() -> None:
    inputs = plan_inputs(stack=with_prebuilt(STACK, ("kernels",)))
    with pytest.raises(RecipeError, match="no published wheel of kernels") as caught:
        keyed_steps(inputs, ())
    assert "`published: true` under components.kernels" in (caught.value.hint or "")
    published = locked_file("kernels", content="published")
    locked = with_locked("kernels", prebuilt=published).lock
    steps = {step.name: step for step in keyed_steps(dataclasses.replace(inputs, lock=locked), ())}
    assert (steps["kernels"].kind, steps["kernels"].key) == ("prebuilt", published.sha256)
    built = {step.name: step for step in keyed_steps(plan_inputs(lock=locked), ())}
    assert built["kernels"].locked.prebuilt is None, "a published wheel reaches no build"


def test_many_changes_are_counted() -> None:
    inputs = plan_inputs()
    last = {"kernels": Past({"a": "1", "b": "1", "c": "1", "d": "1"})}
    assert planned(inputs, last=last).step("kernels").why.count(";") == 3


def test_a_source_that_the_lock_lacks_is_named() -> None:
    component = msgspec.structs.replace(LOCK.components["kernels"], sources={})
    lock = msgspec.structs.replace(LOCK, components=LOCK.components | {"kernels": component})
    with pytest.raises(RecipeError, match="the lock holds no source main of kernels"):
        planned(plan_inputs(lock=lock))


def test_patches_that_nobody_has_judged_at_the_pin_are_noted_until_they_were_applied() -> None:
    seen = {"0001-first": ("1.0",), "0002-second": ("0.9", "ab" * 20)}
    inputs = plan_inputs(patch_seen_at=lambda recipe, patch: seen[patch] if recipe == "kernels" else ())
    step = planned(inputs).step("kernels")
    why = "unverified-at-pin (version 1.0): seen at 0.9, commit abababababab only"
    assert step.keyed.unverified == {"0002-second": why}
    assert step.to_json()["notes"] == [f"patch 0002-second is {why}"]
    key = step.keyed.key or ""
    assert key == planned(plan_inputs()).step("kernels").keyed.key, "what is noted reaches no key"
    assert planned(inputs, known={key: Past({})}).step("kernels").notes == ()
    commit = Source(git="https://example.org/kernels")
    kernels = msgspec.structs.replace(KERNELS, sources={"main": commit})
    locked = with_locked("kernels", sources={"main": LockedSource(commit="ab" * 20)}).lock
    inputs = dataclasses.replace(inputs, lock=locked, recipes=with_recipe(kernels).recipes)
    assert list(planned(inputs).step("kernels").keyed.unverified) == ["0001-first"]
    local = dataclasses.replace(inputs, local_sources={("kernels", "main"): "digest"})
    assert planned(local).step("kernels").keyed.unverified == {}, "a folder may hold anything"
