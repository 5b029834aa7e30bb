"""Repairs, on a small tree that is laid out like the wheels'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import faketools
import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import StringTableSection, SymbolTableSection

from orchestrator.errors import ToolkitError
from orchestrator.toolchain.repairs import cuda_root, repair

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.toolchain.compiler import Compiler

CUDA_H = """
CUresult CUDAAPI cuInit(unsigned int Flags);
#define cuMemAlloc cuMemAlloc_v2
/* CUdevice is a type */
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "site/nvidia/cu13"
    for name, data in {
        "bin/nvcc": b"\x7fELF",
        "bin/nvcc.profile": b"TOP = ..",
        "nvvm/bin/cicc": b"\x7fELF",
        "include/cuda.h": CUDA_H.encode(),
        "include/nvml.h": b"nvmlReturn_t DECLDIR nvmlInit_v2(void);\n",
        "lib/libcublas.so.13": b"a",
        "lib/libnvrtc-builtins.alt.so.13.0": b"b",
        "lib/libmany.so.2": b"c",
        "lib/libmany.so.2.1.0": b"d",
        "lib/libown.so": b"e",
        "lib/libown.so.1": b"f",
        "lib/libcudart_static.a": b"g",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o444)
    return tmp_path


def test_nvcc_finds_its_libraries(tree: Path, compiler: Compiler) -> None:
    repair(tree, compiler.cc)
    root = cuda_root(tree / "site")
    assert (root / "lib64/libcublas.so").read_bytes() == b"a"
    assert (root / "lib/libnvrtc-builtins.alt.so").read_bytes() == b"b"
    assert (root / "lib/libmany.so").read_bytes() == b"c"
    assert (root / "lib/libown.so").read_bytes() == b"e"
    assert {path.name for path in (root / "lib").glob("*.a")} == {"libcudart_static.a"}


def test_links_are_relative_so_that_the_layer_can_be_renamed(tree: Path, compiler: Compiler) -> None:
    repair(tree, compiler.cc)
    links = [path for path in tree.rglob("*") if path.is_symlink()]
    assert len(links) == 4
    assert not any(str(path.readlink()).startswith("/") for path in links)


@pytest.mark.parametrize(
    ("name", "soname", "symbols"),
    [
        ("libcuda.so", "libcuda.so.1", {"cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuInit_ptsz"}),
        ("libnvidia-ml.so", "libnvidia-ml.so.1", {"nvmlInit_v2"}),
    ],
)
def test_stubs_export_what_the_header_declares(
    tree: Path, compiler: Compiler, name: str, soname: str, symbols: set[str]
) -> None:
    repair(tree, compiler.cc)
    with (cuda_root(tree / "site") / "lib64/stubs" / name).open("rb") as stream:
        elf = ELFFile(stream)
        dynamic = elf.get_section_by_name(".dynamic")
        dynsym = elf.get_section_by_name(".dynsym")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(dynsym, SymbolTableSection)
        tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()}
        strings = elf.get_section_by_name(".dynstr")
        assert isinstance(strings, StringTableSection)
        named = strings.get_string(tags["DT_SONAME"])
        found = {symbol.name for symbol in dynsym.iter_symbols()}
    assert named == soname
    assert "DT_NEEDED" not in tags
    assert found >= symbols
    assert not any(symbol.startswith("CU") for symbol in found)


def test_programs_can_be_run_and_data_cannot(tree: Path, compiler: Compiler) -> None:
    repair(tree, compiler.cc)
    root = cuda_root(tree / "site")
    modes = {
        name: (root / name).stat().st_mode & 0o777
        for name in ("bin/nvcc", "bin/nvcc.profile", "nvvm/bin/cicc")
    }
    assert modes == {"bin/nvcc": 0o555, "bin/nvcc.profile": 0o444, "nvvm/bin/cicc": 0o555}


def test_repairing_twice_changes_nothing(tree: Path, compiler: Compiler) -> None:
    repair(tree, compiler.cc)
    before = {path: path.lstat().st_mtime_ns for path in tree.rglob("*") if not path.is_dir()}
    repair(tree, compiler.cc)
    assert {path: path.lstat().st_mtime_ns for path in tree.rglob("*") if not path.is_dir()} == before


def test_no_nvcc_or_two(tmp_path: Path, compiler: Compiler) -> None:
    (tmp_path / "site").mkdir()
    with pytest.raises(ToolkitError, match="hold no nvcc"):
        repair(tmp_path, compiler.cc)
    for name in ("cu12", "cu13"):
        faketools.script(tmp_path / "site/nvidia" / name / "bin/nvcc", "")
    with pytest.raises(ToolkitError, match="hold 2 nvcc"):
        repair(tmp_path, compiler.cc)


def test_a_compiler_that_cannot_link(tree: Path, tmp_path: Path) -> None:
    cc = faketools.script(tmp_path / "cc", "echo ld: cannot find -lc; exit 1")
    with pytest.raises(ToolkitError, match=r"stub of libcuda\.so\.1 cannot be linked: ld: cannot find"):
        repair(tree, cc)
