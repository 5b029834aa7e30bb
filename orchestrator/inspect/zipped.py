"""The members of a wheel as streams: inflated in chunks, checked against the central directory.

Sizes and checksums come from the central directory (APPNOTE 4.3.12), which zip64 and data descriptors
leave right. `zipfile` reads that; the bytes are inflated here, since its own reader costs a quarter more.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from orchestrator.audit.findings import Finding
from orchestrator.audit.stream import ChunkStream
from orchestrator.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO

CHUNK = 1 << 18
_COMPRESSED_CHUNK = 1 << 16
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 1


@dataclass(slots=True)
class Damage:
    """What went wrong while the bytes of a member came; empty when nothing did."""

    text: str = ""


class WheelFile:
    """An open wheel.

    Raises:
        SpecError: there is no such file, or it is no complete zip archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise SpecError(
                f"{reason}", where=str(path), hint="name a wheel that exists and can be read"
            ) from error
        try:
            with zipfile.ZipFile(self._file) as archive:
                self._infos = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            self._file.close()
            raise SpecError(
                f"it is no complete zip archive: {error}",
                where=str(path),
                hint="the file is cut off, damaged, or no wheel; get it again",
            ) from error

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
        """Return what is wrong with the archive as a whole: names twice, members that overlap."""
        names = Counter(info.filename for info in self._infos)
        twice = sorted(name for name, many in names.items() if many > 1)
        found = [Finding("error", "duplicate-name", f"two members are called {name}") for name in twice]
        ordered = sorted(self._infos, key=lambda info: info.header_offset)
        for before, after in pairwise(ordered):
            if before.header_offset + _LOCAL.size + before.compress_size > after.header_offset:
                text = f"{before.filename} and {after.filename} share bytes"
                found.append(Finding("error", "overlap", text))
        return found

    def stream(self, info: zipfile.ZipInfo, damage: Damage) -> ChunkStream:
        """Return the bytes of a member; what goes wrong as they come ends them, and is told in `damage`."""
        return ChunkStream(self._chunks(info, damage), info.file_size)

    def head(self, info: zipfile.ZipInfo, damage: Damage, size: int) -> bytes:
        """Return the first `size` bytes of a member."""
        return self.stream(info, damage).peek(min(size, info.file_size))

    def _chunks(self, info: zipfile.ZipInfo, damage: Damage) -> Iterator[bytes]:
        if info.flag_bits & _ENCRYPTED:
            damage.text = "it is encrypted"
            return
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            damage.text = f"its compression method {info.compress_type} is not one that wheels use"
            return
        left, checksum = info.file_size, 0
        try:
            start = self._start(info)
            if start is None:
                damage.text = "its local header is damaged"
                return
            for chunk in self._inflated(info, start):
                if len(chunk) > left:
                    damage.text = "it holds more bytes than declared"
                    return
                left -= len(chunk)
                checksum = zlib.crc32(chunk, checksum)
                yield chunk
        except zlib.error as error:
            damage.text = f"it cannot be decompressed: {error}"
            return
        except OSError as error:
            damage.text = f"it cannot be read: {error.strerror or error}"
            return
        if left:
            damage.text = f"it holds {left:,} bytes less than declared"
        elif checksum != info.CRC:
            damage.text = "its checksum is wrong"

    def _start(self, info: zipfile.ZipInfo) -> int | None:
        """Return where the bytes of a member begin: its local header has names of its own length."""
        if info.header_offset < 0:
            return None
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != _LOCAL_MAGIC:
            return None
        *_, name_size, extra_size = _LOCAL.unpack(header)
        return info.header_offset + _LOCAL.size + int(name_size) + int(extra_size)

    def _inflated(self, info: zipfile.ZipInfo, start: int) -> Iterator[bytes]:
        inflate = zlib.decompressobj(-15) if info.compress_type == zipfile.ZIP_DEFLATED else None
        at, end = start, start + info.compress_size
        while at < end:
            self._file.seek(at)  # another member may have been read since
            data = self._file.read(min(_COMPRESSED_CHUNK, end - at))
            if not data:
                return
            at += len(data)
            if inflate is None:
                yield data
                continue
            while data:
                yield inflate.decompress(data, CHUNK)
                data = inflate.unconsumed_tail
            if inflate.eof:
                return
        if inflate is not None:
            while rest := inflate.decompress(inflate.unconsumed_tail, CHUNK):
                yield rest
