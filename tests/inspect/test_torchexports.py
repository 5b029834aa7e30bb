"""Exports of a torch, from a folder and from a wheel. The libraries are real, but small."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from solibs import compiled, linked

from orchestrator.audit.linkage import check_linkage
from orchestrator.errors import SpecError
from orchestrator.inspect.torchexports import torch_exports

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {
    "libc10.so": "namespace c10 { void warn() {} }",
    "libtorch_cpu.so": 'namespace at { int empty() { return 1; } } extern "C" void aoti_torch_new() {}',
    "libtorch_python.so": "int THPVariable_Check(int x) { return x; }",
    "libother.so": "int other() { return 1; }",
}
EXPORTS = {"_ZN3c104warnEv", "_ZN2at5emptyEv", "aoti_torch_new", "_Z17THPVariable_Checki"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a torch."""
    folder = tmp_path_factory.mktemp("site")
    libraries = folder / "torch" / "lib"
    libraries.mkdir(parents=True)
    for name, source in SOURCES.items():
        compiled(libraries, name, source)
    return folder


def wheel(site: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(site.rglob("*.so")):
            archive.write(path, path.relative_to(site).as_posix())
    return target


def test_folder_and_wheel_say_the_same(site: Path, tmp_path: Path) -> None:
    found = torch_exports(site)
    assert found >= EXPORTS
    assert "_Z5otherv" not in found
    assert torch_exports(site / "torch") == found
    assert torch_exports(wheel(site, tmp_path / "torch-2.14.1-py3-none-any.whl")) == found


def test_a_library_built_against_it_passes_and_against_another_fails(site: Path, tmp_path: Path) -> None:
    libraries = site / "torch" / "lib"
    source = "namespace c10 { void warn(); } namespace at { int empty(); }"
    source += "int x() { c10::warn(); return at::empty(); }"
    built = compiled(tmp_path, "_C.so", source, libraries / "libc10.so", libraries / "libtorch_cpu.so")
    files = {"p/_C.so": linked(built)}
    exports = torch_exports(site)
    assert check_linkage(files, torch=exports, cuda_major=None) == {}
    (found,) = check_linkage(files, torch=exports - {"_ZN3c104warnEv"}, cuda_major=None)["p/_C.so"]
    assert (found.code, "c10::warn()" in found.text) == ("undefined-torch-symbol", True)


def test_places_without_torch(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no torch"):
        torch_exports(tmp_path)
    empty = tmp_path / "x.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("torch/__init__.py", "")
    with pytest.raises(SpecError, match="no torch"):
        torch_exports(empty)
    with pytest.raises(SpecError, match="no torch"):
        torch_exports(tmp_path / "missing")


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF\x02\x01".ljust(100, b"\0")])
def test_libraries_that_are_none(site: Path, tmp_path: Path, content: bytes) -> None:
    libraries = tmp_path / "torch" / "lib"
    libraries.mkdir(parents=True)
    (libraries / "libc10.so").write_bytes((site / "torch/lib/libc10.so").read_bytes())
    (libraries / "libtorch_cpu.so").write_bytes(content)
    with pytest.raises(SpecError, match="libtorch_cpu"):
        torch_exports(tmp_path)
    with pytest.raises(SpecError, match="libtorch_cpu"):
        torch_exports(wheel(tmp_path, tmp_path / "t.whl"))


def test_a_damaged_wheel(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "torch.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for library in sorted(site.rglob("*.so")):
            archive.write(library, library.relative_to(site).as_posix())
    path.write_bytes(path.read_bytes().replace(b"aoti_torch_new", b"aoti_torch_old"))
    with pytest.raises(SpecError, match="checksum"):
        torch_exports(path)
