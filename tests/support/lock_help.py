"""A package index on disk with wheels that have requirements and tags, for the resolver."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.source.pipconfig import IndexConfig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shelf:
    """The index: `simple/<name>/index.html` and the files beside it."""

    root: Path

    @property
    def config(self) -> IndexConfig:
        """What pip would be configured for if this were its only index."""
        return IndexConfig(index_urls=(f"{self.root.as_uri()}/simple",), find_links=())

    def wheel(
        self,
        name: str,
        version: str,
        *,
        requires: Sequence[str] = (),
        tags: str = "py3-none-any",
        hashed: bool = True,
    ) -> Path:
        """Add a wheel without code."""
        path = self._folder(name) / f"{name.replace('-', '_')}-{version}-{tags}.whl"
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n")
            wheel.writestr(f"{info}/RECORD", "")
        self._list(name, path, hashed=hashed)
        return path

    def sdist(self, name: str, version: str, *, requires: Sequence[str] = (), hashed: bool = True) -> Path:
        """Add an sdist whose setup.py, if anything ran it, would fail."""
        told = "".join(f"Requires-Dist: {each}\n" for each in requires)
        stem = f"{name.replace('-', '_')}-{version}"
        path = self._folder(name) / f"{stem}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for member, text in (
                ("setup.py", "raise SystemExit('run')"),
                ("PKG-INFO", f"Metadata-Version: 2.1\n{told}"),
            ):
                entry = tarfile.TarInfo(f"{stem}/{member}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        self._list(name, path, hashed=hashed)
        return path

    def _folder(self, name: str) -> Path:
        folder = self.root / "simple" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _list(self, name: str, path: Path, *, hashed: bool) -> None:
        digest = f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}" if hashed else ""
        page = self._folder(name) / "index.html"
        former = page.read_text(encoding="utf-8") if page.exists() else "<!DOCTYPE html><html><body>\n"
        page.write_text(f'{former}<a href="{path.name}{digest}">{path.name}</a>\n', encoding="utf-8")
