"""The little of ELF that is needed: the header, program headers, and names and places of sections.

Only 64-bit little endian, which is what CUDA hosts and cubins are (System V gABI, chapter 4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

EM_CUDA = 190
ET_REL = 1
HEADER_SIZE = 64
SECTION_SIZE = 64
SEGMENT_SIZE = 56
_HEADER = struct.Struct("<HHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NAME_AT_MOST = 64
"""Bytes of a section name that are read; the known ones are shorter."""
_SHN_XINDEX = 0xFFFF
EMPTY_TYPES = (0, 8)
"""Types of sections that take no room in the file: NULL and NOBITS."""
_SHF_EXECINSTR = 4
_PT_LOAD = 1
_PF_X = 1


class ElfHeader(NamedTuple):
    """The ELF header. Offsets are bytes from the start of the ELF."""

    osabi: int
    abi_version: int
    type: int
    machine: int
    version: int
    flags: int
    segments_at: int
    segment_count: int
    sections_at: int
    section_count: int
    """0 when there are none, or when there are too many for the header: then the first section says."""
    names_index: int

    @property
    def end(self) -> int:
        """Bytes up to the end of the later one of the two tables."""
        return max(
            HEADER_SIZE,
            self.sections_at + self.section_count * SECTION_SIZE,
            self.segments_at + self.segment_count * SEGMENT_SIZE,
        )


@dataclass(frozen=True, slots=True)
class Section:
    """One section that takes room in the file."""

    name: str
    start: int
    stop: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """One loaded segment."""

    start: int
    stop: int
    executable: bool


def read_header(data: bytes) -> ElfHeader | None:
    """Return the header at the start of `data`, or None when it is no 64-bit little endian ELF."""
    if len(data) < HEADER_SIZE or data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        return None
    (kind, machine, version, _, phoff, shoff, flags, _, phsize, phnum, shsize, shnum, names) = (
        _HEADER.unpack_from(data, 16)
    )
    return ElfHeader(
        osabi=data[7],
        abi_version=data[8],
        type=kind,
        machine=machine,
        version=version,
        flags=flags,
        segments_at=phoff,
        segment_count=phnum if phoff and phsize == SEGMENT_SIZE else 0,
        sections_at=shoff if shsize == SECTION_SIZE else 0,
        section_count=shnum if shoff and shsize == SECTION_SIZE else 0,
        names_index=names,
    )


def read_segments(data: bytes, header: ElfHeader) -> tuple[Segment, ...]:
    """Return the loaded segments, as far as their table lies in `data`, the beginning of the file."""
    found = []
    for index in range(header.segment_count):
        at = header.segments_at + index * SEGMENT_SIZE
        if at + SEGMENT_SIZE > len(data):
            break
        kind, flags, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, at)
        if kind == _PT_LOAD:
            found.append(Segment(offset, offset + size, bool(flags & _PF_X)))
    return tuple(found)


def names_place(table: bytes, header: ElfHeader) -> tuple[int, int] | None:
    """Return where the section names lie, given the table of sections; None when it cannot be said."""
    index = header.names_index
    if index == _SHN_XINDEX and len(table) >= SECTION_SIZE:
        index = SECTION.unpack_from(table, 0)[6]
    if not 0 < index < len(table) // SECTION_SIZE:
        return None
    fields = SECTION.unpack_from(table, index * SECTION_SIZE)
    return fields[4], fields[4] + fields[5]


def section_count(first: bytes) -> int:
    """Return the number of sections that the first section tells when the header has no room for it."""
    return int(SECTION.unpack_from(first, 0)[5]) if len(first) >= SECTION_SIZE else 0


def read_sections(table: bytes, names: bytes) -> tuple[Section, ...]:
    """Return the sections that hold bytes of the file."""
    found = []
    for at in range(0, len(table) // SECTION_SIZE * SECTION_SIZE, SECTION_SIZE):
        name, kind, flags, _, offset, size, _, _, _, _ = SECTION.unpack_from(table, at)
        if kind in EMPTY_TYPES or not size:
            continue
        text = names[name : name + _NAME_AT_MOST].split(b"\0", 1)[0].decode("utf-8", "replace")
        found.append(Section(text, offset, offset + size, bool(flags & _SHF_EXECINSTR)))
    return tuple(found)
