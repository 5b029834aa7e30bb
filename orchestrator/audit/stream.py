"""Bytes that are read once, forwards: from a mapped file, or in chunks as they are inflated.

A scan of a wheel must not hold a member of half a gigabyte, and a scan of a file on disk must not touch
the pages that it skips. Both are behind one small interface, so that there is one scanner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

FATBIN_MAGIC = b"\x50\xed\x55\xba"
ELF_MAGIC = b"\x7fELF"
BLOCK = 1 << 18
"""Bytes searched at a time. Bounded, so that no search for one magic runs through what the other skips."""
_OVERLAP = len(FATBIN_MAGIC) - 1


class Stream(ABC):
    """Bytes from `pos` to `size`, forwards only."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes in all, as declared. What really comes may be less."""
        self.pos = 0

    @abstractmethod
    def peek(self, count: int) -> bytes:
        """Return the next `count` bytes without taking them; fewer at the end."""

    @abstractmethod
    def skip(self, count: int) -> int:
        """Take up to `count` bytes and return how many there were."""

    @abstractmethod
    def remember(self, start: int, stop: int) -> None:
        """Keep the bytes [start, stop) for `recall`, now and as they pass; `start` must lie ahead."""

    @abstractmethod
    def recall(self, start: int, stop: int) -> bytes | None:
        """Return the bytes [start, stop) when they were remembered and have passed."""

    @abstractmethod
    def _window(self) -> tuple[bytes | mmap.mmap, int, int]:
        """Return a buffer, the index of `pos` in it, and the end of what it holds (some magic's length)."""

    def find_magic(self, stop: int) -> bool:
        """Go to the next fatbin or ELF magic that begins before `stop`, else to `stop`.

        Returns:
            Whether there is one at `pos`.
        """
        while self.pos < stop:
            buffer, index, held = self._window()
            ahead = min(held - index, BLOCK, stop - self.pos + _OVERLAP)
            if ahead <= _OVERLAP:
                self.skip(stop - self.pos)
                return False
            fatbin = buffer.find(FATBIN_MAGIC, index, index + ahead)
            until = index + ahead if fatbin < 0 else fatbin + _OVERLAP
            elf = buffer.find(ELF_MAGIC, index, until)
            found = elf if elf >= 0 else fatbin
            if found >= 0:
                self.skip(found - index)
                return True
            self.skip(ahead - _OVERLAP)
        return False


class MappedStream(Stream):
    """A file that is mapped, or bytes in memory. What is skipped is not read."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        super().__init__(len(data))
        self._data = data

    def peek(self, count: int) -> bytes:
        """See `Stream.peek`."""
        return self._data[self.pos : self.pos + count]

    def skip(self, count: int) -> int:
        """See `Stream.skip`."""
        taken = min(count, self.size - self.pos)
        self.pos += taken
        return taken

    def remember(self, start: int, stop: int) -> None:
        """Nothing to do: all stays at hand."""

    def recall(self, start: int, stop: int) -> bytes | None:
        """See `Stream.recall`."""
        return self._data[start:stop] if 0 <= start <= stop <= self.size else None

    def _window(self) -> tuple[bytes | mmap.mmap, int, int]:
        return self._data, self.pos, self.size


class ChunkStream(Stream):
    """Chunks from an iterator; holds one chunk, or as much as was peeked."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        super().__init__(size)
        self._chunks = chunks
        self._buffer = b""
        self._index = 0
        self._kept = bytearray()
        self._keep = (0, 0)

    def _next(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    def _fill(self, count: int) -> None:
        held = len(self._buffer) - self._index
        if held >= count:
            return
        parts = [self._buffer[self._index :]]
        while held < count and (chunk := self._next()):
            self._save(self.pos + held, chunk)
            parts.append(chunk)
            held += len(chunk)
        self._buffer, self._index = b"".join(parts), 0

    def _save(self, at: int, chunk: bytes) -> None:
        start, stop = self._keep
        first, last = max(start, at), min(stop, at + len(chunk))
        if first < last:
            self._kept += chunk[first - at : last - at]

    def peek(self, count: int) -> bytes:
        """See `Stream.peek`."""
        self._fill(count)
        return self._buffer[self._index : self._index + count]

    def skip(self, count: int) -> int:
        """See `Stream.skip`."""
        held = min(count, len(self._buffer) - self._index)
        self._index += held
        self.pos += held
        taken = held
        while taken < count and (chunk := self._next()):
            self._save(self.pos, chunk)
            step = min(count - taken, len(chunk))
            self._buffer, self._index = chunk, step
            self.pos += step
            taken += step
        return taken

    def remember(self, start: int, stop: int) -> None:
        """See `Stream.remember`."""
        self._keep = (start, stop)
        self._kept = bytearray()
        self._save(self.pos, self._buffer[self._index :])

    def recall(self, start: int, stop: int) -> bytes | None:
        """See `Stream.recall`."""
        first = self._keep[0]
        if start < first or stop < start or stop - first > len(self._kept):
            return None
        return bytes(self._kept[start - first : stop - first])

    def _window(self) -> tuple[bytes | mmap.mmap, int, int]:
        self._fill(len(FATBIN_MAGIC))
        return self._buffer, self._index, len(self._buffer)
