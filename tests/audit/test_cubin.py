"""The arch of a cubin outside any fatbin, in each ABI."""

from __future__ import annotations

import struct

import pytest
from devicefiles import EXPECTED, data

from orchestrator.audit.cubin import read_cubin
from orchestrator.audit.facts import Image

CUBINS = sorted(name for name in EXPECTED if name.endswith(".cubin"))


def name(content: bytes) -> str:
    found = read_cubin(content)
    return found.name if isinstance(found, Image) else found


def changed(content: bytes, *, osabi: int | None = None, flags: int | None = None) -> bytes:
    found = bytearray(content)
    if osabi is not None:
        found[7] = osabi
    if flags is not None:
        struct.pack_into("<I", found, 48, flags)
    return bytes(found)


@pytest.mark.parametrize("cubin", CUBINS)
def test_as_nvcc_13_makes_them(cubin: str) -> None:
    assert name(data(cubin)) == EXPECTED[cubin]["cubin"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(0x5A055A, "sm_90"), (0x5A0D5A, "sm_90a"), (0x500550, "sm_80"), (0x460D46, "sm_70")],
)
def test_the_abi_before_cuda_13(flags: int, expected: str) -> None:
    """In very old cubins bit 0x800 means something else, so it is read from sm_90 on."""
    assert name(changed(data("80.cubin"), osabi=0x33, flags=flags)) == expected


@pytest.mark.parametrize(
    ("flags", "expected"), [(0x600780A, "sm_120a"), (0x6007802, "sm_120"), (0x600640A, "sm_100a")]
)
def test_the_flag_of_cuda_12_8(flags: int, expected: str) -> None:
    assert name(changed(data("80.cubin"), flags=flags)) == expected


def test_the_family_is_told_by_the_note_alone() -> None:
    content = data("120f.cubin")
    assert name(content.replace(b"-arch sm_120f", b"-arch sm_120 ")) == "sm_120"
    assert name(content.replace(b"-arch sm_120f", b"-arch sm_100f")) == "sm_120"


def test_arch_specific_is_told_by_the_attribute_and_by_the_note() -> None:
    content = data("121a.cubin")
    silent = content.replace(b"-arch sm_121a", b"-arch sm_121 ")
    assert name(silent) == "sm_121a"
    assert name(content.replace(b"\x02\x09\x01\x00", b"\x02\x09\x00\x00")) == "sm_121a"
    assert name(silent.replace(b"\x02\x09\x01\x00", b"\x02\x09\x00\x00")) == "sm_121"


def test_what_cannot_be_told_is_said() -> None:
    content = data("120.cubin")
    assert "ABI 0x42" in name(changed(content, osabi=0x42))
    assert name(changed(content, flags=0)) == "it names no arch"
    bare = bytearray(content)
    struct.pack_into("<Q", bare, 0x28, 0)
    assert "no table of sections" in name(bytes(bare))
    assert name(b"") == "it is no 64-bit CUDA ELF"
    assert name(data("plain.o")) == "it is no 64-bit CUDA ELF"


def test_cut_anywhere() -> None:
    content = data("121a.cubin")
    (table,) = struct.unpack_from("<Q", content, 0x28)
    (count,) = struct.unpack_from("<H", content, 0x3C)
    for length in range(table + count * 64):
        assert isinstance(read_cubin(content[:length]), str), length
