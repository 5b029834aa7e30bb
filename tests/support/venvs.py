"""Virtual environments for tests: real ones, in which wheels are unpacked as an installer does."""

from __future__ import annotations

import sys
import venv
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelhouse import make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Venv:
    """A virtual environment without pip."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Venv:
        """Make one of the running Python."""
        venv.create(root, symlinks=True)
        return cls(root)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python3"

    @property
    def site(self) -> Path:
        """Where packages lie."""
        return self.root / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"

    def install(
        self, name: str, files: Mapping[str, bytes | str | tuple[bytes, int]], *, version: str = "1.0"
    ) -> Path:
        """Unpack a wheel of these files; return its `.dist-info`."""
        _, wheel = make_wheel(self.root, name, files, version=version)
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = self.site / archive.extract(member, self.site)
                path.chmod((member.external_attr >> 16) & 0o777 or 0o644)
        return self.site / f"{name.replace('-', '_')}-{version}.dist-info"
