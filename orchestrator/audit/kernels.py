"""The kernels of an image: out of the symbols of a cubin, or the text of PTX.

A `__global__` function is a function symbol with the bit STO_CUDA_ENTRY in `st_other`; its code is a
section of its own. Device functions have no such bit.
"""

from __future__ import annotations

import re
import struct
from functools import cached_property
from typing import TYPE_CHECKING

from orchestrator.audit import elf, opcodes
from orchestrator.audit.facts import Code, Kernel, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.audit.facts import Hollow, Image

_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")
_CALL = struct.Struct("<II")
"""A row of `.nv.callgraph`: numbers of the symbols of caller and callee; others have a callee beyond all."""
_SHT_SYMTAB, _SHT_RELA, _SHT_REL, _SHT_CALLGRAPH = 2, 4, 9, 0x70000001
_STT_FUNC = 2
_STO_CUDA_ENTRY = 0x10
_NAME_AT_MOST = 1 << 16
_CODE_KEPT = 8 << 20
"""Bytes of code without work that are kept of one file, each once; torch 2.14.1, with the most, has 4 MiB."""
_SECTIONS_AT_MOST = 1 << 17
_KERNELS_AT_MOST = 500_000
"""Kernels of all images of a file."""
_NAMES_AT_MOST = 48 << 20
"""Bytes of all different names in a file."""
_ENTRY = re.compile(rb"\.entry[ \t]+([\w$]{1,65536})")


class KernelReader:
    """Reads the kernels of the images of one file. A name that comes for many arches is kept once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Hollow | None, bytes], Kernel] = {}
        self._codes: dict[bytes, bytes] = {}
        self._left = _CODE_KEPT
        self._kernels_left = _KERNELS_AT_MOST
        self._names_left = _NAMES_AT_MOST

    def read(self, image: Image, data: bytes) -> Code | str:
        """Return the kernels of an image, or a sentence that says why they cannot be told.

        Args:
            image: says what `data` is: SASS or PTX.
            data: the unpacked image.
        """
        found: dict[Kernel, None] = {}
        try:
            if image.kind is Kind.PTX:
                for match in _ENTRY.finditer(data):
                    found[self._kernel(match[1].decode("ascii", "replace"), None)] = None
            else:
                for name, how, code in _Cubin(data).kernels(image.sm):
                    found[self._kernel(name, how, code)] = None
        except (struct.error, _OddError) as error:
            return f"its symbols cannot be read: {error}"
        return Code(tuple(found))

    def _kernel(self, name: str, how: Hollow | None, code: bytes = b"") -> Kernel:
        if code not in self._codes:
            if self._left < len(code):
                code = b""
            self._left -= len(code)
        code = self._codes.setdefault(code, code)
        self._kernels_left -= 1
        if (name, how, code) not in self._known:
            self._known[name, how, code] = Kernel(name, how, code)
            self._names_left -= len(name)
        if self._kernels_left < 0 or self._names_left < 0:
            raise _OddError("the file has more kernels than any that is known")
        return self._known[name, how, code]


class _OddError(Exception):
    """The tables of a cubin make no sense."""


class _Cubin:
    """The tables of one cubin. What they make us read is bounded by a few times its size."""

    def __init__(self, data: bytes) -> None:
        header = elf.read_header(data)
        if header is None or header.machine != elf.EM_CUDA:
            raise _OddError("it is no CUDA ELF")
        self._data = memoryview(data)
        self._left = 4 * len(data)
        count = header.section_count or elf.section_count(data[header.sections_at :][: elf.SECTION_SIZE])
        if count > _SECTIONS_AT_MOST:
            raise _OddError(f"it has {count:,} sections")
        table = data[header.sections_at : header.sections_at + count * elf.SECTION_SIZE]
        if len(table) < count * elf.SECTION_SIZE:
            raise _OddError("its table of sections is cut off")
        self._sections: list[tuple[int, ...]] = list(elf.SECTION.iter_unpack(table))
        self._hollow: dict[int, tuple[Hollow | None, bytes]] = {}
        self._symbols = memoryview(b"")
        self._bytes = data
        self._names = (0, 0)
        symbols = next((section for section in self._sections if section[1] == _SHT_SYMTAB), None)
        if symbols is not None:
            if not 0 < symbols[6] < count:
                raise _OddError("its symbols have no names")
            self._symbols = self._body(symbols, _SYMBOL)
            names = self._sections[symbols[6]]
            self._names = (names[4], min(names[4] + names[5], len(data)))

    def kernels(self, sm: int) -> Iterator[tuple[str, Hollow | None, bytes]]:
        """Yield the kernels: mangled name, what its code comes to when it does no work, and then its code."""
        for name, info, other, index, _, _ in _SYMBOL.iter_unpack(self._symbols):
            if info & 15 != _STT_FUNC or not other & _STO_CUDA_ENTRY or not index:
                continue
            if index not in self._hollow:
                self._hollow[index] = self._judge(index) if sm >= opcodes.FIRST_SM else (None, b"")
            yield self._text(name), *self._hollow[index]

    def _judge(self, index: int) -> tuple[Hollow | None, bytes]:
        if index >= len(self._sections):
            return None, b""
        start, size = self._sections[index][4:6]
        if not 0 < size <= opcodes.CODE_AT_MOST or start + size > len(self._data):
            return None, b""
        code = self._data[start : start + size]
        self._spend(size)
        found = opcodes.operations(code)
        called = frozenset(self._called(index)) if opcodes.CALL_ABS in found else frozenset()
        how = opcodes.hollow(found, called)
        return how, bytes(code) if how else b""

    def _called(self, target: int) -> Iterator[str]:
        """Yield the functions, and all that is not defined here, that the code in a section refers to.

        Up to CUDA 12 the code is relocated itself; later its addresses are constants that all kernels
        share, and the graph of calls tells whose they are.
        """
        numbers = self._calls.get(target, [])
        for section in self._moved.get(target, ()):
            form = _RELA if section[1] == _SHT_RELA else _REL
            numbers = numbers + [info >> 32 for _, info, *_ in form.iter_unpack(self._body(section, form))]
        for number in dict.fromkeys(numbers):
            yield from self._function(number)

    @cached_property
    def _moved(self) -> dict[int, list[tuple[int, ...]]]:
        """The tables of relocations, by the section that they are about."""
        found: dict[int, list[tuple[int, ...]]] = {}
        for section in self._sections:
            if section[1] in (_SHT_RELA, _SHT_REL):
                found.setdefault(section[7], []).append(section)
        return found

    @cached_property
    def _calls(self) -> dict[int, list[int]]:
        """Numbers of the symbols that are called, by the section of the caller."""
        found: dict[int, list[int]] = {}
        for section in self._sections:
            if section[1] == _SHT_CALLGRAPH:
                for number, callee in _CALL.iter_unpack(self._body(section, _CALL)):
                    caller = self._symbol(number)
                    if caller is not None and caller[3] and self._symbol(callee) is not None:
                        found.setdefault(caller[3], []).append(callee)
        return found

    def _function(self, number: int) -> Iterator[str]:
        symbol = self._symbol(number)
        if symbol is not None and (symbol[1] & 15 == _STT_FUNC or not symbol[3]):
            yield self._text(symbol[0])

    def _symbol(self, number: int) -> tuple[int, ...] | None:
        at = number * _SYMBOL.size
        return _SYMBOL.unpack_from(self._symbols, at) if at + _SYMBOL.size <= len(self._symbols) else None

    def _body(self, section: tuple[int, ...], form: struct.Struct) -> memoryview:
        size = section[5] // form.size * form.size
        self._spend(size)
        body = self._data[section[4] : section[4] + size]
        if len(body) < size:
            raise _OddError("one of its tables is cut off")
        return body

    def _text(self, at: int) -> str:
        start = self._names[0] + at
        stop = max(start, min(start + _NAME_AT_MOST, self._names[1]))
        end = self._bytes.find(b"\0", start, stop)
        found = self._bytes[start : end if end >= 0 else stop]
        self._spend(len(found) + 1)
        return found.decode("ascii", "replace")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _OddError("its tables refer to the same bytes again and again")
