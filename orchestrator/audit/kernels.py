"""The kernels of an image: out of the symbols of a cubin, or the text of PTX.

A `__global__` function is a function symbol with the bit STO_CUDA_ENTRY in `st_other`; its code is a
section of its own. Device functions have no such bit.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from orchestrator.audit import elf, opcodes
from orchestrator.audit.facts import Code, Kernel, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.audit.facts import Hollow, Image

_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")
_SHT_SYMTAB, _SHT_RELA, _SHT_REL = 2, 4, 9
_STT_FUNC = 2
_STO_CUDA_ENTRY = 0x10
_NAME_AT_MOST = 1 << 16
_ENTRY = re.compile(rb"\.entry[ \t]+([\w$]+)")


class KernelReader:
    """Reads the kernels of the images of one file. A name that comes for many arches is kept once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Hollow | None], Kernel] = {}

    def read(self, image: Image, data: bytes) -> Code | str:
        """Return the kernels of an image, or a sentence that says why they cannot be told.

        Args:
            image: says what `data` is: SASS or PTX.
            data: the unpacked image.
        """
        if image.kind is Kind.PTX:
            names = dict.fromkeys(found.decode("ascii", "replace") for found in _ENTRY.findall(data))
            return Code(tuple(self._kernel(name, None) for name in names))
        try:
            return Code(tuple(self._kernel(name, how) for name, how in _Cubin(data).kernels(image.sm)))
        except (struct.error, _OddError) as error:
            return f"its symbols cannot be read: {error}"

    def _kernel(self, name: str, how: Hollow | None) -> Kernel:
        return self._known.setdefault((name, how), Kernel(name, how))


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
        table = data[header.sections_at : header.sections_at + count * elf.SECTION_SIZE]
        if len(table) < count * elf.SECTION_SIZE:
            raise _OddError("its table of sections is cut off")
        self._sections: list[tuple[int, ...]] = list(elf.SECTION.iter_unpack(table))
        self._hollow: dict[int, Hollow | None] = {}
        self._symbols = memoryview(b"")
        self._names = b""
        symbols = next((section for section in self._sections if section[1] == _SHT_SYMTAB), None)
        if symbols is not None:
            if not 0 < symbols[6] < count:
                raise _OddError("its symbols have no names")
            self._symbols = self._body(symbols, _SYMBOL)
            names = self._sections[symbols[6]]
            self._names = data[names[4] : names[4] + names[5]]

    def kernels(self, sm: int) -> Iterator[tuple[str, Hollow | None]]:
        """Yield the kernels: mangled name, and what its code comes to when it does no work."""
        for name, info, other, index, _, _ in _SYMBOL.iter_unpack(self._symbols):
            if info & 15 != _STT_FUNC or not other & _STO_CUDA_ENTRY or not index:
                continue
            if index not in self._hollow:
                self._hollow[index] = self._judge(index) if sm >= opcodes.FIRST_SM else None
            yield self._text(name), self._hollow[index]

    def _judge(self, index: int) -> Hollow | None:
        if index >= len(self._sections):
            return None
        start, size = self._sections[index][4:6]
        if not 0 < size <= opcodes.CODE_AT_MOST or start + size > len(self._data):
            return None
        found = opcodes.operations(self._data[start : start + size])
        called = frozenset(self._called(index)) if opcodes.CALL_ABS in found else frozenset()
        return opcodes.hollow(found, called)

    def _called(self, target: int) -> Iterator[str]:
        """Yield the functions, and all that is not defined here, that the code in a section refers to."""
        for section in self._sections:
            if section[1] not in (_SHT_RELA, _SHT_REL) or section[7] != target:
                continue
            form = _RELA if section[1] == _SHT_RELA else _REL
            for _, info, *_ in form.iter_unpack(self._body(section, form)):
                at = (info >> 32) * _SYMBOL.size
                if at + _SYMBOL.size <= len(self._symbols):
                    name, kind, _, index, _, _ = _SYMBOL.unpack_from(self._symbols, at)
                    if kind & 15 == _STT_FUNC or not index:
                        yield self._text(name)

    def _body(self, section: tuple[int, ...], form: struct.Struct) -> memoryview:
        size = section[5] // form.size * form.size
        self._spend(size)
        body = self._data[section[4] : section[4] + size]
        if len(body) < size:
            raise _OddError("one of its tables is cut off")
        return body

    def _text(self, at: int) -> str:
        end = self._names.find(b"\0", at, at + _NAME_AT_MOST)
        found = self._names[at : end if end >= 0 else at + _NAME_AT_MOST]
        self._spend(len(found) + 1)
        return found.decode("ascii", "replace")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _OddError("its tables refer to the same bytes again and again")
