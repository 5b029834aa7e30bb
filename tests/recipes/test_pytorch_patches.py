"""The patches of PyTorch on the files that are published, through CMake itself."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from programs import find_cmake
from published import members
from solibs import linked

from orchestrator.model.catalog import Catalog
from orchestrator.source.patch import apply, judge
from orchestrator.source.patch_format import Patch, read_patch

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = Catalog.default(())
FOLDER = "Modules_CUDA_fix/upstream/FindCUDA"
NAME = "select_compute_arch.cmake"
WHEEL = "torch-{}-cp312-cp312-manylinux_2_28_x86_64.whl"

# A script cannot try_run: the GPU's answer is put in, all else are the file's own statements.
SCRIPT = """\
cmake_minimum_required(VERSION 3.20)
set(PROJECT_BINARY_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(CUDA_VERSION 13.0)
macro(try_run result compiled)
  set(${result} 0)
  set(${compiled} TRUE)
  set(compute_capabilities "${PROBED}")
endmacro()
include("${FILE}")
cuda_select_nvcc_arch_flags(flags ${ASKED})
list(JOIN flags " " flags)
message(NOTICE "flags: ${flags}")
"""


def patch_file(name: str) -> Path:
    (wanted,) = (patch for patch in CATALOG.recipe("pytorch").patches if patch.name == name)
    return CATALOG.patch_file("pytorch", wanted)


def fix() -> Patch:
    return read_patch(patch_file("0001-auto-arch-not-12.1-2.0"))


@pytest.fixture
def tree(tmp_path: Path, shared_layers: Path, request: pytest.FixtureRequest) -> Path:
    """Return a tree with the published file at its place in the source."""
    name = f"torch/share/cmake/Caffe2/{FOLDER}/{NAME}"
    found = members(WHEEL.format(request.param), (name,), shared_layers)
    place = tmp_path / "cmake" / FOLDER / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(found[name])
    return tmp_path


def flags(tree: Path, *, probed: str = "", asked: str = "") -> str:
    """Return what the file makes of a GPU's answer, or of an arch list, as arch=... arguments."""
    script = tree / "ask.cmake"
    script.write_text(SCRIPT)
    command = [
        find_cmake(),
        f"-DFILE={tree / 'cmake' / FOLDER / NAME}",
        f"-DPROBED={probed}",
        f"-DASKED={asked}",
    ]
    ran = subprocess.run([*command, "-P", script], capture_output=True, text=True, check=True)
    (line,) = (line for line in ran.stderr.splitlines() if line.startswith("flags: "))
    return line.removeprefix("flags: ").replace("-gencode ", "")


def told(*pairs: str) -> str:
    """Return arch=... arguments of `121` or `20:21`, the latter of different numbers."""
    numbers = [(pair.split(":")[0], pair.split(":")[-1]) for pair in pairs]
    return " ".join(f"arch=compute_{virtual},code=sm_{real}" for virtual, real in numbers)


@pytest.mark.network
@pytest.mark.parametrize("tree", ["2.14.0", "2.14.1"], indirect=True)
def test_arches_that_cmake_detects(tree: Path) -> None:
    assert flags(tree, probed="12.1 ") == told("20:121")
    assert flags(tree, probed="12.0 12.1 8.6") == told("120", "20:121", "86")
    apply(tree, [fix()])
    assert flags(tree, probed="12.1 ") == told("121")
    assert flags(tree, probed="12.0 ") == told("120")
    assert flags(tree, probed="2.1 ") == told("20:21")
    assert flags(tree, probed="2.1 12.1 8.6") == told("20:21", "121", "86")
    assert flags(tree, probed="12.1 2.1 12.1") == told("121", "20:21")


@pytest.mark.network
@pytest.mark.parametrize("tree", ["2.14.0"], indirect=True)
@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("12.1a", ["121a"]),
        ("12.1", ["121"]),
        ("12.0f", ["120f"]),
        ("12.0 12.1a", ["120", "121a"]),
        ("12.0 12.1", ["120", "121"]),
        ("2.1(2.0)", ["20:21"]),
    ],
)
def test_a_list_that_is_named_never_met_the_fault(tree: Path, asked: str, becomes: list[str]) -> None:
    assert flags(tree, asked=asked) == told(*becomes)
    apply(tree, [fix()])
    assert flags(tree, asked=asked) == told(*becomes)


@pytest.mark.network
@pytest.mark.parametrize("tree", ["2.14.0"], indirect=True)
def test_verdicts(tree: Path) -> None:
    assert [(verdict.state, verdict.moved) for verdict in judge(tree, [fix()])] == [("applies", ())]
    apply(tree, [fix()])
    assert [verdict.state for verdict in judge(tree, [fix()])] == ["already-upstream"]
    file = tree / "cmake" / FOLDER / NAME
    file.write_text(file.read_text().replace("2.1(2.0)", "2.1(2.0) "))
    assert [verdict.state for verdict in judge(tree, [fix()])] == ["conflict"]


PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(linked C)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_SOURCE_DIR}/cmake/Modules")
find_package(NVPL_BLAS REQUIRED)
find_package(NVPL_LAPACK REQUIRED)
add_library(linked SHARED linked.c)
target_link_libraries(linked PRIVATE nvpl::lapack_lp64_omp)
"""


def test_nvpl_is_found_in_what_its_wheels_hold(tmp_path: Path) -> None:
    """Libraries with stand-ins' code, under the names that the wheels have: with a version only."""
    root, project = tmp_path / "nvpl", tmp_path / "project"
    for folder in (root / "include", root / "lib", project):
        folder.mkdir(parents=True)
    for header in ("nvpl_blas_cblas.h", "nvpl_lapack.h"):
        (root / "include" / header).write_text("void dgemm_(void);\nvoid dgesv_(void);\n")
    for name, symbol in (("blas", "dgemm_"), ("lapack", "dgesv_")):
        library = f"libnvpl_{name}_lp64_gomp.so.0"
        (tmp_path / "unit.c").write_text(f"void {symbol}(void) {{}}\n")
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(root / "lib" / library)]
        subprocess.run([*command, str(tmp_path / "unit.c")], check=True)
    apply(project, [read_patch(patch_file("0002-nvpl-from-its-wheels"))])
    (project / "CMakeLists.txt").write_text(PROJECT)
    code = '#include "nvpl_blas_cblas.h"\nvoid both(void) { dgemm_(); dgesv_(); }\n'
    (project / "linked.c").write_text(code)
    build = [find_cmake(), "-S", str(project), "-B", str(tmp_path / "build")]
    environ = os.environ | {"NVPL_ROOT": str(root), "CMAKE_GENERATOR": "Unix Makefiles"}
    subprocess.run(build, check=True, capture_output=True, env=environ)
    subprocess.run(
        [find_cmake(), "--build", tmp_path / "build"], check=True, capture_output=True, env=environ
    )
    needed = linked(tmp_path / "build/liblinked.so").needed
    assert {"libnvpl_blas_lp64_gomp.so.0", "libnvpl_lapack_lp64_gomp.so.0"} <= set(needed)
