"""qutlass: the arch comes from the request, no GPU is asked, and 12.x takes the kernels' branch for 120."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from shippedplans import shipped_plan
from upstreams import patches_of, recipe_environ

from orchestrator.source.patch import apply

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("arch", "effective"),
    [
        ("12.1a", "12.1a"),
        ("12.0f", "12.0f"),
        ("9.0a;12.1a", "12.1a"),
        ("10.0f", "10.0f"),
        ("12.1", "12.1f"),  # plain sm_121 has no block-scaled FP4
    ],
)
def test_it_is_built_with_a_suffix(arch: str, effective: str) -> None:
    step = shipped_plan(arch).step("qutlass")
    assert (step.action, step.keyed.arch) == ("build", effective)


def test_hopper_is_not_applicable() -> None:
    step = shipped_plan("9.0a").step("qutlass")
    assert step.action == "not-applicable"
    assert "Marlin" in step.why


def stand_in() -> str:
    """Return a setup.py that consists of what the patch finds and removes, and of what it needs around."""
    (patch,) = patches_of("qutlass")
    (file,) = patch.files
    query, pairs, asserts, cmake = (b"".join(hunk.old).decode() for hunk in file.hunks)
    return (
        f"import os\nimport re\nimport torch\n\n\n{query}\n\ncc = detect_cc()\n\n\n"
        f"def get_cuda_arch_flags():\n    flags = [\n{pairs}    ]\n    return flags\n\n\n"
        f"def third_party_cmake():\n    raise SystemExit('CMake ran')\n\n\n"
        f"def remove_unwanted_pytorch_nvcc_flags():\n    pass\n\n\n"
        f"{asserts}\n{cmake}    made = (cc, get_cuda_arch_flags())\n"
    )


def ran(tree: Path, monkeypatch: pytest.MonkeyPatch, gencode: str | None) -> Any:
    """Run the stand-in on a machine without a GPU; return TARGET_CUDA_ARCH and the flags."""
    if gencode is None:
        monkeypatch.delenv("SPARKBUILD_NVCC_GENCODE", raising=False)
    else:
        monkeypatch.setenv("SPARKBUILD_NVCC_GENCODE", gencode)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile((tree / "setup.py").read_text(), "setup.py", "exec"), space)  # noqa: S102 - it is ours
    return space["made"]


@pytest.fixture
def patched(tmp_path: Path) -> Path:
    (tmp_path / "setup.py").write_text(stand_in())
    apply(tmp_path, patches_of("qutlass"))
    return tmp_path


@pytest.mark.parametrize(
    ("arch", "target", "pairs"),
    [
        ("12.1a", 120, ["-gencode=arch=compute_121a,code=sm_121a"]),
        ("12.0f", 120, ["-gencode=arch=compute_120f,code=sm_120f"]),
        ("9.0a;12.1a", 120, ["-gencode=arch=compute_121a,code=sm_121a"]),
        ("10.3a", 100, ["-gencode=arch=compute_103a,code=sm_103a"]),
        (
            "12.0a;12.1a",
            120,
            ["-gencode=arch=compute_120a,code=sm_120a", "-gencode=arch=compute_121a,code=sm_121a"],
        ),
    ],
)
def test_the_request_selects_the_kernels_and_their_arch(
    patched: Path, monkeypatch: pytest.MonkeyPatch, arch: str, target: int, pairs: list[str]
) -> None:
    gencode = recipe_environ(arch, "qutlass")["SPARKBUILD_NVCC_GENCODE"]
    assert ran(patched, monkeypatch, gencode) == (target, pairs)


@pytest.mark.parametrize(
    "gencode",
    [None, "", "-gencode=arch=compute_90a,code=sm_90a", "-gencode=arch=compute_120f,code=compute_120f"],
)
def test_no_arch_or_another_one_stops_it(
    patched: Path, monkeypatch: pytest.MonkeyPatch, gencode: str | None
) -> None:
    with pytest.raises(RuntimeError, match="must name arches of one major, 10 or 12"):
        ran(patched, monkeypatch, gencode)


def test_both_majors_are_refused(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gencode = recipe_environ("10.0f;12.1a", "qutlass")["SPARKBUILD_NVCC_GENCODE"]
    with pytest.raises(RuntimeError, match="one major"):
        ran(patched, monkeypatch, gencode)


def test_unpatched_it_asks_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.py").write_text(stand_in())
    with pytest.raises(AttributeError, match="cuda"):
        ran(tmp_path, monkeypatch, "-gencode=arch=compute_121a,code=sm_121a")
