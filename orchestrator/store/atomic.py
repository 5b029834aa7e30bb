"""Writing that a kill at any point, or a full disk, leaves either undone or done.

Everything is made in a temporary beside its destination, synced, and renamed. Temporaries start with
`.` and hold `.tmp-`; a temporary folder is locked (flock) for as long as its maker lives, so that a
collector tells a leftover from work that goes on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.report.units import show_bytes
from orchestrator.store import trees

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

_TEMPORARY = re.compile(r"\.[^/]{1,100}\.tmp-[0-9a-f]{12}", re.DOTALL)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY)
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def temporary_name(name: str) -> str:
    """Return a fresh name for a temporary that is to become `name`; gc knows it by its form."""
    # A name may be up to 255 bytes long; the mark must still fit.
    return f".{name[:100]}.tmp-{secrets.token_hex(6)}"


def is_temporary(name: str) -> bool:
    """Tell whether `temporary_name` made this name."""
    return _TEMPORARY.fullmatch(name) is not None


def free_bytes(path: Path) -> int | None:
    """Return the bytes that this user can still write at `path` or its first parent that exists."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def no_space(where: Path | str, *, needed: int | None = None, quota: bool = False) -> NoSpaceError:
    """Return the error for a disk, or a quota, that is full or would be with `needed` bytes more."""
    free = free_bytes(Path(where))
    left = "" if free is None else f": {show_bytes(free)} free"
    wants = "" if needed is None else f", {show_bytes(needed)} needed"
    return NoSpaceError(
        f"no space left{' (quota)' if quota else ''}{left}{wants}",
        where=str(where),
        hint="`sparkbuild store gc` frees what was not used lately; SPARKBUILD_HOME names another disk",
    )


def disk_error(error: OSError, path: Path) -> StoreError | NoSpaceError:
    """Turn what the system said about writing at `path` into an error that says what to do."""
    where = str(error.filename or path)
    if error.errno in _FULL:
        return no_space(where, quota=error.errno == errno.EDQUOT)
    if error.errno in _DENIED:
        what = "the file system is read-only" if error.errno == errno.EROFS else "permission denied"
        return StoreError(
            what, where=where, hint="make the folder writable for you, or let SPARKBUILD_HOME name another"
        )
    if error.errno in _IN_THE_WAY:
        return StoreError(
            "a file lies where a folder should be, or the reverse", where=where, hint="move it away"
        )
    if error.errno == errno.EFBIG:
        return StoreError("the file is larger than allowed", where=where, hint="raise `ulimit -f`")
    return StoreError(
        (error.strerror or str(error)).lower(),
        where=where,
        hint="check the disk (`dmesg`), or let SPARKBUILD_HOME name a folder on another one",
    )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise what goes wrong inside as errors for people; `path` is what is being written.

    Raises:
        NoSpaceError: the disk or quota is full.
        StoreError: read-only, not permitted, or any other fault of the file system.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def fsync_dir(path: Path) -> None:
    """Make the entries of a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make the bytes of a file survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a whole file so that readers see the former bytes or these, never a mixture.

    Args:
        path: the file; its folder is made when missing.
        data: all of it.
        durable: sync to disk; False for caches that may be lost.

    Raises:
        NoSpaceError: the disk is full.
        StoreError: the file system refused otherwise.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(temporary_name(path.name))
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        if durable:
            fsync_dir(path.parent)


@contextmanager
def temporary_dir(parent: Path, name: str = "new") -> Iterator[Path]:
    """Yield a new folder in `parent`, locked while in use, and remove it unless it was renamed away.

    Raises:
        OSError: as the system says it; wrap with `disk_errors`.
    """
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / temporary_name(name)
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without flock: age decides there
            # Shared, because network file systems give an exclusive lock only to writers.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield folder
    finally:
        os.close(descriptor)
        remove_tree(folder)


def in_use(folder: Path) -> bool | None:
    """Tell whether the maker of a `temporary_dir` lives; None where the file system cannot tell."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def place_dir(temporary: Path, destination: Path) -> bool:
    """Rename a finished folder to where it belongs, unless something is there: then return False.

    Raises:
        OSError: as the system says it.
    """
    # An empty folder would be replaced by rename without a word, which is right: it holds nothing.
    try:
        temporary.rename(destination)
    except OSError as error:
        if error.errno in _TAKEN and os.path.lexists(destination):
            return False
        raise
    fsync_dir(destination.parent)
    return True


def remove_tree(path: Path) -> None:
    """Remove a file or a folder with locked parts; what resists or is gone already is left."""
    trees.remove(path)


def is_folder(path: Path) -> bool:
    """Tell whether this is a folder, or a link to one; no when the way there is locked."""
    try:
        return path.is_dir()
    except OSError:
        return False


def listed(folder: Path) -> list[Path]:
    """Return what lies in a folder of the store, by name; nothing when it is not there.

    Raises:
        StoreError: it is there and cannot be read.
    """
    with disk_errors(folder):
        try:
            return sorted(folder.iterdir())
        except FileNotFoundError:
            return []


def open_plain(path: Path, *, follow_links: bool = True) -> BufferedReader:
    """Open a plain file for reading; anything else, such as a pipe that nobody fills, is refused at once.

    Raises:
        OSError: not there, not readable, or not a plain file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, as lower-case hex.

    Raises:
        OSError: the file cannot be read.
    """
    import hashlib

    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
