"""Garbage collection: remove what nobody used for long, and what killed runs left.

Nothing that a live lease names is taken. Things are chosen and measured without a lock; then, under
`locks.guard`, under which leases are taken too, each is looked at again and renamed into the trash,
which is emptied after; what lies on another disk is renamed beside itself. A kill leaves some of it there,
for the next time.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.report.events import Note, silent
from orchestrator.store import atomic
from orchestrator.store.lease import read_leases
from orchestrator.store.locks import guard
from orchestrator.store.scan import Candidate, Links, candidates, idle_s, trash_folder

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that went, or would go."""

    kind: str
    """The folder it lay in, such as `layers` or `work`, or `temporary`."""
    name: str
    bytes: int
    """Apparent size."""
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What went, or would go."""

    items: tuple[Item, ...]
    bytes: int
    """What that frees: a file that something else links to as well does not count."""


def collect(
    home: Home,
    *,
    unused_for: timedelta,
    dry_run: bool = False,
    emit: Emit = silent,
    now: float | None = None,
) -> Collected:
    """Remove what nobody used for `unused_for`, and leftovers.

    Args:
        home: what to clean.
        unused_for: how long artifacts, layers, unpacked wheels and downloads may lie unused.
        dry_run: change nothing, only say what would go.
        emit: hears a warning for each thing that resists.
        now: seconds since the epoch; the clock by default.

    Raises:
        StoreError, NoSpaceError: the home cannot be written, or a folder of it not be read.
    """
    now = time.time() if now is None else now
    links = Links()
    chosen: list[tuple[Candidate, Item]] = []
    for found in candidates(home, read_leases(home, clean=False), unused_for=unused_for, now=now):
        if found.kind == "wheels" and links.shared(found.path):
            continue  # a layer that stays holds its files: nothing would be freed
        chosen.append((found, Item(found.kind, found.name, links.add(found.path), found.why)))
    if not dry_run and home.root.is_dir():
        chosen, links = _take(home, chosen, emit, now)
    return Collected(tuple(item for _, item in chosen), links.freed)


def _take(
    home: Home, chosen: list[tuple[Candidate, Item]], emit: Emit, now: float
) -> tuple[list[tuple[Candidate, Item]], Links]:
    """Remove the chosen that are still free to go; return them, and the links that went."""
    trash = trash_folder(home)
    taken: list[tuple[Candidate, Item]] = []
    doomed: list[Path] = []
    with guard(home), atomic.disk_errors(trash):
        trash.mkdir(exist_ok=True)
        leased = read_leases(home, clean=True)
        for found, item in chosen:
            if leased.covers(found.kind, found.name):
                continue
            if found.limit_s is not None and idle_s(found.path, now) < found.limit_s:
                continue
            moved = found.path if found.kind == "trash" else _to_trash(found.path, trash, emit)
            if moved is not None:
                taken.append((found, item))
                doomed.append(moved)
    links = Links()
    for path in doomed:
        links.add(path)
    for path in doomed:
        atomic.remove_tree(path)
        if os.path.lexists(path):
            emit(Note("warning", f"{path} could not be removed; remove it by hand"))
    return taken, links


def _to_trash(path: Path, trash: Path, emit: Emit) -> Path | None:
    target = trash / atomic.temporary_name(path.name)
    try:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)  # a read-only folder cannot be moved
        try:
            path.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            target = path.rename(path.with_name(target.name))
    except FileNotFoundError:
        return None
    except OSError as error:
        emit(Note("warning", f"{path} stays: {error.strerror}"))
        return None
    return target
