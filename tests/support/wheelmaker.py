"""Small wheels, and layers as they lie unpacked, made in a test."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def contents(name: str, version: str, files: Mapping[str, str], *, entry_points: str = "") -> dict[str, str]:
    """Return path -> text of a wheel's files, with metadata and a right RECORD."""
    info = f"{name}-{version}.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if entry_points:
        everything[f"{info}/entry_points.txt"] = entry_points
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in everything.items()]
    everything[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    return everything


def make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str], *, entry_points: str = ""
) -> Path:
    """Write a wheel and return its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in contents(name, version, files, entry_points=entry_points).items():
            archive.writestr(inside, text)
    return path


def make_layer(
    layer: Path, name: str, version: str, files: Mapping[str, str], *, entry_points: str = ""
) -> Path:
    """Unpack a distribution into `layer/site` and return the layer."""
    for inside, text in contents(name, version, files, entry_points=entry_points).items():
        target = layer / "site" / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return layer


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
