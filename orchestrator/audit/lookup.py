"""What is looked up while one file streams by: its table of sections, and which section holds what."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeVar

from orchestrator.audit import elf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.audit.stream import Stream

_TABLE_AT_MOST = 8 << 20
_NAMES_BEFORE = 1 << 16
"""Bytes kept in front of the table of sections: linkers put the section names there."""
_AGAIN = 8
"""Times the size of a file that may be read again to look up what has passed."""
Place = TypeVar("Place", elf.Section, elf.Segment)


def holders(places: Sequence[Place], offsets: Sequence[int]) -> list[Place | None]:
    """Return for each of the offsets, which ascend, the first place that holds it.

    An offset that is settled is stepped over from then on, so that places that all overlap cost no more.
    """
    found: list[Place | None] = [None] * len(offsets)
    onward = list(range(len(offsets) + 1))
    for place in places:
        at = _follow(onward, bisect_left(offsets, place.start))
        while at < len(offsets) and offsets[at] < place.stop:
            found[at] = place
            onward[at] = at + 1
            at = _follow(onward, at + 1)
    return found


def _follow(onward: list[int], at: int) -> int:
    """Return the first that is not settled, from `at` on; shorten the way for whoever comes next."""
    end = at
    while onward[end] != end:
        end = onward[end]
    while onward[at] != end:
        onward[at], at = end, onward[at]
    return end


class Again:
    """Opens a file anew to look up what has passed, as long as that stays in proportion."""

    def __init__(self, opened: Callable[[], Stream], size: int) -> None:
        self._opened = opened
        self._left = _AGAIN * size

    def read(self, start: int, length: int) -> bytes | None:
        """Return the bytes [start, start + length), or None when they cannot be had."""
        self._left -= start + length
        if self._left < 0:
            return None
        again = self._opened()
        if again.skip(start) != start:
            return None
        found = again.peek(length)
        return found if len(found) == length else None


class Tables:
    """The table of sections of one ELF, and the names it refers to."""

    def __init__(self, header: elf.ElfHeader, base: int, size: int) -> None:
        self._header = header
        self._base = base
        self._size = size

    def remember(self, stream: Stream) -> None:
        """Ask the stream to keep the table when it passes, and what lies before it."""
        at = self._header.sections_at
        if not elf.HEADER_SIZE <= at < self._size:
            return
        length = min(max(self._header.section_count, 1) * elf.SECTION_SIZE, _TABLE_AT_MOST, self._size - at)
        start = max(self._base + at - _NAMES_BEFORE, stream.pos)
        stream.forget()
        stream.remember(start, self._base + at + length)

    def sections(self, stream: Stream, again: Again) -> tuple[elf.Section, ...] | None:
        """Return the sections, or None when they cannot be had."""
        header = self._header
        if not header.sections_at:
            return None
        count = header.section_count
        if not count:
            first = self._bytes(stream, again, header.sections_at, elf.SECTION_SIZE)
            count = elf.section_count(first or b"")
        table = self._bytes(stream, again, header.sections_at, count * elf.SECTION_SIZE)
        place = elf.names_place(table, header) if table else None
        if not table or place is None:
            return None
        names = self._bytes(stream, again, place[0], place[1] - place[0])
        return None if names is None else elf.read_sections(table, names)

    def _bytes(self, stream: Stream, again: Again, at: int, length: int) -> bytes | None:
        if length > _TABLE_AT_MOST or at + length > self._size or at < 0:
            return None
        start = self._base + at
        kept = stream.recall(start, start + length)
        return again.read(start, length) if kept is None else kept
