"""The files of an artifact: taken in, compared by stat, compared by bytes."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import BuildFailedError
from orchestrator.store import atomic
from orchestrator.store.manifest import StoredFile, check_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_READ_ONLY = 0o444


def take_in(source: Path, folder: Path, *, link: bool) -> StoredFile:
    """Copy (or hard-link) a file into `folder`, synced, and say what it is.

    Raises:
        OSError: as the system says it.
    """
    path = folder / source.name
    if not (link and _linked(source, path)):
        shutil.copyfile(source, path)
    atomic.fsync_file(path)
    digest = atomic.sha256_file(path)
    seen = path.stat()
    return StoredFile(
        name=source.name, sha256=digest, size=seen.st_size, mtime_ns=seen.st_mtime_ns, inode=seen.st_ino
    )


def protect(paths: Iterable[Path]) -> None:
    """Make files read-only, against accidents; size, time and inode stay. Late: a link's source shares it."""
    for path in paths:
        with suppress(OSError):
            path.chmod(_READ_ONLY)


def looks_same(folder: Path, file: StoredFile) -> bool:
    """Tell whether size, time and inode are those of the manifest; no byte is read."""
    try:
        seen = os.stat(f"{folder}/{file.name}", follow_symlinks=False)  # noqa: PTH116 - a no-op run's time
    except (OSError, ValueError):
        return False
    return (seen.st_size, seen.st_mtime_ns, seen.st_ino) == (file.size, file.mtime_ns, file.inode)


def problem(folder: Path, file: StoredFile) -> str | None:
    """Hash a file and say how it differs from its manifest, or None."""
    path = folder / file.name
    try:
        check_file_name(file.name)
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode):
            return f"{file.name} is not a plain file"
        if seen.st_size != file.size:
            return f"{file.name} has {seen.st_size} bytes, expected {file.size}"
        found = atomic.sha256_file(path)
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"
    except BuildFailedError:
        return f"{file.name!r} is no name that a stored file can have"
    if found != file.sha256:
        return f"{file.name} has sha256 {found[:16]}, expected {file.sha256[:16]}"
    return None


def problems(folder: Path, files: tuple[StoredFile, ...]) -> str | None:
    """Hash all files of an artifact; return the first problem, or None."""
    if not files:
        return "manifest names no files"
    found = (problem(folder, file) for file in files)
    return next((text for text in found if text is not None), None)


def with_stat(folder: Path, file: StoredFile) -> StoredFile:
    """Return the entry with what stat says now; for bytes that were just found right.

    Raises:
        OSError: it is gone.
    """
    seen = (folder / file.name).lstat()
    return msgspec.structs.replace(file, size=seen.st_size, mtime_ns=seen.st_mtime_ns, inode=seen.st_ino)


def _linked(source: Path, path: Path) -> bool:
    if source.is_symlink():
        return False
    try:
        path.hardlink_to(source)
    except OSError:
        return False  # another file system, or one without links: copy
    return True
