"""Walks through folder trees of any depth, from the inside out, that no link and no other disk leads out of.

`os.walk` and `shutil.rmtree` recurse or build long paths (before Python 3.13), and a build may leave a
tree thousands of folders deep. Here every step goes by a descriptor of the folder at hand, of which at
most two are open, and the way back up is checked by device and inode.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK = os.O_PATH | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_RWX = stat.S_IRWXU


@dataclass(frozen=True, slots=True)
class _Step:
    """A folder just entered, or just left; `folder` is open until the next step."""

    folder: int
    """Descriptor: of the folder that was entered, or of the one around the one that was left."""
    names: tuple[str, ...]
    """What is no folder in the one that was entered; or the name of the one that was left."""
    left: bool


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with locked parts; what resists, or is mounted inside, is left."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
    except OSError:
        return
    for step in _walk(path, unlock=True):
        for name in step.names:
            with suppress(OSError):
                if step.left:
                    os.rmdir(name, dir_fd=step.folder)
                else:
                    os.unlink(name, dir_fd=step.folder)


def files(path: Path) -> Iterator[os.stat_result]:
    """Yield the stat of all files in a tree, links not followed; what vanishes meanwhile is left out."""
    with suppress(OSError):
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode):
            yield seen
            return
    for step in _walk(path, unlock=False):
        for name in () if step.left else step.names:
            with suppress(OSError):
                yield os.stat(name, dir_fd=step.folder, follow_symlinks=False)


def _walk(top: Path, *, unlock: bool) -> Iterator[_Step]:
    """Yield each folder of a tree twice: when it is entered, and when all inside it was left.

    Folders that cannot be entered are passed over; `unlock` makes them enterable first.
    """
    try:
        here = os.open(top.parent, _LOOK)
    except OSError:
        return
    try:
        places = [_place(here)]
        pending = [[top.name]]
        entered: list[str] = []
        device: int | None = None
        while True:
            if pending[-1]:
                name = pending[-1].pop()
                inside = _enter(here, name, device=device, unlock=unlock)
                if inside is None:
                    continue
                os.close(here)
                here = inside
                places.append(_place(here))
                device = places[-1][0]
                entered.append(name)
                others, folders = _entries(here)
                pending.append(folders)
                yield _Step(here, others, left=False)
            elif entered:
                places.pop()
                pending.pop()
                around = os.open("..", _LOOK, dir_fd=here)
                os.close(here)
                here = around
                if _place(here) != places[-1]:
                    return  # somebody moved the folder away while we were in it
                yield _Step(here, (entered.pop(),), left=True)
            else:
                return
    except OSError:
        return  # the folder at hand was taken away or locked: what is left is the caller's to see
    finally:
        os.close(here)


def _enter(around: int, name: str, *, device: int | None, unlock: bool) -> int | None:
    """Open a folder inside another; None when it cannot be read, or lies on another device."""
    folder: int | None = None
    try:
        try:
            folder = os.open(name, _READ, dir_fd=around)
        except OSError as error:
            if not unlock or error.errno != errno.EACCES:
                return None
            _unlock(around, name, device=device)
            folder = os.open(name, _READ, dir_fd=around)
        seen = os.fstat(folder)
        if device is None or seen.st_dev == device:
            if unlock and seen.st_mode & _RWX != _RWX:
                os.fchmod(folder, _RWX)
            if os.access(".", os.X_OK, dir_fd=folder):
                found, folder = folder, None
                return found
    except OSError:
        return None
    finally:
        if folder is not None:
            os.close(folder)
    return None


def _unlock(around: int, name: str, *, device: int | None) -> None:
    """Make an unreadable folder ours to read; never what a link points to, nor a mounted one."""
    held = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=around)
    try:
        if device is None or os.fstat(held).st_dev == device:
            # fchmod refuses such a descriptor; its name in /proc is the folder itself.
            Path(f"/proc/self/fd/{held}").chmod(_RWX)
    finally:
        os.close(held)


def _entries(folder: int) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of what is no folder, and of folders."""
    others: list[str] = []
    folders: list[str] = []
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return tuple(others), folders


def _place(folder: int) -> tuple[int, int]:
    seen = os.fstat(folder)
    return seen.st_dev, seen.st_ino
