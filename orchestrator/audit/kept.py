"""A few ranges of bytes kept as a file passes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kept:
    """Ranges, each from start up to stop, of a file that comes in pieces.

    Args:
        ranges: in order, without overlap.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = [(start, stop, bytearray()) for start, stop in ranges]
        self._next = 0

    def feed(self, at: int, piece: bytes) -> None:
        """Take the bytes that lie at offset `at`, which is where the piece before ended."""
        end = at + len(piece)
        while self._next < len(self._ranges):
            start, stop, kept = self._ranges[self._next]
            if start >= end:
                return
            first = max(start, at)
            if first < min(stop, end):
                kept += memoryview(piece)[first - at : min(stop, end) - at]
            if stop > end:
                return
            self._next += 1

    @property
    def done(self) -> bool:
        """Whether all ranges have passed."""
        return self._next == len(self._ranges)

    def read(self, offset: int, size: int) -> bytes | None:
        """Return `size` bytes at `offset`, or None when they were not kept, or have not come."""
        for start, _, kept in self._ranges:
            if start <= offset and offset + size <= start + len(kept):
                return bytes(memoryview(kept)[offset - start : offset - start + size])
        return None
