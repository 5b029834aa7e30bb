"""The members of a wheel as streams: inflated in chunks, checked against the central directory.

Sizes and checksums come from the central directory (APPNOTE 4.3.12), which zip64 and data descriptors
leave right. `zipfile` reads that; the bytes are inflated here, since its own reader costs a quarter more.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from orchestrator.audit.findings import Finding
from orchestrator.audit.stream import ChunkStream
from orchestrator.errors import SpecError
from orchestrator.inspect.inflate import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

CHUNK = 1 << 18
_COMPRESSED_CHUNK = 1 << 18
_FRONT = 1 << 10
"""Bytes of a local header, and of what its member begins with, that are enough to tell most members."""
_AHEAD = 1 << 18
"""Bytes read there at once: most members are small, and lie behind each other."""
_FIRST_CHUNK = 1024
"""Most members are text, which their first bytes tell."""
_READ_WHOLE = (".so", ".cubin", ".fatbin", ".a")
"""Endings of members that mostly are read to their end. Only how much is inflated first depends on it."""
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_CENTRAL_MAGIC = b"PK\x01\x02"
_ENCRYPTED = 1
_MEMBERS_AT_MOST = 100_000
"""The most seen is 16,017, in flashinfer-cubin 0.6.13."""
_DIRECTORY_AT_MOST = 24 << 20
_RATIO = 64
"""What is read may be this many times as large as the wheel. Wheels of libraries unpack to three times."""
_SPARE = 512 << 20
_SHOWN = 20


@dataclass(slots=True)
class Damage:
    """What went wrong while the bytes of a member came; empty when nothing did."""

    text: str = ""


class _Opened(io.BufferedReader):
    """A file as `zipfile` reads it: no central directory is taken that is larger than any wheel's."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_AT_MOST:
            raise zipfile.BadZipFile(f"its table of contents has {size:,} bytes")
        data = super().read(size)
        if data.count(_CENTRAL_MAGIC) > _MEMBERS_AT_MOST:
            raise zipfile.BadZipFile(f"it has more than {_MEMBERS_AT_MOST:,} members")
        return data


class WheelFile:
    """An open wheel.

    Raises:
        SpecError: there is no such file, or it is no complete zip archive.
    """

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        """Open it.

        Args:
            path: the file.
            hashed: hash what is read, so that RECORD need not read it again.
        """
        self.path = path
        self._hashed = hashed
        self.digests: dict[str, bytes] = {}
        """Path -> sha256 of each member that was read whole, if these are hashed."""
        try:
            self._file = _Opened(io.FileIO(path))
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise SpecError(
                f"{reason}", where=str(path), hint="name a wheel that exists and can be read"
            ) from error
        try:
            with zipfile.ZipFile(self._file) as archive:
                self._infos = archive.infolist()
            self._size = os.fstat(self._file.fileno()).st_size
        except (
            *(zipfile.BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, struct.error),
        ) as error:
            self._file.close()
            raise SpecError(
                f"it is no complete zip archive: {error}",
                where=str(path),
                hint="the file is cut off, damaged, or no wheel; get it again",
            ) from error
        self._left = _RATIO * self._size + _SPARE
        self._codec = codec()
        self._ahead, self._ahead_at = b"", 0
        self._overlaps, self._sharing = _overlaps(self._infos)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def members(self) -> list[zipfile.ZipInfo]:
        """The files, in the order of the central directory; no folders."""
        return [info for info in self._infos if not info.filename.endswith("/")]

    def findings(self) -> list[Finding]:
        """Return what is wrong with the archive as a whole: names twice or odd, members that overlap."""
        names = Counter(info.filename for info in self._infos)
        twice = (f"two members are called {name}" for name in sorted(names) if names[name] > 1)
        odd = (text for info in self._infos if (text := _odd(info)))
        return [*_few("duplicate-name", twice), *_few("odd-name", odd), *_few("overlap", self._overlaps)]

    def stream(self, info: zipfile.ZipInfo, damage: Damage) -> ChunkStream:
        """Return the bytes of a member; what goes wrong as they come ends them, and is told in `damage`."""
        return ChunkStream(self.chunks(info, damage), info.file_size)

    def head(self, info: zipfile.ZipInfo, damage: Damage, size: int) -> bytes:
        """Return the first `size` bytes of a member."""
        return self.stream(info, damage).peek(min(size, info.file_size))

    def chunks(self, info: zipfile.ZipInfo, damage: Damage) -> Iterator[bytes]:
        """Yield the bytes of a member in pieces; what goes wrong ends them, and is told in `damage`.

        Raises:
            SpecError: what was read of the wheel is far more than its size lets expect.
        """
        if refused := self._refused(info):
            damage.text = refused
            return
        crc32 = self._codec.crc32
        left, checksum = info.file_size, 0
        hasher = hashlib.sha256() if self._hashed else None
        try:
            for chunk in self._pieces(info, damage):
                size = len(chunk)
                if size > left:
                    damage.text = "it holds more bytes than declared"
                    return
                left -= size
                self._spend(size)
                checksum = crc32(chunk, checksum)
                if hasher is not None:
                    hasher.update(chunk)
                yield chunk
        except self._codec.error as error:
            damage.text = f"it cannot be decompressed: {error}"
            return
        except OSError as error:
            damage.text = f"it cannot be read: {error.strerror or error}"
            return
        if not damage.text:
            damage.text = _ended(info, left, checksum)
        if hasher is not None and not damage.text:
            self.digests[info.filename] = hasher.digest()

    def _refused(self, info: zipfile.ZipInfo) -> str:
        """Say why a member is not read at all."""
        if info.flag_bits & _ENCRYPTED:
            return "it is encrypted"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"its compression method {info.compress_type} is not one that wheels use"
        if not 0 <= info.header_offset < self._size:
            return "its local header is damaged"
        if info.header_offset in self._sharing:
            return "it shares bytes with another member"
        return ""

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise SpecError(
                f"its members unpack to more than {(_RATIO * self._size + _SPARE) >> 20:,} MiB",
                where=str(self.path),
                hint="a wheel of that size holds nothing of the kind; do not install it",
            )

    def _pieces(self, info: zipfile.ZipInfo, damage: Damage) -> Iterator[bytes]:
        """Yield what a member holds, as its local header places it: that has names of its own length."""
        front, at = self._front(info.header_offset)
        if len(front) - at < _LOCAL.size or not front.startswith(_LOCAL_MAGIC, at):
            damage.text = "its local header is damaged"
            return
        *_, name_size, extra_size = _LOCAL.unpack_from(front, at)
        header = _LOCAL.size + name_size + extra_size
        first = front[at + header : at + header + info.compress_size]
        stored = self._stored(info, first, info.header_offset + header)
        if info.compress_type == zipfile.ZIP_STORED:
            yield from stored
            return
        inflate = self._codec.inflater()
        step = CHUNK if info.filename.endswith(_READ_WHOLE) else _FIRST_CHUNK
        for data in stored:
            rest = data
            while rest:
                yield inflate.decompress(rest, step)
                rest, step = inflate.unconsumed_tail, CHUNK
            if inflate.eof:
                return
        while more := inflate.decompress(inflate.unconsumed_tail, CHUNK):
            yield more

    def _front(self, offset: int) -> tuple[bytes, int]:
        """Return bytes of the wheel, and where in them `offset` lies."""
        at = offset - self._ahead_at
        if not 0 <= at <= len(self._ahead) - _FRONT:
            self._ahead, self._ahead_at, at = os.pread(self._file.fileno(), _AHEAD, offset), offset, 0
        return self._ahead, at

    def _stored(self, info: zipfile.ZipInfo, first: bytes, start: int) -> Iterator[bytes]:
        """Yield the bytes of a member as they lie in the wheel; `first` of them are there."""
        yield first
        at, end = start + len(first), min(start + info.compress_size, self._size)
        while at < end:
            data = os.pread(self._file.fileno(), min(_COMPRESSED_CHUNK, end - at), at)
            if not data:
                return
            at += len(data)
            yield data


def _overlaps(infos: list[zipfile.ZipInfo]) -> tuple[list[str], frozenset[int]]:
    """Return who shares bytes with whom, and where all of these begin."""
    texts: list[str] = []
    sharing: set[int] = set()
    furthest = None
    for info in sorted(infos, key=lambda each: each.header_offset):
        if furthest is not None and info.header_offset < _end(furthest):
            texts.append(f"{furthest.filename} and {info.filename} share bytes")
            sharing |= {furthest.header_offset, info.header_offset}
        if furthest is None or _end(info) > _end(furthest):
            furthest = info
    return texts, frozenset(sharing)


def _end(info: zipfile.ZipInfo) -> int:
    """Return where a member ends, at least."""
    return info.header_offset + _LOCAL.size + info.compress_size


def _few(code: str, texts: Iterable[str]) -> Iterator[Finding]:
    """Yield the first findings of a kind, and how many more there are."""
    rest = iter(texts)
    for text in islice(rest, _SHOWN):
        yield Finding("error", code, text)
    if more := sum(1 for _ in rest):
        yield Finding("error", code, f"and {more:,} more")


def _odd(info: zipfile.ZipInfo) -> str | None:
    """Say why a name is none that an installer can write where it seems to belong."""
    name = info.orig_filename
    if "\0" in name or "\\" in name:
        return f"the name of a member holds a character that none may hold: {name!r}"
    if name.startswith("/") or ".." in name.split("/"):
        return f"the name of a member leads out of the folder: {name!r}"
    return None


def _ended(info: zipfile.ZipInfo, left: int, checksum: int) -> str:
    """Say what is wrong with a member of which all has come; nothing, when it is right."""
    if left:
        return f"it holds {left:,} bytes less than declared"
    return "its checksum is wrong" if checksum != info.CRC else ""
