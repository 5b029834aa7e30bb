"""Shared libraries: compiled in a test, or put together byte by byte."""

from __future__ import annotations

import struct
import subprocess
from typing import TYPE_CHECKING

from orchestrator.audit import elf
from orchestrator.audit.dynamic import Linkage, read_linkage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEADER = 64
TABLES = 256
"""Where the tables of `dynamic_elf` lie."""


def compiled(folder: Path, name: str, source: str, *arguments: str | Path) -> Path:
    """Compile C++ `source` to a shared library, and return its path."""
    target = folder / name
    code = folder / f"{name}.cpp"
    code.write_text(source)
    command = ["g++", "-shared", "-fPIC", "-O1", "-o", target, code, f"-Wl,-soname,{name}", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    return target


def linkage_of(data: bytes) -> Linkage | str | None:
    """Read the linkage of an ELF in memory."""
    header = elf.read_header(data)
    assert header is not None
    return read_linkage(header, data, lambda at, size: data[at : at + size])


def linked(path: Path) -> Linkage:
    """Read the linkage of a file that has one."""
    found = linkage_of(path.read_bytes())
    assert isinstance(found, Linkage), found
    return found


def linkage(
    *, needed: Sequence[str] = ("libc.so.6",), undefined: Sequence[str] = (), defined: Sequence[str] = ()
) -> Linkage:
    """Return a linkage of these names."""
    return Linkage(183, tuple(needed), None, (), frozenset(undefined), frozenset(), frozenset(defined))


def segments(*loads: tuple[int, int, int, int], machine: int = 62) -> bytes:
    """Return an ELF header and program headers: each is type, offset, address, size."""
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, HEADER, 0, 0, HEADER, 56, len(loads), 0, 0, 0
    )
    return head + b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, size, size, 8)
        for kind, offset, address, size in loads
    )


def dynamic_elf(entries: Sequence[tuple[int, int]], tables: bytes) -> bytes:
    """Return an ELF whose dynamic segment has these entries."""
    body = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (0, 0)])
    at = TABLES + len(tables)
    whole = at + len(body)
    return segments((1, 0, 0, whole), (2, at, at, len(body))).ljust(TABLES, b"\0") + tables + body
