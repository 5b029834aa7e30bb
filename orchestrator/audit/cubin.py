"""A cubin outside any fatbin: which arch it is for.

The place of the arch in `e_flags` moved with the ABI (EI_OSABI, EI_ABIVERSION), and since CUDA 13 the
suffix is no longer there: `a` is attribute 9 of the section `.nv.compat`, and `f` is told only by the
command line in the note `.note.nv.tkinfo` (an `sm_120f` cubin is otherwise that of `sm_120`, and loads
on the same devices). Worked out from ptxas 12.4 to 13.5.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.audit import elf
from orchestrator.audit.facts import Image, Kind

if TYPE_CHECKING:
    from orchestrator.model.archvalues import Suffix

_OSABI_V7, _OSABI_V8 = 0x33, 0x41
_FLAG_A_V7 = 0x800
_FLAG_A_V8 = 0x8
_FIRST_WITH_SUFFIX = 90
_BODY_AT_MOST = 1 << 16
_NAMESAKES_AT_MOST = 8
_ATTR_ARCH_SPECIFIC = 9
_COMMAND = re.compile(rb"-arch[ =](?:sm|compute)_(\d+)([af]?)\b")


def read_cubin(data: bytes) -> Image | str:
    """Return the image that the cubin `data` (whole) is, or a sentence that says why it cannot be told."""
    header = elf.read_header(data)
    if header is None or header.machine != elf.EM_CUDA:
        return "it is no 64-bit CUDA ELF"
    if header.osabi == _OSABI_V8:
        sm = header.flags >> 8 & 0xFF
        specific = sm >= _FIRST_WITH_SUFFIX and bool(header.flags & _FLAG_A_V8)
    elif header.osabi == _OSABI_V7:
        sm = header.flags & 0xFF
        specific = sm >= _FIRST_WITH_SUFFIX and bool(header.flags & _FLAG_A_V7)
    else:
        return f"its ABI {header.osabi:#x} is unknown"
    if not sm:
        return "it names no arch"
    if not header.section_count and header.osabi == _OSABI_V8:
        return "it has no table of sections, where its suffix would be told"
    table = data[header.sections_at : header.sections_at + header.section_count * elf.SECTION_SIZE]
    place = elf.names_place(table, header)
    if len(table) < header.section_count * elf.SECTION_SIZE or (header.section_count and place is None):
        return "it is cut off"
    names = data[place[0] : place[1]] if place else b""
    suffix: Suffix = "a" if specific or _compat(_body(data, table, names, b".nv.compat")) == 1 else ""
    if not suffix:
        suffix = _noted(_body(data, table, names, b".note.nv.tkinfo"), sm)
    return Image(Kind.SASS, sm, suffix, linkable=header.type == elf.ET_REL)


def _body(data: bytes, table: bytes, names: bytes, name: bytes) -> bytes:
    """Return the beginning of the section called `name`. Some wheels have 16,000 cubins.

    Names may share their ends, so what is called so may stand anywhere in the names.
    """
    at = -1
    for _ in range(_NAMESAKES_AT_MOST):
        at = names.find(name + b"\0", at + 1)
        if at < 0:
            break
        row, key = 0, at.to_bytes(4, "little")
        while (row := table.find(key, row)) >= 0:
            if not row % elf.SECTION_SIZE:
                _, kind, _, _, offset, size, *_ = elf.SECTION.unpack_from(table, row)
                if kind not in elf.EMPTY_TYPES and size:
                    return data[offset : offset + min(size, _BODY_AT_MOST)]
            row = (row // elf.SECTION_SIZE + 1) * elf.SECTION_SIZE
    return b""


def _compat(data: bytes) -> int | None:
    """Return the value of attribute 9 of `.nv.compat`: format byte, attribute byte, value."""
    at = 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        if attribute == _ATTR_ARCH_SPECIFIC and form in (2, 3):
            return data[at + 2]
        at += 4 + (int.from_bytes(data[at + 2 : at + 4], "little") if form == 4 else 0)  # noqa: PLR2004 - a format
    return None


def _noted(note: bytes, sm: int) -> Suffix:
    """Return the suffix in the assembler's command line, when it is about this arch."""
    for number, suffix in _COMMAND.findall(note):
        if int(number) == sm:
            if suffix == b"a":
                return "a"
            if suffix == b"f":
                return "f"
    return ""
