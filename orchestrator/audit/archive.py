"""Static libraries: the members of an `ar` archive (System V / GNU and BSD forms)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.audit.stream import Stream

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
_HEADER_SIZE = 60
_BSD_NAME = b"#1/"


@dataclass(frozen=True, slots=True)
class Damaged:
    """A place where the archive cannot be followed any further."""

    offset: int
    reason: str


def members(stream: Stream, stop: int) -> Iterator[int | Damaged]:
    """Yield the end of each member, with the stream at its first byte.

    The stream is at the archive's magic; between two members it may go anywhere up to that end. Damage
    ends the walk.
    """
    stream.skip(len(MAGIC))
    while stream.pos < stop:
        at = stream.pos
        header = stream.peek(min(_HEADER_SIZE, stop - at))
        if not header.strip(b"\0\n"):
            stream.skip(stop - at)
            return
        if len(header) < _HEADER_SIZE or header[58:60] != b"`\n" or not header[48:58].strip().isdigit():
            yield Damaged(at, "no member header")
            return
        size = int(header[48:58])
        name = header[:16]
        start = at + _HEADER_SIZE
        end = start + size
        if end > stop:
            yield Damaged(at, f"a member is cut off: {end - stop:,} bytes are missing")
            return
        stream.skip(_HEADER_SIZE)
        if name.startswith(_BSD_NAME) and name[3:].strip().isdigit():
            stream.skip(min(int(name[3:]), size))
        yield end
        stream.skip(end + size % 2 - stream.pos)
        if stream.pos < min(end, stop):
            yield Damaged(stream.pos, "the data end inside a member")
            return
