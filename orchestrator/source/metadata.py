"""What a distribution says that it requires, read from its wheel or sdist; nothing of it is run."""

from __future__ import annotations

import tarfile
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from orchestrator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LARGEST = 4 << 20
"""Bytes of a METADATA file; vLLM's, with its readme, has 20 KB."""


def wheel_requires(path: Path) -> tuple[str, ...]:
    """Return the Requires-Dist fields of a wheel, as they stand there.

    Raises:
        SourceError: it is no wheel, or has no METADATA.
    """
    try:
        with zipfile.ZipFile(path) as wheel:
            names = [info for info in wheel.infolist() if _is_metadata(info.filename)]
            if len(names) != 1 or names[0].file_size > _LARGEST:
                raise SourceError(f"{path.name} has no METADATA that could be read", where=str(path))
            return _requires(wheel.read(names[0]))
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise SourceError(f"{path.name} cannot be read: {error}", where=str(path)) from error


def sdist_requires(path: Path) -> tuple[str, ...] | None:
    """Return the Requires-Dist fields of an sdist's PKG-INFO; None when it has none or is no tarball.

    setuptools writes there what setup.py said on the publisher's machine.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.count("/") == 1 and member.name.endswith("/PKG-INFO") and member.isreg():
                    stream = archive.extractfile(member)
                    if stream is None or member.size > _LARGEST:
                        return None
                    return _requires(stream.read()) or None
    except tarfile.ReadError:
        return None
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SourceError(f"{path.name} cannot be read: {error}", where=str(path)) from error
    return None


def stand_in(folder: Path, name: str, version: str, requires: Sequence[str]) -> Path:
    """Write a wheel without content that requires the same, for the resolver's eyes only.

    What a stack builds has no wheel yet; with this, a conflict is told in the distribution's own name.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join([*lines, "", ""]))
        wheel.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def _is_metadata(name: str) -> bool:
    return name.count("/") == 1 and name.endswith(".dist-info/METADATA")


def _requires(text: bytes) -> tuple[str, ...]:
    """Return each requirement in the spelling of `packaging`: one line, whatever stood in the file."""
    from packaging.requirements import InvalidRequirement, Requirement

    message = HeaderParser().parsestr(text.decode("utf-8", errors="replace"))
    found = []
    for field in message.get_all("Requires-Dist") or ():
        try:
            requirement = Requirement(str(field))
        except InvalidRequirement:
            continue  # setuptools of old wrote some that pip passes over, too
        if requirement.url is None:  # an index takes no others
            found.append(str(requirement))
    return tuple(found)
