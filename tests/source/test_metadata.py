"""Requirements read from wheels and sdists, and the wheel that stands in for one that is not built yet."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import SourceError
from orchestrator.source.metadata import sdist_requires, stand_in, wheel_requires

if TYPE_CHECKING:
    from pathlib import Path

TOLD = ("torch==2.14.0", 'einops>=0.8; python_version >= "3.11"')


def sdist(folder: Path, members: dict[str, str]) -> Path:
    path = folder / "x-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_a_stand_in_says_what_it_was_told(tmp_path: Path) -> None:
    path = stand_in(tmp_path, "flash-attn", "2.8.3.post2", TOLD)
    assert path.name == "flash_attn-2.8.3.post2-py3-none-any.whl"
    assert wheel_requires(path) == TOLD


def test_an_sdist_says_it_in_its_own_file_only(tmp_path: Path) -> None:
    fields = "".join(f"Requires-Dist: {each}\n" for each in ("torch", "b@d@d", "c d"))
    own = f"Metadata-Version: 2.2\nName: x\n{fields}\nRequires-Dist: body\n"
    members = {"x-1.0/x.egg-info/PKG-INFO": "Requires-Dist: other\n", "x-1.0/PKG-INFO": own}
    assert sdist_requires(sdist(tmp_path, members)) == ("torch",)
    assert sdist_requires(sdist(tmp_path, {"x-1.0/PKG-INFO": "Name: x\n"})) is None
    assert sdist_requires(sdist(tmp_path, {"x-1.0/setup.py": ""})) is None


def test_an_sdist_that_is_a_zip_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x-1.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x-1.0/PKG-INFO", "Requires-Dist: torch\n")
    assert sdist_requires(path) is None


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x-1.0-py3-none-any.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(SourceError, match="cannot be read"):
        wheel_requires(path)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("deeper/x-1.0.dist-info/METADATA", "")
    with pytest.raises(SourceError, match="no METADATA"):
        wheel_requires(path)
    whole = sdist(tmp_path, {"x-1.0/big": "x" * 100_000, "x-1.0/PKG-INFO": "Name: x\n"})
    whole.write_bytes(whole.read_bytes()[:60])
    with pytest.raises(SourceError, match="cannot be read"):
        sdist_requires(whole)
