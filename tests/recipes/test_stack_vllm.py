"""The stack vllm-0.33: what is built for which arch, and that its locks hold one CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from packaging.requirements import Requirement
from samples import plan_inputs, sha
from shippedplans import shipped_catalog

from orchestrator.errors import ArchError
from orchestrator.model.arch import parse_request
from orchestrator.model.platform import Target
from orchestrator.model.stack import recipe_in
from orchestrator.plan.planner import decide, keyed_steps

if TYPE_CHECKING:
    from orchestrator.model.lock import Lock
    from orchestrator.plan.steps import Plan

STACK = "vllm-0.33"
PLATFORMS = ("linux-aarch64", "linux-x86_64")


def lock(platform: str) -> Lock:
    return shipped_catalog().lock(STACK, Target(platform, "3.12"))


def planned(arch: str, platform: str = "linux-aarch64", **changes: Any) -> Plan:
    catalog = shipped_catalog()
    stack = catalog.stack(STACK)
    recipes = {name: recipe_in(catalog.recipe(name), part) for name, part in stack.components.items()}
    known = {
        "stack": stack,
        "lock": lock(platform),
        "recipes": recipes,
        "arch": parse_request(arch),
        "text_digest": lambda recipe, text: sha(f"{recipe}/{text}"),
    }
    inputs = plan_inputs(**(known | changes))
    return decide(inputs, keyed_steps(inputs, ()), {}, {})


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("arch", "left_out"),
    [
        ("12.1a", {"flash-attn-3", "flashmla"}),
        ("12.0f", {"flash-attn-3", "flashmla"}),
        ("9.0a", {"qutlass"}),
        ("9.0a;12.1a", set()),
    ],
)
def test_the_whole_stack_is_planned(platform: str, arch: str, left_out: set[str]) -> None:
    steps = planned(arch, platform).steps
    actions = {step.name: step.action for step in steps}
    assert {name for name, action in actions.items() if action == "not-applicable"} == left_out
    prebuilt = {"triton", "torchvision", "torchaudio"}
    assert {name for name, action in actions.items() if action == "prebuilt"} == prebuilt
    assert actions["vllm"] == "build"
    assert [step.name for step in steps].index("pytorch") < [step.name for step in steps].index("vllm")


@pytest.mark.parametrize("arch", ["12.1", "12.0a;12.1a"])
def test_what_would_leave_kernels_without_code_is_refused(arch: str) -> None:
    with pytest.raises(ArchError, match="vllm cannot be built for") as caught:
        planned(arch)
    assert caught.value.exit_code == 2


def test_an_unresolved_tag_names_the_command_and_no_key() -> None:
    step = planned("12.1a").step("vllm")
    assert step.keyed.key is None
    assert "cutlass (tag v4.7.1), triton-kernels (tag v3.5.1) are unresolved: `sparkbuild lock" in step.why


def test_another_patch_of_flashinfer_leaves_vllm_as_it_is() -> None:
    before = lock("linux-aarch64")
    vllm = before.components["vllm"]
    read = {
        name: msgspec.structs.replace(source, commit="0" * 40, tag=None, submodules={})
        if source.commit == "unresolved"
        else source
        for name, source in vllm.sources.items()
    }
    components = before.components | {"vllm": msgspec.structs.replace(vllm, sources=read)}
    resolved = msgspec.structs.replace(before, components=components)

    def keys(changed: str) -> dict[str, str | None]:
        def digest(recipe: str, patch: str) -> str:
            return sha(f"{recipe}/{patch}" + (" changed" if recipe == changed else ""))

        steps = planned("12.1a", lock=resolved, patch_digest=digest).steps
        return {step.name: step.keyed.key for step in steps}

    same = keys("")
    assert same["vllm"] is not None
    assert {name for name, key in keys("flashinfer").items() if key != same[name]} == {"flashinfer"}
    by_torch = {"pytorch", "causal-conv1d", "flash-attn", "flashinfer", "qutlass", "vllm"}
    assert {name for name, key in keys("pytorch").items() if key != same[name]} == by_torch


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_constraints_hold_in_every_part_of_the_lock(platform: str) -> None:
    found = lock(platform)
    parts = [found.toolkit, found.run, *(part.requires for part in found.components.values())]
    parts += [part.run for part in found.components.values()]
    held: dict[str, set[str]] = {}
    for file in (file for files in parts for file in files):
        held.setdefault(file.name, set()).add(file.version)
    for name in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm"):
        assert held[name] == {"13.0.88"}, name
    for text in shipped_catalog().stack(STACK).constraints:
        wanted = Requirement(text)
        for version in held.get(wanted.name, ()):
            assert wanted.specifier.contains(version), (text, version)
