"""A full disk, told as such; hashes of files; names that are safe to write."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import TYPE_CHECKING

from orchestrator.errors import MismatchError
from orchestrator.store.atomic import free_bytes, no_space, sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.store.home import Home

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def telling_full(where: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into a NoSpaceError that names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise no_space(where) from error


def need_space(where: Path, size: int) -> None:
    """Refuse to begin what cannot end.

    Args:
        where: a folder, that need not exist yet, on the disk in question.
        size: bytes.

    Raises:
        NoSpaceError: fewer than `size` bytes are free.
    """
    free = free_bytes(where)
    if free is not None and free < size:
        raise no_space(where, needed=size)


def verify(path: Path, file: LockedFile, *, came_from: str) -> None:
    """Compare a file with what the lock says of it.

    Raises:
        MismatchError: size or sha256 differ; says what was expected and what was found.
    """
    size = path.stat().st_size
    found = sha256_file(path)
    if (size, found) != (file.size, file.sha256):
        raise MismatchError(
            f"{file.file} is not the one in the lock: expected sha256 {file.sha256} ({file.size} bytes), "
            f"found {found} ({size} bytes)",
            where=came_from,
            hint="nothing was kept; if the publisher replaced the file on purpose, look at what changed, "
            "then run `sparkbuild lock`",
        )


def place_of(home: Home, file: LockedFile) -> Path:
    """Return where a verified file lies, or will.

    Raises:
        MismatchError: the lock's file name or sha256 is none, so that it could name any place.
    """
    if not _SHA256.fullmatch(file.sha256):
        raise MismatchError(f"{file.sha256!r} is no sha256", where=file.file, hint="make the lock again")
    if file.file in {"", ".", ".."} or "/" in file.file or "\0" in file.file:
        raise MismatchError(f"{file.file!r} is no file name", where=file.name, hint="make the lock again")
    return home.downloads / file.sha256 / file.file


def kept(home: Home, file: LockedFile) -> Path | None:
    """Return a file that was verified when it came and still has its size; one of another size goes."""
    path = place_of(home, file)
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    if size == file.size:
        return path
    path.unlink(missing_ok=True)
    return None


def keep(path: Path, home: Home, file: LockedFile) -> Path:
    """Move a verified file to its place, atomically and past a power failure."""
    place = place_of(home, file)
    place.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as written:
        os.fsync(written.fileno())
    path.replace(place)
    return place
