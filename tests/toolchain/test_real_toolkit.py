"""The toolkit from wheels: nvcc compiles, assembles and links with it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import faketools
import pytest
import tinyproject
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import StringTableSection

from orchestrator.errors import ToolkitError
from orchestrator.model.platform import Target
from orchestrator.model.stack import Toolkit as Spec
from orchestrator.report.events import silent
from orchestrator.source.wheels import fetch_wheels
from orchestrator.store.facts import Facts
from orchestrator.store.home import Home
from orchestrator.toolchain.cuda import decide_toolkit, provide_toolkit
from orchestrator.toolchain.probe import check_assembles
from orchestrator.toolchain.system import examine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Event
    from orchestrator.toolchain.compiler import Compiler

pytestmark = pytest.mark.toolkit

SPEC = Spec(
    version="==13.0.*",
    packages=("cuda-toolkit[nvcc,cudart,cccl]==13.0.3",),
    headers=("cuda_runtime.h", "cuda_fp16.h", "nv/target", "cub/cub.cuh"),
    libraries=("libcudart.so", "libcudart_static.a", "libcudadevrt.a"),
)

UNIT = """
#include <cuda.h>
#include <cuda_fp16.h>
#include <cub/version.cuh>
__global__ void kernel(__half *p) { p[threadIdx.x] = __float2half(1.0f); }
extern "C" int start(__half *p) { kernel<<<1, 32>>>(p); return cuInit(0) + cudaDeviceSynchronize(); }
"""


@pytest.fixture(scope="module")
def shared(shared_layers: Path) -> Home:
    return Home(shared_layers)


@pytest.fixture(scope="module")
def root(shared: Home, compiler: Compiler) -> Path:
    return provide(shared, compiler, ("sm_121a", "sm_120f", "compute_121"))


def provide(
    home: Home, compiler: Compiler, archs: tuple[str, ...], events: list[Event] | None = None
) -> Path:
    facts = Facts(home.facts)
    files = tinyproject.toolkit_files(Target.here())

    def fetch(wanted: Sequence[LockedFile]) -> Mapping[str, Path]:
        return fetch_wheels(wanted, home=home)

    return provide_toolkit(
        decide_toolkit("pip", spec=SPEC, files=files, facts=facts),
        spec=SPEC,
        files=files,
        home=home,
        emit=silent if events is None else events.append,
        fetch=fetch,
        compiler=compiler,
        facts=facts,
        archs=archs,
    )


def nvcc(root: Path, folder: Path, *arguments: str) -> None:
    (folder / "unit.cu").write_text(UNIT)
    command = [str(root / "bin/nvcc"), "-gencode", "arch=compute_121a,code=sm_121a", *arguments, "unit.cu"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def needed(path: Path) -> set[str]:
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        dynamic, strings = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynstr")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(strings, StringTableSection)
        return {strings.get_string(tag.entry.d_val) for tag in dynamic.iter_tags("DT_NEEDED")}


def test_it_has_what_the_stack_names(root: Path, facts: Facts) -> None:
    fitness = examine(root, SPEC, facts)
    assert fitness.faults == ()
    assert str(fitness.version).startswith("13.0.")


def test_a_program_links_with_runtime_and_driver(root: Path, tmp_path: Path) -> None:
    nvcc(
        root,
        tmp_path,
        *("-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "-o", "unit.so"),
        # As distributions do by default, and so that an incomplete stub is an error.
        *("-Xlinker", "--as-needed", "-Xlinker", "--no-undefined", "-lcuda"),
    )
    assert needed(tmp_path / "unit.so") >= {"libcuda.so.1", "libcudart.so.13"}


def test_the_static_runtime_is_the_default(root: Path, tmp_path: Path) -> None:
    nvcc(root, tmp_path, "-shared", "-Xcompiler", "-fPIC", "-o", "unit.so", "-lcuda")
    assert not any("cudart" in name for name in needed(tmp_path / "unit.so"))


def test_the_second_time_it_is_there(root: Path, shared: Home, compiler: Compiler) -> None:
    events: list[Event] = []
    assert provide(shared, compiler, ("sm_121a",), events) == root
    assert events == []


def test_nobody_writes_to_it(root: Path) -> None:
    for path in (
        root,
        root / "bin",
        root / "bin/nvcc",
        root / "include/cuda.h",
        root / "lib/libcudart.so.13",
    ):
        assert not path.stat().st_mode & 0o222, path


@pytest.mark.parametrize(
    ("arch", "words"), [("sm_999a", "compute_999a"), ("sm_50", "compute_50"), ("compute_50", "compute_50")]
)
def test_an_arch_it_does_not_know(
    root: Path, facts: Facts, compiler: Compiler, arch: str, words: str
) -> None:
    with pytest.raises(ToolkitError, match=f"Unsupported gpu architecture '{words}'"):
        check_assembles(root, ["sm_121a", arch], identity="pip-1", facts=facts, compiler=compiler)


def test_a_host_compiler_that_is_too_new(
    root: Path, tmp_path: Path, facts: Facts, compiler: Compiler
) -> None:
    cxx = faketools.script(tmp_path / "bin/g++", f'exec {compiler.cxx} -U__GNUC__ -D__GNUC__=99 "$@"')
    newer = replace(compiler, cxx=cxx, identity="gcc-99")
    with pytest.raises(ToolkitError, match="unsupported GNU version") as caught:
        check_assembles(root, ["sm_121a"], identity="pip-1", facts=facts, compiler=newer)
    assert "CXX" in str(caught.value.hint)
