"""Kernels by name, and which of them do no work: as the sources beside the binaries say."""

from __future__ import annotations

import random
import struct
import time

import pytest
from devicefiles import data, kernels_of

from orchestrator.audit import kernels
from orchestrator.audit.facts import Code, Image, Kind
from orchestrator.audit.kernels import KernelReader

SASS = Image(Kind.SASS, 121, "a")
SYMBOL = struct.Struct("<IBBHQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("native.so", [["add"], ["add"], ["scale"], ["scale"]]),
        ("wrong.so", [["add"], ["add"], ["scale"], ["scale"]]),
        ("family.so", [["add"], ["add"], ["scale"], ["scale"]]),
        ("none.fatbin", [["scale"], ["scale"]]),
        ("size.fatbin", [["scale"], ["scale"]]),
        ("speed.fatbin", [["scale"], ["scale"]]),
        ("ptx.90.fatbin", [["scale"]]),
        ("rdc.o", [["add"], ["add"]]),
        ("121a.cubin", [["scale"]]),
        ("80.cubin", [["scale"]]),
        ("rel.121a.cubin", [["add"]]),
    ],
)
def test_names(name: str, expected: list[list[str]]) -> None:
    """Device functions, such as `twice`, are no kernels. Payloads are raw, LZ4 and ZSTD."""
    assert [sorted(found) for found in kernels_of(data(name))] == expected


HOLLOW = {"works": None, "nothing": "empty", "guarded": "trap", "asserts": "trap"}
REAL = {"works": None, "nothing": "empty", "guarded": None, "asserts": None}


def test_kernels_without_work() -> None:
    assert kernels_of(data("hollow.so")) == [REAL, HOLLOW]
    assert kernels_of(data("hollow121.so")) == [HOLLOW]


def test_a_name_is_kept_once() -> None:
    reader = KernelReader()
    first, second = (reader.read(SASS, data(name)) for name in ("121a.cubin", "90a.cubin"))
    assert isinstance(first, Code)
    assert isinstance(second, Code)
    assert first.kernels[0] is second.kernels[0]


def cubin(symbols: bytes, names: bytes, *, linked: int = 2, code: int = 0) -> bytes:
    """Return a cubin with a table of symbols and one of names; its first section is NULL."""
    start = 64 + 3 * SECTION.size
    places = ((0, 0, 0), (2, start, len(symbols)), (3, start + len(symbols), len(names)))
    if code:
        places = ((1, start, code), *places[1:])
    table = b"".join(SECTION.pack(0, kind, 0, 0, at, size, linked, 0, 0, 0) for kind, at, size in places)
    head = b"\x7fELF\x02\x01\x01\x41\x08".ljust(16, b"\0")
    return (
        head
        + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64, 0x6007902, 64, 56, 0, 64, 3, 2)
        + (table + symbols + names)
    )


def symbol(name: int, section: int = 1) -> bytes:
    return SYMBOL.pack(name, 0x12, 0x10, section, 0, 0)


def test_odd_tables_are_told() -> None:
    good = cubin(symbol(0), b"kernel\0")
    read = KernelReader().read(SASS, good)
    assert isinstance(read, Code)
    assert [kernel.name for kernel in read.kernels] == ["kernel"]
    assert KernelReader().read(SASS, b"") == "its symbols cannot be read: it is no CUDA ELF"
    for length in range(len(good) - 8):
        assert isinstance(KernelReader().read(SASS, good[:length]), str | Code)
    assert "no names" in str(KernelReader().read(SASS, cubin(symbol(0), b"kernel\0", linked=9)))
    assert "cut off" in str(KernelReader().read(SASS, good[:200]))


def test_symbols_beyond_all_tables() -> None:
    found = KernelReader().read(SASS, cubin(symbol(1 << 31, 60_000) + symbol(3), b"kernel"))
    assert isinstance(found, Code)
    assert [kernel.name for kernel in found.kernels] == ["", "nel"]


def test_names_that_overlap_are_not_read_for_ever() -> None:
    content = cubin(b"".join(symbol(at) for at in range(60_000)), b"k" * 65_000 + b"\0")
    started = time.process_time()
    assert "again and again" in str(KernelReader().read(SASS, content))
    assert time.process_time() - started < 2


def test_many_kernels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_KERNELS_AT_MOST", 5)
    monkeypatch.setattr(kernels, "_NAMES_AT_MOST", 10)
    reader = KernelReader()
    assert isinstance(reader.read(SASS, cubin(symbol(0) * 4, b"kernel\0")), Code)
    assert "more kernels" in str(reader.read(SASS, cubin(symbol(0) * 2, b"kernel\0")))
    assert "more kernels" in str(KernelReader().read(SASS, cubin(symbol(0) + symbol(7), b"kernel\0others\0")))
    ptx = Image(Kind.PTX, 121)
    assert "more kernels" in str(KernelReader().read(ptx, b".entry a\n" * 6))


def test_damage_anywhere() -> None:
    generator = random.Random(121)
    content = data("121a.cubin")
    odd = 0
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        odd += isinstance(KernelReader().read(SASS, bytes(damaged)), str)
    assert odd
