"""One fatbin container: a header of 16 bytes, then entries, each a header and a payload.

The layout is not documented by NVIDIA; it was worked out by experiment with nvcc, fatbinary and nvFatbin
of CUDA 11.8 to 13.5, and agrees with what cuobjdump lists. Arch, suffix and kind of every image stand in
the entry headers, so payloads are only looked into when somebody asks for them. All numbers are little
endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from orchestrator.audit.facts import Container, Image, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.audit.facts import Code
    from orchestrator.audit.stream import Stream
    from orchestrator.model.archvalues import Suffix

_HEADER = struct.Struct("<IHHQ")
_VERSION, _HEADER_SIZE = 1, 16
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_ENTRY_MARK = 0x0101
_PAIR = struct.Struct("<II")
_READ_AT_MOST = 1 << 20
"""Bytes of one entry header that are looked into; the largest seen has 312."""
_OPTIONS_AT_MOST = 1 << 12
STORED_AT_MOST = 40 << 20
"""Bytes of one stored image that are looked into."""
_ELF_HEAD = 64
_EM_CUDA = 190
_ET_REL = 1

_SMALLEST_ARCH = 10
_CONCAT = 0x100
_KINDS = {
    0x01: Kind.PTX,
    0x02: Kind.SASS,
    0x08: Kind.LTO,
    0x40: Kind.LINK_PTX,
    0x80: Kind.TILE,
}
_FLAG_ARCH_SPECIFIC = 1 << 20
_FLAG_FAMILY_SPECIFIC = 1 << 21

Problem = tuple[Literal["unread", "unknown-kind", "odd-image"], str]
"""Code and text of what could not be understood."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A magic that no container follows."""

    offset: int
    header: bool
    """Whether version and header size were right, which hardly happens by chance."""
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A container, and what could not be understood in it."""

    container: Container
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Payload:
    """What an entry stores: one image, or a group of them compressed as one."""

    data: bytes | memoryview
    """As stored, without padding."""
    flags: int
    size: int
    """Bytes that it claims to have when unpacked."""
    places: tuple[tuple[int, int], ...] | None
    """Of a group: start and size of each image in the unpacked bytes."""


if TYPE_CHECKING:
    LookInside = Callable[[tuple[Image, ...], Payload], tuple["Code | None", ...]]
    """Called with the images of an entry and its payload; returns what lies in each image."""


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    header_size: int
    payload_size: int
    compressed_size: int
    options_at: int
    minor: int
    major: int
    sm: int
    name_at: int
    name_size: int
    flags: int
    unpacked_size: int


def _entry(raw: bytes, at: int = 0) -> tuple[int, _Entry]:
    """Return the mark and the fields of the entry header, or sub-header, at `at`."""
    (
        kind,
        mark,
        header_size,
        payload_size,
        compressed,
        options_at,
        minor,
        major,
        sm,
        name_at,
        name_size,
        flags,
        _,
        unpacked,
    ) = _ENTRY.unpack_from(raw, at)
    return mark, _Entry(
        *(kind, header_size, payload_size, compressed, options_at, minor, major, sm, name_at, name_size),
        *(flags, unpacked),
    )


class _BrokenError(Exception):
    """What follows a magic is no container."""

    def __init__(self, reason: str, *, header: bool) -> None:
        super().__init__(reason)
        self.header = header
        self.reason = reason


def read_container(stream: Stream, stop: int, look: LookInside | None = None) -> Parsed | Rejected:
    """Read the container whose magic is at `stream.pos`, and leave the stream behind it.

    The walk is strict: the entries must fill the container exactly, and it must end before `stop`. When
    it does not, the stream is left where sense ended, at least four bytes further on.
    """
    offset = stream.pos
    images: list[Image] = []
    codes: list[Code | None] = []
    problems: list[Problem] = []
    try:
        size = left = _size(stream, stop)
        while left:
            at = stream.pos
            entry = _next_entry(stream, left)
            header = stream.peek(min(entry.header_size, _READ_AT_MOST))
            linked_first = _elf_type(stream, entry) == _ET_REL
            group = _concat(header) if entry.kind == _CONCAT else None
            found: tuple[Image, ...] = ()
            if entry.kind != _CONCAT:
                found = (_image(entry, header, linked_first=linked_first),)
            elif group is not None:
                found = tuple(image for image, _ in group)
            else:
                problems.append(("unread", f"the group of images at {at:#x} could not be read"))
            images += found
            for image in found:
                problems += _doubts(image, entry)
            if look is not None and found:
                places = tuple(place for _, place in group) if group is not None else None
                codes += look(found, _payload(stream, entry, places))
            left -= _take(stream, entry)
    except _BrokenError as error:
        if stream.pos == offset:
            stream.skip(4)
        return Rejected(offset, header=error.header, reason=error.reason)
    container = Container(offset, size + _HEADER_SIZE, tuple(images), tuple(codes))
    return Parsed(container, tuple(problems))


def _size(stream: Stream, stop: int) -> int:
    """Take the container's header and return how many bytes follow it."""
    ahead = stop - stream.pos - _HEADER_SIZE
    head = stream.peek(_HEADER_SIZE)
    if len(head) < _HEADER_SIZE or ahead < 0:
        raise _BrokenError("the file ends inside its header", header=False)
    _, version, header_size, size = _HEADER.unpack(head)
    if (version, header_size) != (_VERSION, _HEADER_SIZE):
        raise _BrokenError(f"version {version}, header of {header_size} bytes", header=False)
    if size > ahead:
        raise _BrokenError(f"it is cut off: {size - ahead:,} bytes are missing", header=True)
    stream.skip(_HEADER_SIZE)
    return int(size)


def _next_entry(stream: Stream, left: int) -> _Entry:
    """Return the entry that begins here, which must fit into the `left` bytes of its container."""
    at = stream.pos
    raw = stream.peek(min(left, _ENTRY.size))
    if len(raw) < _ENTRY.size:
        raise _BrokenError(f"no entry fits at {at:#x}", header=True)
    mark, entry = _entry(raw)
    if mark != _ENTRY_MARK or entry.header_size < _ENTRY.size or entry.header_size % 8:
        raise _BrokenError(f"no entry header at {at:#x}", header=True)
    if entry.header_size + entry.payload_size > left:
        raise _BrokenError(f"the entry at {at:#x} is longer than its container", header=True)
    return entry


def _payload(stream: Stream, entry: _Entry, places: tuple[tuple[int, int], ...] | None) -> Payload:
    stored = entry.compressed_size or entry.payload_size
    whole = entry.header_size + min(stored, entry.payload_size)
    data = memoryview(stream.peek(whole) if whole <= STORED_AT_MOST else b"")[entry.header_size :]
    return Payload(data, entry.flags, entry.unpacked_size, places)


def _take(stream: Stream, entry: _Entry) -> int:
    whole = entry.header_size + entry.payload_size
    if stream.skip(whole) != whole:
        raise _BrokenError("the data end inside it", header=True)
    return whole


def _doubts(image: Image, entry: _Entry) -> list[Problem]:
    if image.kind is Kind.UNKNOWN:
        return [("unknown-kind", f"an image of unknown kind {image.raw_kind:#x} (arch {image.sm})")]
    if image.kind is not Kind.TILE and image.sm < _SMALLEST_ARCH:
        return [("odd-image", f"an image of kind {image.kind.value} with arch {image.sm}")]
    both = _FLAG_ARCH_SPECIFIC | _FLAG_FAMILY_SPECIFIC
    if entry.flags & both == both:
        return [("odd-image", f"{image.name} claims to be both arch- and family-specific")]
    return []


def _suffix(flags: int) -> Suffix:
    if flags & _FLAG_ARCH_SPECIFIC:  # with both bits (never seen) the stricter one holds
        return "a"
    return "f" if flags & _FLAG_FAMILY_SPECIFIC else ""


def _image(entry: _Entry, header: bytes, at: int = 0, *, linked_first: bool = False) -> Image:
    kind = _KINDS.get(entry.kind, Kind.UNKNOWN)
    linkable = linked_first
    if kind is Kind.PTX:
        linkable = b"--compile-only" in _options(entry, header, at)
    isa = (entry.major, entry.minor) if kind is Kind.PTX else None
    return _shared(kind, entry.sm, _suffix(entry.flags), isa, linkable, entry.kind)


_shared = lru_cache(maxsize=1024)(Image)  # a library has thousands of images, and a handful of different ones


def _options(entry: _Entry, header: bytes, at: int) -> bytes:
    if not entry.options_at or at + entry.options_at + _PAIR.size > len(header):
        return b""
    start, size = _PAIR.unpack_from(header, at + entry.options_at)
    return header[at + start : at + start + min(size, _OPTIONS_AT_MOST)]


def _elf_type(stream: Stream, entry: _Entry) -> int | None:
    """Return the ELF type of a cubin that is stored as it is."""
    if _KINDS.get(entry.kind) is not Kind.SASS or entry.compressed_size or entry.header_size > _READ_AT_MOST:
        return None
    payload = stream.peek(entry.header_size + _ELF_HEAD)[entry.header_size :]
    if len(payload) < _ELF_HEAD or not payload.startswith(b"\x7fELF"):
        return None
    kind, machine = struct.unpack_from("<HH", payload, 16)
    return int(kind) if machine == _EM_CUDA else None


def _concat(header: bytes) -> list[tuple[Image, tuple[int, int]]] | None:
    """Return the images of a group that is compressed as one stream, and where each lies in its bytes.

    None when its table makes no sense.

    The table is in the entry header, uncompressed: count, length, and one sub-header an image, each with
    room for its name and its options.
    """
    at = _ENTRY.size
    if len(header) < at + _PAIR.size:
        return None
    count, length = _PAIR.unpack_from(header, at)
    stop = at + length
    at += _PAIR.size
    if stop > len(header) or not count:
        return None
    images: list[tuple[Image, tuple[int, int]]] = []
    while len(images) < count:
        if at + _ENTRY.size > stop:
            return None
        mark, entry = _entry(header, at)
        if mark != _ENTRY_MARK:
            return None
        images.append((_image(entry, header, at), (entry.header_size, entry.payload_size)))
        size = _ENTRY.size
        if entry.name_at:
            size += _padded(entry.name_size)
        if entry.options_at:
            if at + entry.options_at + _PAIR.size > stop:
                return None
            size += _PAIR.size + _padded(_PAIR.unpack_from(header, at + entry.options_at)[1])
        at += size
    return images if at == stop else None


def _padded(size: int) -> int:
    """Return what a string of `size` bytes takes: a NUL, then up to a multiple of eight."""
    return (size + 8) // 8 * 8
