"""Makes small wheels, well-formed or not, the way tests need them."""

from __future__ import annotations

import base64
import hashlib
import stat
import zipfile
from typing import TYPE_CHECKING

from orchestrator.model.lock import LockedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXECUTABLE = stat.S_IFREG | 0o755
PLAIN = stat.S_IFREG | 0o644


def make_wheel(
    folder: Path,
    name: str,
    files: Mapping[str, bytes | str | tuple[bytes, int]],
    *,
    version: str = "1.0",
    dist_info: bool = True,
) -> tuple[LockedFile, Path]:
    """Write a wheel and return it as a lock would name it.

    Args:
        folder: where it goes.
        name: distribution name, normalized.
        files: path in the wheel -> bytes, text, or (bytes, Unix mode).
        version: of the distribution.
        dist_info: False leaves it out.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    record: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            data, mode = content if isinstance(content, tuple) else (content, PLAIN)
            data = data.encode() if isinstance(data, str) else data
            info = zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{member},sha256={digest},{len(data)}")
        if dist_info:
            place = f"{stem}.dist-info"
            metadata = {
                f"{place}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                f"{place}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            }
            for member, text in metadata.items():
                archive.writestr(member, text)
                digest = (
                    base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
                )
                record.append(f"{member},sha256={digest},{len(text.encode())}")
            archive.writestr(f"{place}/RECORD", "\n".join([*record, f"{place}/RECORD,,"]) + "\n")
    data = path.read_bytes()
    locked = LockedFile(
        name=name, version=version, file=path.name, sha256=hashlib.sha256(data).hexdigest(), size=len(data)
    )
    return locked, path
