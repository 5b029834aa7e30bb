"""A full disk, told as such; hashes of files; names that are safe to write."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from typing import TYPE_CHECKING

from orchestrator.errors import MismatchError
from orchestrator.report.events import Note
from orchestrator.store.atomic import free_bytes, no_space, remove_tree, sha256_file
from orchestrator.store.locks import guard
from orchestrator.store.quarantine import quarantine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home

_SHA256 = re.compile(r"[0-9a-f]{64}")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def telling_full(where: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into a NoSpaceError that names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
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


def kept(home: Home, file: LockedFile) -> tuple[Path | None, str]:
    """Look for a kept file, and hash it: disks rot, and a flipped byte must not reach a build.

    Returns:
        Its path, when it holds what the lock says, else None; and what is wrong with what lies there
        instead, empty when nothing does. Nothing but a plain file is opened: a pipe would never end.
    """
    path = place_of(home, file)
    try:
        fault = _fault(path, file)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        fault = f"it cannot be read: {error.strerror}"
    return (None, fault) if fault else (path, "")


def _fault(path: Path, file: LockedFile) -> str:
    if not stat.S_ISDIR(path.parent.lstat().st_mode):
        return "a file or link lies where its folder should be"
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    if found.st_size != file.size:
        return f"expected {file.size} bytes, found {found.st_size}"
    digest = sha256_file(path)
    return "" if digest == file.sha256 else f"expected sha256 {file.sha256}, found {digest}"


def discard(home: Home, file: LockedFile, fault: str, emit: Emit) -> None:
    """Move what lies where a file should be to the quarantine; call it under the file's download lock.

    Raises:
        StoreError, NoSpaceError: it could not be moved.
    """
    place = place_of(home, file)
    bad = place if place.parent.is_dir() and not place.parent.is_symlink() else place.parent
    with guard(home):
        quarantine(home, bad, fault)
    emit(Note("warning", f"{file.file} was damaged since it came ({fault}); it is downloaded again"))


def only_plain(part: Path) -> None:
    """Clear the way for a partial download: whatever is no plain file goes."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(part.lstat().st_mode):
            remove_tree(part)


def keep(path: Path, home: Home, file: LockedFile) -> Path:
    """Move a verified file to its place, atomically and past a power failure."""
    place = place_of(home, file)
    place.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as written:
        os.fsync(written.fileno())
    path.replace(place)
    return place
