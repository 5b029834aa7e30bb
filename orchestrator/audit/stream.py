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
ELF64_MAGIC = ELF_MAGIC + b"\x02\x01\x01"
"""How a 64-bit little endian ELF of the one version begins. The longer, the faster found."""
BLOCK = 1 << 18
"""Bytes searched at a time. Bounded, so that no search for one magic runs through what the other skips."""
_OVERLAP = len(ELF64_MAGIC) - 1


class _Magic:
    """Where one magic lies in the block that is searched. Whatever else is found, no byte is read thrice."""

    def __init__(self, magic: bytes) -> None:
        self._magic = magic
        self._next = self._last = -1

    def start(self, buffer: bytes, first: int, end: int, base: int) -> None:
        """Begin with the bytes [first, end) of a buffer whose own start lies at `base`."""
        # hardly any block holds one, and rfind takes half the time of find (CPython 3.11 to 3.13)
        found = buffer.rfind(self._magic, first, end)
        self._last = found + base if found >= 0 else -1
        self._next = -1

    def at_or_after(self, pos: int, buffer: bytes, base: int) -> int | None:
        """Return where the next one begins, at `pos` or later in the block."""
        if pos > self._last:
            return None
        if self._next < pos:
            end = self._last - base + len(self._magic)
            self._next = buffer.find(self._magic, pos - base, end) + base
        return self._next


class Stream(ABC):
    """Bytes from `pos` to `size`, forwards only."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes in all, as declared. What really comes may be less."""
        self.pos = 0
        self._magics: tuple[_Magic, ...] = ()
        self._searched = 0
        """Where the block ends that the magics know."""

    @abstractmethod
    def peek(self, count: int) -> bytes:
        """Return the next `count` bytes without taking them; fewer at the end."""

    @abstractmethod
    def skip(self, count: int) -> int:
        """Take up to `count` bytes and return how many there were."""

    @abstractmethod
    def remember(self, start: int, stop: int) -> None:
        """Keep the bytes [start, stop) too, for `recall`, as they pass; `start` must not lie behind."""

    @abstractmethod
    def recall(self, start: int, stop: int) -> bytes | None:
        """Return the bytes [start, stop) when one range that was remembered holds them and has passed."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all that was remembered."""

    @abstractmethod
    def _window(self) -> tuple[bytes, int]:
        """Return a buffer and the index of `pos` in it. It holds the longest magic, or all that is left."""

    def find_magic(self, stop: int) -> bool:
        """Go to the next magic of a fatbin or a 64-bit ELF that begins before `stop`, else to `stop`.

        Returns:
            Whether there is one at `pos`.
        """
        if not self._magics:
            self._magics = (_Magic(FATBIN_MAGIC), _Magic(ELF64_MAGIC))
        while self.pos < stop:
            buffer, index = self._window()
            base = self.pos - index
            if self._searched <= self.pos + _OVERLAP:
                end = min(len(buffer), index + BLOCK)
                self._searched = base + end
                for magic in self._magics:
                    magic.start(buffer, index, end, base)
            places = [magic.at_or_after(self.pos, buffer, base) for magic in self._magics]
            found = min((place for place in places if place is not None), default=stop)
            if found < stop:
                self.skip(found - self.pos)
                return True
            step = self._searched - _OVERLAP - self.pos
            if step <= 0:  # that was all there is
                self.skip(stop - self.pos)
                return False
            self.skip(min(step, stop - self.pos))
        return False


class MappedStream(Stream):
    """A file that is mapped, or bytes in memory. What is skipped is not read."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        super().__init__(len(data))
        self._data = data
        self._block = b""
        self._block_at = 0

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

    def forget(self) -> None:
        """Nothing to do."""

    def _window(self) -> tuple[bytes, int]:
        index = self.pos - self._block_at
        end = self._block_at + len(self._block)
        if self.pos + _OVERLAP >= end < self.size:
            self._block, self._block_at, index = self._data[self.pos : self.pos + BLOCK], self.pos, 0
        return self._block, index


class _Kept:
    """One range that is remembered, as far as it has passed."""

    def __init__(self, start: int, stop: int) -> None:
        self._start = start
        self._stop = stop
        self._data = bytearray()

    def save(self, at: int, chunk: bytes | memoryview) -> None:
        """Take what of the range lies in a chunk at `at`; chunks come in order."""
        first, last = max(self._start, at), min(self._stop, at + len(chunk))
        if first < last:
            self._data += memoryview(chunk)[first - at : last - at]

    def read(self, start: int, stop: int) -> bytes | None:
        """Return the bytes [start, stop), or None when they are not there."""
        first = self._start
        if not first <= start <= stop <= first + len(self._data):
            return None
        return bytes(memoryview(self._data)[start - first : stop - first])


class ChunkStream(Stream):
    """Chunks from an iterator; holds one chunk, or as much as was peeked, and what is to be remembered."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        super().__init__(size)
        self._chunks = chunks
        self._buffer = b""
        self._index = 0
        self._kept: list[_Kept] = []

    def _next(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    def _fill(self, count: int) -> None:
        held = len(self._buffer) - self._index
        if held >= count:
            return
        parts = [self._buffer[self._index :]] if held else []
        while held < count and (chunk := self._next()):
            self._save(self.pos + held, chunk)
            parts.append(chunk)
            held += len(chunk)
        self._buffer, self._index = parts[0] if len(parts) == 1 else b"".join(parts), 0

    def _save(self, at: int, chunk: bytes) -> None:
        for kept in self._kept:
            kept.save(at, chunk)

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
        kept = _Kept(start, stop)
        kept.save(self.pos, memoryview(self._buffer)[self._index :])
        self._kept.append(kept)

    def recall(self, start: int, stop: int) -> bytes | None:
        """See `Stream.recall`."""
        return next((found for kept in self._kept if (found := kept.read(start, stop)) is not None), None)

    def forget(self) -> None:
        """See `Stream.forget`."""
        self._kept = []

    def _window(self) -> tuple[bytes, int]:
        self._fill(_OVERLAP + 1)
        return self._buffer, self._index
