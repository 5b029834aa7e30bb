"""flash-attn: each unit is compiled for what was asked for, and for nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from shippedplans import shipped_catalog, shipped_plan
from upstreams import TorchBox, lay_sdist, patches_of, recipe_environ

from orchestrator.jobs.images import images
from orchestrator.source.patch import apply, judge

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home

UNITS = 72
PROBE = "flash_fwd_hdim128_bf16_sm80.cu"


@pytest.mark.parametrize("arch", ["12.1a", "12.0f", "9.0a", "9.0a;12.1a", "10.0f;12.1a"])
def test_it_is_built_for_whatever_is_asked_for(arch: str) -> None:
    step = shipped_plan(arch, "flash-attn").step("flash-attn")
    assert step.action == "build"
    assert step.keyed.arch == arch
    assert step.keyed.view.build.env["FLASH_ATTN_CUDA_ARCHS"] == ""


def test_a_family_is_said_to_nvcc_and_never_to_torch() -> None:
    assert shipped_plan("12.0f", "flash-attn").step("flash-attn").keyed.arch_env == {
        "SPARKBUILD_NVCC_GENCODE": "-gencode=arch=compute_120f,code=sm_120f"
    }


@pytest.fixture(scope="module")
def pristine(upstream_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sdist's tree; tests change nothing in it but its build folder."""
    return lay_sdist("flash-attn", tmp_path_factory.mktemp("pristine") / "tree", upstream_home)


@pytest.fixture(scope="module")
def patched(upstream_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same with our patches."""
    return lay_sdist("flash-attn", tmp_path_factory.mktemp("patched") / "tree", upstream_home, patched=True)


@pytest.mark.network
def test_the_patches_apply_where_they_say_and_are_known_again(pristine: Path, tmp_path: Path) -> None:
    patches = patches_of("flash-attn")
    assert [(one.state, one.moved) for one in judge(pristine, patches)] == [("applies", ())] * 2
    before = (pristine / "setup.py").read_text().splitlines()
    shutil.copy(pristine / "setup.py", tmp_path)
    apply(tmp_path, patches)
    assert [one.state for one in judge(tmp_path, patches)] == ["already-upstream"] * 2
    after = (tmp_path / "setup.py").read_text().splitlines()
    assert [new for old, new in zip(before, after, strict=True) if new != old] == [
        '    cc_flag = os.getenv("SPARKBUILD_NVCC_GENCODE", "").split()',
        '    "-std=c++20",',
        '    compiler_c17_flag=["-O3", "-std=c++20"]',
    ]
    unit = shipped_catalog().recipe("flash-attn").probe
    assert unit is not None
    assert [path.name for path in pristine.glob(unit.unit or "")] == [PROBE]


@pytest.mark.upstream
@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("12.1a", ("sm_121a",)),
        ("12.1a+PTX", ("compute_121a", "sm_121a")),
        ("12.0f", ("sm_120f",)),
        ("9.0a;12.1a", ("sm_121a", "sm_90a")),
    ],
)
def test_every_unit_is_compiled_for_exactly_that(
    torch_box: TorchBox, patched: Path, arch: str, expected: tuple[str, ...]
) -> None:
    calls = torch_box.device_calls(patched, recipe_environ(arch, "flash-attn"))
    assert len(calls) == UNITS
    assert {images(call.arguments) for call in calls} == {expected}
    for call in calls:
        assert "-std=c++20" in call.arguments
        assert "-std=c++17" not in call.arguments
        assert call.arguments[call.arguments.index("--threads") + 1] == "1"


@pytest.mark.upstream
def test_unpatched_it_knows_no_12_1_and_takes_four_others(torch_box: TorchBox, pristine: Path) -> None:
    asked = {"FLASH_ATTENTION_FORCE_BUILD": "TRUE", "TORCH_CUDA_ARCH_LIST": "12.1a"}
    for archs, expected in (
        ({}, ("sm_100", "sm_120", "sm_80", "sm_90")),
        ({"FLASH_ATTN_CUDA_ARCHS": "121"}, ("sm_121a",)),
        ({"FLASH_ATTN_CUDA_ARCHS": "120;121"}, ("sm_120",)),
        ({"FLASH_ATTN_CUDA_ARCHS": ""}, ("sm_121a",)),
    ):
        calls = torch_box.device_calls(pristine, asked | archs)
        assert {images(call.arguments) for call in calls} == {expected}, archs
        assert all("-std=c++17" in call.arguments for call in calls)


@pytest.mark.upstream
def test_one_unit_becomes_machine_code_for_a_gb10(torch_box: TorchBox, patched: Path) -> None:
    """Compiles for real: about 300 CPU seconds and 4.5 GB."""
    env = recipe_environ("12.1a", "flash-attn")
    (call,) = (call for call in torch_box.device_calls(patched, env) if call.source == PROBE)
    check_object(torch_box.run(call, env))


def check_object(made: Path) -> None:
    """See that an object holds kernels for sm_121a, that they do some work, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "audit", str(made), "--arch", "12.1a", "--deep", "--json"],
        check=False,
        capture_output=True,
        text=True,
    )
    (spec,) = json.loads(done.stdout)["specs"]
    (module,) = spec["modules"]
    assert (spec["verdict"], module["verdict"]) == ("pass", "native")
    assert module["images"] == {"sass": {"sm_121a": 1}}
    assert module["findings"] == []
    assert module["containers"] == {"total": 1, "exact": 1, "compatible": 0, "jit": 0, "none": 0}
