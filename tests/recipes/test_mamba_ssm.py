"""mamba-ssm and causal-conv1d: each unit is compiled for what was asked for, and for nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from shippedplans import shipped_catalog, shipped_plan
from upstreams import SDISTS, TorchBox, lay_sdist, patches_of, recipe_environ

from orchestrator.jobs.images import images
from orchestrator.model.platform import Target
from orchestrator.source.patch import judge

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home

UNITS = {"mamba-ssm": 9, "causal-conv1d": 3}


@pytest.mark.parametrize("arch", ["12.1a", "12.0f", "9.0a", "9.0a;12.1a"])
def test_it_is_built_for_whatever_is_asked_for(arch: str) -> None:
    plan = shipped_plan(arch, "mamba-ssm")
    assert [(step.name, step.action, step.keyed.arch) for step in plan.steps] == [
        ("pytorch", "prebuilt", ""),
        ("causal-conv1d", "build", arch),
        ("mamba-ssm", "build", arch),
    ]


@pytest.mark.parametrize("platform", ["linux-x86_64", "linux-aarch64"])
def test_its_stack_locks_what_vllm_cannot_have(platform: str) -> None:
    lock = shipped_catalog().lock("mamba", Target(platform, "3.12"))
    versions = {file.name: file.version for file in lock.run}
    assert versions["tilelang"] == "0.1.8"
    assert Version(versions["apache-tvm-ffi"]) <= Version("0.1.9")
    # One toolkit: what compiles and what is loaded at run time lie in the same folder.
    toolkit = {file.name: file.version for file in lock.toolkit}
    assert {name: versions.get(name, version) for name, version in toolkit.items()} == toolkit


def test_locks_name_the_sdists_that_these_tests_read() -> None:
    catalog = shipped_catalog()
    locked = {
        source.file
        for stack in catalog.stacks()
        for platform in catalog.stack(stack).platforms
        for python in catalog.stack(stack).pythons
        for name, component in catalog.lock(stack, Target(platform, python)).components.items()
        if name in SDISTS
        for source in component.sources.values()
    }
    assert SDISTS["mamba-ssm"] in locked
    assert locked - {None} <= set(SDISTS.values())


@pytest.mark.network
def test_the_patches_apply_where_they_say_and_are_known_again(upstream_home: Home, tmp_path: Path) -> None:
    tree = lay_sdist("mamba-ssm", tmp_path / "tree", upstream_home)
    assert (tree / "setup.py").read_text().count('cc_flag.append("-gencode")') == UNITS["mamba-ssm"]
    assert [(one.state, one.moved) for one in judge(tree, patches_of("mamba-ssm"))] == [("applies", ())] * 2
    patched = lay_sdist("mamba-ssm", tmp_path / "patched", upstream_home, patched=True)
    assert [one.state for one in judge(patched, patches_of("mamba-ssm"))] == ["already-upstream"] * 2
    after = (patched / "setup.py").read_text()
    assert '"-gencode"' not in after
    # What is left belongs to AMD's branch.
    assert after.count("-std=c++17") == after.count("-std=c++20") == 2


@pytest.mark.upstream
@pytest.mark.parametrize("name", sorted(UNITS))
@pytest.mark.parametrize(
    ("arch", "expected"),
    [("12.1a", ("sm_121a",)), ("12.0f", ("sm_120f",)), ("9.0a;12.1a", ("sm_121a", "sm_90a"))],
)
def test_every_unit_is_compiled_for_exactly_that(
    torch_box: TorchBox, upstream_home: Home, tmp_path: Path, name: str, arch: str, expected: tuple[str, ...]
) -> None:
    tree = lay_sdist(name, tmp_path / "tree", upstream_home, patched=True)
    calls = torch_box.device_calls(tree, recipe_environ(arch, name))
    assert len(calls) == UNITS[name]
    assert {images(call.arguments) for call in calls} == {expected}
    for call in calls:
        assert [word for word in call.arguments if word.startswith("-std=")] == ["-std=c++20"]
        assert call.arguments[call.arguments.index("--threads") + 1] == "1"


@pytest.mark.upstream
def test_without_an_arch_it_stops(torch_box: TorchBox, upstream_home: Home, tmp_path: Path) -> None:
    tree = lay_sdist("mamba-ssm", tmp_path / "tree", upstream_home, patched=True)
    with pytest.raises(AssertionError, match="SPARKBUILD_NVCC_GENCODE must name what to compile for"):
        torch_box.device_calls(tree, {"MAMBA_FORCE_BUILD": "TRUE"})
