"""What a shared library says to the dynamic linker: what it needs, what it exports, what it leaves undefined.

Read from the dynamic segment, not from sections, as the linker does (System V gABI, chapter 5; GNU_HASH as
glibc's dl-lookup.c reads it). Every size is bounded: the bytes may be hostile.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.audit.elf import SEGMENT_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.audit.elf import ElfHeader

FRONT_AT_MOST = 7 << 20
"""Bytes at the front that are kept: GNU ld, gold and lld put symbols, names and hash there. For more, the
file is read again; the larger ones that are known have it at the end."""
TAIL_AT_MOST = 16 << 20
"""Bytes kept of a segment that patchelf put at the end; the largest seen, in libtorch_cuda, has 4.6 MB."""
_DYNAMIC_AT_MOST = 1 << 20
_NAMES_AT_MOST = 24 << 20
_SYMBOLS_AT_MOST = 400_000
"""The most seen is 47,400, in libtorch_cpu."""
_NAME_AT_MOST = 1 << 16
_WORDS_AT_MOST = 4096
"""The most names of libraries, and of versions, and bytes of each of them."""
_SEGMENTS_AT_MOST = 256
_HASH_BLOCK = 1 << 12
_BUCKETS_AT_MOST = 1 << 20
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 1, 4, 5, 6, 10
_DT_SONAME, _DT_RPATH, _DT_RUNPATH = 14, 15, 29
_DT_GNU_HASH, _DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
_TABLES = (_DT_HASH, _DT_STRTAB, _DT_GNU_HASH, _DT_VERSYM, _DT_VERNEED, 7, 17, 23, 36)
"""Tags whose value is the address of a table: of those above, and of relocations."""
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_VERNEED = struct.Struct("<HHIII")
_VERNAUX = struct.Struct("<IHHII")
_VER_FLG_WEAK = 2
"""The file loads without that version."""
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_SEEN = (0, 3)
"""Visibilities of what others can bind to: default and protected."""


@dataclass(frozen=True, slots=True)
class Linkage:
    """How one ELF hangs together with others. Names are mangled, and without versions."""

    machine: int
    needed: tuple[str, ...]
    soname: str | None
    runpath: tuple[str, ...]
    undefined: frozenset[str]
    """What must be found when it is loaded; weak ones are not among them."""
    weak: frozenset[str]
    """What is used when there is such a thing."""
    defined: frozenset[str]
    versions: frozenset[str] = frozenset()
    """Versions of other libraries' interfaces that it cannot do without, such as `GLIBC_2.34`."""


class _Load(NamedTuple):
    offset: int
    address: int
    size: int
    in_memory: int


class _UnreadableError(Exception):
    """A table that cannot be read; says why."""


def wanted_ranges(header: ElfHeader, head: bytes) -> tuple[tuple[int, int], ...]:
    """Return the file ranges, start and stop, that `read_linkage` asks for when a linker laid the file out.

    Those are the dynamic segment, the front of the first loaded segment, and the last one when it looks
    like patchelf's: it moves hash and names behind everything else (so in all of torch's libraries).
    Together at most `FRONT_AT_MOST` + `TAIL_AT_MOST` + 1 MiB.

    Args:
        header: of the ELF.
        head: its first bytes, with the program headers.

    Returns:
        Ranges in order that do not touch; empty when it is not dynamic.
    """
    loads, dynamic = _segments(header, head)
    if dynamic is None or not loads:
        return ()
    ranges = [(dynamic.offset, dynamic.offset + min(dynamic.size, _DYNAMIC_AT_MOST))]
    first, last = min(loads), max(loads)
    ranges.append((first.offset, first.offset + min(first.size, FRONT_AT_MOST)))
    if last.size == last.in_memory <= TAIL_AT_MOST:
        ranges.append((last.offset, last.offset + last.size))
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        elif start < stop:
            merged.append((start, stop))
    return tuple(merged)


def read_linkage(
    header: ElfHeader, head: bytes, read: Callable[[int, int], bytes | None]
) -> Linkage | str | None:
    """Read what an ELF tells the dynamic linker.

    Args:
        header: of the ELF.
        head: its first bytes, with the program headers.
        read: gives the bytes of the ELF at (offset, size), or None when they are not to be had.

    Returns:
        The linkage; None when the file is not dynamic; a sentence when it is, but cannot be read.
    """
    loads, dynamic = _segments(header, head)
    if dynamic is None:
        return None
    try:
        return _Reader(loads, dynamic, read).linkage(header.machine)
    except _UnreadableError as error:
        return str(error)


def _segments(header: ElfHeader, head: bytes) -> tuple[list[_Load], _Load | None]:
    loads: list[_Load] = []
    dynamic = None
    at = header.segments_at
    count = min(header.segment_count, _SEGMENTS_AT_MOST, max(len(head) - at, 0) // SEGMENT_SIZE)
    table = head[at : at + count * SEGMENT_SIZE]
    for kind, _, offset, address, _, size, in_memory, _ in _SEGMENT.iter_unpack(table):
        if kind == _PT_LOAD:
            loads.append(_Load(offset, address, size, in_memory))
        elif kind == _PT_DYNAMIC and dynamic is None and size:
            dynamic = _Load(offset, address, size, in_memory)
    return loads, dynamic


class _Reader:
    def __init__(self, loads: list[_Load], dynamic: _Load, read: Callable[[int, int], bytes | None]) -> None:
        self._loads = loads
        self._read = read
        data = self._file(
            dynamic.offset, min(dynamic.size, _DYNAMIC_AT_MOST) // 16 * 16, "the dynamic segment"
        )
        self._values: dict[int, int] = {}
        self._listed: list[tuple[int, int]] = []
        for tag, value in _ENTRY.iter_unpack(data):
            if not tag:
                break
            self._values.setdefault(tag, value)
            if tag in (_DT_NEEDED, _DT_RUNPATH, _DT_RPATH):
                self._listed.append((tag, value))
        if len(self._listed) > _WORDS_AT_MOST:
            raise _UnreadableError(f"it needs {len(self._listed):,} libraries")
        size = self._values.get(_DT_STRSZ, 0)
        if size > _NAMES_AT_MOST:
            raise _UnreadableError(f"its names take {size:,} bytes, more than {_NAMES_AT_MOST >> 20} MiB")
        self._names = self._at(self._values.get(_DT_STRTAB, 0), size, "the names") if size else b""

    def linkage(self, machine: int) -> Linkage:
        """Return what was found.

        Raises:
            _UnreadableError: a table cannot be had, or is larger than any that a linker makes.
        """
        soname = self._values.get(_DT_SONAME)
        paths = [self._name(value) for tag, value in self._listed if tag == _DT_RUNPATH] or [
            self._name(value) for tag, value in self._listed if tag == _DT_RPATH
        ]
        undefined, weak, defined = self._symbols()
        return Linkage(
            machine=machine,
            needed=tuple(self._name(value) for tag, value in self._listed if tag == _DT_NEEDED),
            soname=None if soname is None else self._name(soname),
            runpath=tuple(part for path in paths for part in path.split(":") if part),
            undefined=undefined,
            weak=weak - undefined,
            defined=defined,
            versions=frozenset(self._versions()),
        )

    def _file(self, offset: int, size: int, what: str) -> bytes:
        data = self._read(offset, size)
        if data is None or len(data) != size:
            raise _UnreadableError(f"{what} at {offset:#x} cannot be read")
        return data

    def _place(self, address: int) -> tuple[int, int]:
        """Return the file offset of an address, and how many bytes of its segment follow."""
        for load in self._loads:
            if load.address <= address < load.address + load.size:
                return load.offset + address - load.address, load.address + load.size - address
        raise _UnreadableError(f"no loaded segment holds the address {address:#x}")

    def _at(self, address: int, size: int, what: str) -> bytes:
        offset, left = self._place(address)
        if size > left:
            raise _UnreadableError(f"{what} at {offset:#x} go beyond their segment")
        return self._file(offset, size, what)

    def _name(self, at: int) -> str:
        stop = self._names.find(b"\0", at, at + _WORDS_AT_MOST)
        if stop < 0:
            raise _UnreadableError(f"a name at {at:#x} of the names has no end")
        return self._names[at:stop].decode("utf-8", "replace")

    def _symbols(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        address = self._values.get(_DT_SYMTAB, 0)
        if not address:
            return frozenset(), frozenset(), frozenset()
        count, sure = self._count(address)
        if count > _SYMBOLS_AT_MOST:
            raise _UnreadableError(f"it has {count:,} dynamic symbols, more than {_SYMBOLS_AT_MOST:,}")
        table = self._at(address, count * _SYMBOL.size, "the symbols") if count else b""
        undefined: set[bytes] = set()
        weak: set[bytes] = set()
        defined: set[bytes] = set()
        names, find, left = self._names, self._names.find, _NAMES_AT_MOST
        for at, info, other, section, _, _ in islice(_SYMBOL.iter_unpack(table), 1, None):
            binding = info >> 4
            if not sure and (at >= len(names) or binding not in (0, _GLOBAL, _WEAK, _UNIQUE)):
                break  # beyond the last symbol
            if not at or not binding:
                continue
            stop = find(b"\0", at, at + _NAME_AT_MOST)
            if stop < 0:
                raise _UnreadableError(f"the name of a symbol at {at:#x} of the names has no end")
            left -= stop - at
            if left < 0:
                raise _UnreadableError(
                    f"its symbols have names of more than {_NAMES_AT_MOST >> 20} MiB in all"
                )
            if section:
                if other & 3 in _SEEN:
                    defined.add(names[at:stop])
            else:
                (weak if binding == _WEAK else undefined).add(names[at:stop])
        return _decoded(undefined), _decoded(weak), _decoded(defined)

    def _count(self, symbols: int) -> tuple[int, bool]:
        """Return how many symbols there are, or at most can be, and whether that is sure."""
        if old := self._values.get(_DT_HASH):
            return int.from_bytes(self._at(old + 4, 4, "the hash table"), "little"), True
        count = self._count_hashed(self._values[_DT_GNU_HASH]) if _DT_GNU_HASH in self._values else None
        if count is not None:
            return count, True
        # nothing is exported, and GNU_HASH holds only what is: the table ends where the next one begins
        after = [self._values[tag] for tag in _TABLES if self._values.get(tag, 0) > symbols]
        if not after:
            raise _UnreadableError("nothing says how many dynamic symbols it has")
        _, left = self._place(symbols)
        return min(min(after) - symbols, left) // _SYMBOL.size, False

    def _count_hashed(self, address: int) -> int | None:
        buckets, first, bloom, _ = struct.unpack("<IIII", self._at(address, 16, "the hash table"))
        if buckets > _BUCKETS_AT_MOST:
            raise _UnreadableError(f"its hash table has {buckets:,} buckets")
        place = address + 16 + bloom * 8
        table = self._at(place, buckets * 4, "the hash table") if buckets else b""
        last = max(struct.unpack(f"<{buckets}I", table), default=0)
        if last < first or not last:
            return None
        for index, chained in enumerate(self._chain(place + buckets * 4 + (last - first) * 4), last):
            if chained & 1:
                return index + 1
            if index > _SYMBOLS_AT_MOST:
                raise _UnreadableError(f"it has more than {_SYMBOLS_AT_MOST:,} dynamic symbols")
        raise _UnreadableError("its hash table has no end")

    def _chain(self, address: int) -> Iterator[int]:
        offset, left = self._place(address)
        stop = offset + left // 4 * 4
        while offset < stop:
            data = self._file(offset, min(_HASH_BLOCK, stop - offset), "the hash table")
            yield from struct.unpack(f"<{len(data) // 4}I", data)
            offset += len(data)

    def _versions(self) -> Iterator[str]:
        address, many = self._values.get(_DT_VERNEED, 0), self._values.get(_DT_VERNEEDNUM, 0)
        seen = 0
        while address and many and seen < _WORDS_AT_MOST:
            _, count, _, inner, step = _VERNEED.unpack(self._at(address, _VERNEED.size, "the versions"))
            entry = address + inner
            for _ in range(min(count, _WORDS_AT_MOST - seen)):
                _, flags, _, name, further = _VERNAUX.unpack(self._at(entry, _VERNAUX.size, "the versions"))
                if not flags & _VER_FLG_WEAK:
                    yield self._name(name)
                seen += 1
                entry += further
            address, many, seen = address + step if step else 0, many - 1, seen + 1


def _decoded(names: set[bytes]) -> frozenset[str]:
    return frozenset(name.decode("utf-8", "replace") for name in names)
