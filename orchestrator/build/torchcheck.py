"""Proof that no command replaced a locked package, torch above all, by dist-info and RECORD.

Nothing is imported for it.
A build script may install another torch over the locked one, and the wheel is then built against a stranger.
The state right after the environment was made is compared with the state after each command.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.errors import StoreError, TorchReplacedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One distribution as it was found."""

    name: str
    """Normalized (PEP 503)."""
    version: str
    dist_info: Path
    record_sha256: str
    search_path: tuple[Path, ...]
    files: dict[str, tuple[int, int]] = field(repr=False)
    """Path relative to the folder of dist-info -> size in bytes, mtime in ns."""
    others: tuple[Path, ...]
    """Further metadata of the same name; normally none."""
    shadows: tuple[Path, ...]
    """What is imported instead of its own top-level files, because it lies earlier on the path."""


def take(search_path: Sequence[Path], name: str, *, version: str) -> Snapshot:
    """Return what is found for `name` in `search_path` (an `Environment`'s), which must be `version`.

    Costs one stat for each file in its RECORD: about 0.1 s for torch.

    Raises:
        TorchReplacedError: nothing is found, or another version, or something else would be imported.
        StoreError: what is found lacks files, or has files of another size than its RECORD says.
    """
    seen = _look(tuple(search_path), _normalized(name), f"{name} {version}")
    if not _same_version(seen.version, version):
        raise _replaced(f"{name} {version}", f"{seen.name} {seen.version}", seen.dist_info)
    if seen.others or seen.shadows:
        raise _replaced(f"{name} {version} alone", f"also {(*seen.others, *seen.shadows)[0]}", seen.dist_info)
    return seen


def check(before: Snapshot) -> None:
    """Compare what is found now with `before`.

    Raises:
        TorchReplacedError: it is not the same; the message says what was expected and found.
    """
    wanted = f"{before.name} {before.version}"
    try:
        now = _look(before.search_path, before.name, wanted)
    except StoreError as error:
        raise _replaced(f"{wanted} unchanged", error.message, before.dist_info) from error
    if (now.dist_info, now.version) != (before.dist_info, before.version):
        raise _replaced(
            f"{wanted} in {before.dist_info.parent}",
            f"{now.version} in {now.dist_info.parent}",
            now.dist_info,
        )
    if now.others or now.shadows:
        raise _replaced(f"{wanted} alone", f"also {(*now.others, *now.shadows)[0]}", before.dist_info)
    if now.record_sha256 != before.record_sha256:
        raise _replaced(
            f"RECORD with sha256 {before.record_sha256[:16]}", f"{now.record_sha256[:16]}", before.dist_info
        )
    for path, state in before.files.items():
        if now.files[path] != state:
            found = f"{path} was written: {now.files[path][0]} bytes, {state[0]} before"
            raise _replaced(f"{wanted} unchanged", found, before.dist_info)


def _same_version(one: str, other: str) -> bool:
    if one == other:
        return True
    from packaging.version import InvalidVersion, Version

    try:  # 1.0 and 1.0.0, or a local version whose `-` became `_` in the name of dist-info
        return Version(one) == Version(other)
    except InvalidVersion:
        return False


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _replaced(expected: str, found: str, where: Path) -> TorchReplacedError:
    return TorchReplacedError(
        f"a command changed a locked package: expected {expected}, found {found}",
        where=str(where),
        hint="the project's build installs packages by itself; patch that out of its build script",
    )


def _look(search_path: tuple[Path, ...], name: str, wanted: str) -> Snapshot:
    found = [entry for folder in search_path for entry in _metadata_of(folder, name)]
    if not found:
        raise TorchReplacedError(
            f"expected {wanted}, found no dist-info for it",
            where=":".join(map(str, search_path)),
            hint="the layer is damaged, or a command removed it; remove the layer and run again",
        )
    first = found[0]
    version = first.name.removesuffix(".dist-info").removesuffix(".egg-info").partition("-")[2]
    try:
        record = (first / "RECORD").read_bytes()
    except OSError as error:
        raise StoreError(
            f"{first.name} has no RECORD", where=str(first), hint="remove the layer; it is made again"
        ) from error
    files = _files(first.parent, record)
    tops = {path.partition("/")[0] for path in files} - {first.name}
    earlier = search_path[: search_path.index(first.parent)]
    shadows = [folder / top for folder in earlier for top in sorted(tops) if (folder / top).exists()]
    return Snapshot(
        name=name,
        version=version,
        dist_info=first,
        record_sha256=hashlib.sha256(record).hexdigest(),
        search_path=search_path,
        files=files,
        others=tuple(found[1:]),
        shadows=tuple(shadows),
    )


def _metadata_of(folder: Path, name: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix in (".dist-info", ".egg-info", ".egg-link")
        and _normalized(entry.stem.partition("-")[0]) == name
    )


def _files(root: Path, record: bytes) -> dict[str, tuple[int, int]]:
    """Return size and mtime of each file that RECORD names inside `root`; sizes must be RECORD's."""
    files = {}
    for row in csv.reader(io.StringIO(record.decode("utf-8", "replace"))):
        if not row or row[0].startswith(("../", "/")) or ".data/" in row[0].partition("/")[0] + "/":
            continue  # scripts and data lie elsewhere in a layer
        try:
            status = (root / row[0]).stat()
        except OSError as error:
            raise StoreError(
                f"{row[0]} is missing", where=str(root), hint="remove the layer; it is made again"
            ) from error
        size = row[2] if len(row) > 2 else ""  # noqa: PLR2004 - path, hash, size
        if size and status.st_size != int(size):
            text = f"{row[0]} has {status.st_size} bytes, its RECORD says {size}"
            raise StoreError(text, where=str(root), hint="remove the layer; it is made again")
        files[row[0]] = (status.st_size, status.st_mtime_ns)
    return files
