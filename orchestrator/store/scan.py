"""What gc may take: the things of a home, how long nobody used them, and what removing them frees.

Only what bears a name that this program gives is a candidate, see `names`: the folders may be links to
places where other things lie.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.store import atomic, names, trees
from orchestrator.store.stamps import last_used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from orchestrator.store.home import Home
    from orchestrator.store.lease import Leased

TREE_S = 3 * 24 * 3600
"""Build trees that a build can go on in stay for so long: they are large."""
KEPT_S = 30 * 24 * 3600
"""Logs and quarantined bytes stay for 30 days, seconds."""
GRACE_S = 60
"""A temporary so young may be one whose maker has not locked it yet."""
FILE_GRACE_S = 3600
"""Single temporary files are not locked; none is written for an hour."""
FOREIGN_GRACE_S = 24 * 3600
"""With runs going on, temporaries of unknown makers are theirs for a day."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may go: `bytes` is its own size, hard links counted as if there were one."""

    kind: str
    name: str
    path: Path
    why: str
    limit_s: float | None
    """It goes only while unused for so long; None: whatever its age."""


class Links:
    """Counts the hard links that a set of trees holds, and so what removing the set frees."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], list[int]] = {}  # inode -> [links in the set, links at all, bytes]

    def add(self, path: Path) -> int:
        """Add a tree, or a single file, to the set; return its apparent size in bytes."""
        total = 0
        for seen in trees.files(path):
            total += seen.st_size
            entry = self._seen.setdefault((seen.st_dev, seen.st_ino), [0, seen.st_nlink, seen.st_size])
            entry[0] += 1
        return total

    def shared(self, path: Path) -> bool:
        """Tell whether a file of the tree is also linked from outside of the set and the tree."""
        own: dict[tuple[int, int], int] = {}
        links: dict[tuple[int, int], int] = {}
        for seen in trees.files(path):
            inode = (seen.st_dev, seen.st_ino)
            own[inode] = own.get(inode, 0) + 1
            links[inode] = seen.st_nlink
        return any(links[inode] > own[inode] + self._seen.get(inode, [0])[0] for inode in own)

    @property
    def freed(self) -> int:
        """Bytes that go with the set: those of files without a link from outside."""
        return sum(size for count, links, size in self._seen.values() if count >= links)


def candidates(home: Home, leased: Leased, *, unused_for: timedelta, now: float) -> Iterator[Candidate]:
    """Yield what may go. Unpacked wheels come last: whether a layer holds them is for the caller to see."""
    limit = unused_for.total_seconds()
    yield from _leftovers(home, leased, now)
    for path in _list(home.work, names.is_tree):
        kept = min(limit, TREE_S)
        if not leased.covers("work", path.name) and idle_s(path, now) >= kept:
            why = f"a build tree that nobody went on in for {days(idle_s(path, now))}"
            yield Candidate("work", path.name, path, why, kept)
    for kind, folder in _kept_while_used(home):
        for path in _mirrors(folder) if kind == "git" else _keyed(folder):
            if not leased.covers(kind, path.name) and idle_s(path, now) >= limit:
                yield Candidate(kind, path.name, path, f"not used for {days(idle_s(path, now))}", limit)


def trash_folder(home: Home) -> Path:
    """Return where things wait for their removal; nothing is ever read from there."""
    return home.root / "trash"


def idle_s(path: Path, now: float) -> float:
    """Return for how many seconds nobody used `path`; -inf when it is gone."""
    try:
        return now - last_used(path)
    except OSError:
        return float("-inf")


def days(seconds: float) -> str:
    """Return a duration for people: `45 days`, `3 hours`, `0 minutes`."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // size)
        if count >= 1 or unit == "minute":
            return f"{max(count, 0)} {unit}{'' if count == 1 else 's'}"
    raise AssertionError


def _kept_while_used(home: Home) -> tuple[tuple[str, Path], ...]:
    return (
        ("artifacts", home.artifacts),
        ("rejected", home.rejected),
        ("downloads", home.downloads),
        ("git", home.git),
        ("layers", home.layers),
        ("wheels", home.wheels),
    )


def _leftovers(home: Home, leased: Leased, now: float) -> Iterator[Candidate]:
    for path in _list(trash_folder(home), atomic.is_temporary):
        yield Candidate("trash", path.name, path, "left by a stopped gc", None)
    for path in _list(home.work, names.is_run):
        if not leased.covers("work", path.name):
            yield Candidate("work", path.name, path, "its run has ended", None)
    for kind, folder, ours in (
        ("logs", home.logs, names.is_run),
        ("quarantine", home.quarantine, names.is_quarantined),
    ):
        for path in _list(folder, ours):
            if not leased.covers(kind, path.name) and idle_s(path, now) >= KEPT_S:
                yield Candidate(kind, path.name, path, f"{days(idle_s(path, now))} old", KEPT_S)
    for path in _temporaries(home):
        limit = _temporary_limit(path, leased)
        if limit is not None and now - _newest(path) >= limit:
            yield Candidate("temporary", path.name, path, "left by a killed run", None)


def _temporaries(home: Home) -> Iterator[Path]:
    kept = (folder for _, folder in _kept_while_used(home))
    for folder in (home.root, home.work, home.logs, home.quarantine, *kept):
        yield from _list(folder, atomic.is_temporary)
    yield from _list(home.downloads, names.is_pip_temporary)
    yield from (path for path in _inside(home.downloads / names.PARTS) if names.is_key(path.name))
    for folder in (home.artifacts, home.rejected):
        for artifact in _keyed(folder):
            yield from (path for path in _inside(artifact) if atomic.is_temporary(path.name))


def _temporary_limit(path: Path, leased: Leased) -> float | None:
    """Return from which age on a temporary is a leftover, in seconds; None: it is in use."""
    if path.is_symlink() or not atomic.is_folder(path):
        return FILE_GRACE_S
    lives = atomic.in_use(path)
    if lives:
        return None
    # Those of `atomic.temporary_dir` are locked by their makers; of others only runs can tell.
    if lives is not None and (atomic.is_temporary(path.name) or not leased.runs):
        return GRACE_S
    return FOREIGN_GRACE_S


def _newest(path: Path) -> float:
    times = [time.time()]  # gone already: too young to take
    with suppress(OSError):
        times = [path.lstat().st_mtime]
    for inside in _inside(path):
        with suppress(OSError):
            times.append(inside.lstat().st_mtime)
    return max(times)


def _keyed(folder: Path) -> list[Path]:
    """Return the folders in `folder` that a key or a sha256 names."""
    return [path for path in _list(folder, names.is_key) if atomic.is_folder(path)]


def _mirrors(folder: Path) -> list[Path]:
    """Return the mirrors of repositories; a folder of git's own making has no other name here."""
    return [path for path in _list(folder, names.is_mirror) if atomic.is_folder(path)]


def _list(folder: Path, ours: Callable[[str], bool]) -> list[Path]:
    """Return what is ours in a folder of the home.

    Raises:
        StoreError: it is there and cannot be read.
    """
    return [path for path in atomic.listed(folder) if ours(path.name)]


def _inside(path: Path) -> list[Path]:
    """Return what lies in a folder that is no link, as far as it can be read."""
    try:
        return [] if path.is_symlink() else sorted(path.iterdir())
    except OSError:
        return []
