"""Judges what an archive would write, before anything is written. Pure: entries in, refusals out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import ArchiveRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Parts = tuple[str, ...]
_MAX_LINKS_FOLLOWED = 40
DEEPEST = 200
"""Folders in folders; what walks a tree by recursion ends at about 1,000."""
_LONGEST_NAME = 255
_LONGEST_PATH = 4095
"""Bytes: NAME_MAX, and PATH_MAX without its final zero (limits.h of Linux)."""
_LATEST = 0xFFFF_FFFF
"""Seconds since 1970, in 2106: file systems and zips know few later times."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive may become.

    Attributes:
        files: entries.
        ratio: unpacked bytes for each byte of the archive; small archives may exceed it up to `floor`.
        floor: bytes that every archive may unpack to.
        cap: bytes that no archive may exceed.
    """

    files: int = 200_000
    ratio: int = 200
    floor: int = 1 << 30
    cap: int = 64 << 30

    def total(self, archive_size: int) -> int:
        """Return the bytes that an archive of `archive_size` bytes may unpack to."""
        return min(max(self.ratio * archive_size, self.floor), self.cap)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, as the archive tells it.

    Attributes:
        name: path as written in the archive.
        kind: `other` is a device, a pipe or anything else that no source needs.
        size: bytes, as claimed.
        executable: whether its owner may run it.
        mtime: seconds since 1970.
        target: of links; for hard links the path of an earlier entry.
        path: parts of `name`, once judged.
    """

    name: str
    kind: Literal["file", "dir", "symlink", "hardlink", "other"]
    size: int = 0
    executable: bool = False
    mtime: float = 0.0
    target: str = ""
    path: Parts = ()


def mtime(told: float) -> float:
    """Return a time that a file can have: 0, which sets none, for what is none."""
    return min(told, float(_LATEST)) if told > 0 and told != float("inf") else 0.0


def within(entries: Iterable[Entry], *, limits: Limits, archive_size: int) -> Iterator[Entry]:
    """Pass entries on while they stay within the limits.

    Raises:
        ArchiveRefusedError: too many entries, or too many claimed bytes.
    """
    allowed = limits.total(archive_size)
    total = 0
    for count, entry in enumerate(entries, start=1):
        total += max(entry.size, 0)
        if count > limits.files:
            raise refused(f"it has more than {limits.files} entries")
        if total > allowed:
            raise refused(f"its {archive_size} bytes would become more than {allowed}")
        yield entry


def judge(entries: Sequence[Entry], *, strip_top: bool = True) -> list[Entry]:
    """Return the entries in order, each with the `path` it has below the root that is unpacked to.

    With `strip_top`, a single folder at the top, as sdists have it, is taken off.
    Entries for the root itself get no path.

    Raises:
        ArchiveRefusedError: an entry reaches outside, goes through a link, replaces one, or is a device.
    """
    placed = [replace(entry, path=_parts(entry.name)) for entry in entries]
    if strip_top:
        placed = _without_top(placed)
    links = {entry.path: entry.target for entry in placed if entry.kind == "symlink"}
    kinds: dict[Parts, str] = {}
    for entry in placed:
        _place(entry, kinds)
    for entry in placed:
        if entry.kind == "symlink":
            _resolve(entry, links)
    return _hard_links(placed)


def _place(entry: Entry, kinds: dict[Parts, str]) -> None:
    """Add an entry to what stands there so far."""
    if entry.kind == "other":
        raise refused(f"{entry.name!r} is no file, folder or link")
    if not entry.path and entry.kind != "dir":
        raise refused(f"{entry.name!r} would stand for the whole tree")
    for end in range(1, len(entry.path)):
        above = kinds.setdefault(entry.path[:end], "dir")
        if above == "symlink":
            raise refused(f"{entry.name!r} would be written through the link {'/'.join(entry.path[:end])!r}")
        if above != "dir":
            raise refused(f"{entry.name!r} lies below a file")
    before = kinds.get(entry.path)
    if before is not None and (before, entry.kind) not in {("file", "file"), ("dir", "dir")}:
        raise refused(f"{entry.name!r} stands there twice, as {before} and as {entry.kind}")
    kinds[entry.path] = entry.kind


def refused(what: str) -> ArchiveRefusedError:
    """Return the refusal; the caller adds which archive."""
    return ArchiveRefusedError(what)


def _parts(name: str) -> Parts:
    if name.startswith("/") or "\0" in name:
        raise refused(
            f"{name!r} is an absolute path" if name.startswith("/") else f"{name!r} is no file name"
        )
    if _bytes(name) > _LONGEST_PATH:
        raise refused(f"the path {name[:80]!r}… has more than {_LONGEST_PATH} bytes")
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if len(parts) > DEEPEST:
        raise refused(f"the path {name[:80]!r}… has more than {DEEPEST} folders")
    if any(_bytes(part) > _LONGEST_NAME for part in parts):
        raise refused(f"{name[:80]!r}… holds a name of more than {_LONGEST_NAME} bytes")
    if ".." in parts:
        raise refused(f"{name!r} leads out of its folder")
    return parts


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _without_top(entries: list[Entry]) -> list[Entry]:
    tops = {entry.path[0] for entry in entries if entry.path}
    if len(tops) != 1:
        return entries
    # A lone file, or a link that stands for the folder, is no folder.
    if any(len(entry.path) == 1 and entry.kind != "dir" for entry in entries):
        return entries
    return [replace(entry, path=entry.path[1:]) for entry in entries]


def _resolve(link: Entry, links: Mapping[Parts, str]) -> None:
    """Follow a symbolic link, through others, as the kernel would; it must stay below the root."""
    if link.target.startswith("/") or not link.target or "\0" in link.target:
        raise refused(f"the link {link.name!r} leads out: {link.target!r}")
    if _bytes(link.target) > _LONGEST_PATH:
        raise refused(f"the link {link.name!r} has a target of more than {_LONGEST_PATH} bytes")
    here = list(link.path[:-1])
    todo = link.target.split("/")
    followed = 1
    while todo:
        part = todo.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            if not here:
                raise refused(f"the link {link.name!r} leads out: {link.target!r}")
            here.pop()
            continue
        onward = links.get((*here, part))
        if onward is None:
            here.append(part)
            continue
        followed += 1
        if followed > _MAX_LINKS_FOLLOWED or onward.startswith("/"):
            raise refused(f"the link {link.name!r} leads in a circle, or out: {link.target!r}")
        todo = [*onward.split("/"), *todo]


def _hard_links(entries: list[Entry]) -> list[Entry]:
    """Replace the targets of hard links by paths below the root; each must name an earlier file."""
    stripped = max((len(_parts(entry.name)) - len(entry.path) for entry in entries), default=0)
    files: set[Parts] = set()
    out: list[Entry] = []
    for entry in entries:
        if entry.kind == "hardlink":
            target = _parts(entry.target)[stripped:]
            if target not in files:
                raise refused(f"the hard link {entry.name!r} names no earlier file: {entry.target!r}")
            out.append(replace(entry, target="/".join(target)))
        else:
            out.append(entry)
        if entry.kind in {"file", "hardlink"}:
            files.add(entry.path)
    return out


def folders(entries: Iterable[Entry]) -> list[Parts]:
    """Return every folder that the entries need, parents first."""
    needed = {
        entry.path[:end]
        for entry in entries
        for end in range(1, len(entry.path) + (1 if entry.kind == "dir" else 0))
    }
    return [path for path, _ in itertools.groupby(sorted(needed))]
