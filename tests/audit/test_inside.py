"""Images of an entry, unpacked: one, or a group of them."""

from __future__ import annotations

import pytest
import zstandard
from devicefiles import data

from orchestrator.audit.facts import Code, Image, Kind
from orchestrator.audit.fatbin import Payload
from orchestrator.audit.inside import Inside
from orchestrator.audit.payload import FLAG_ZSTD

CUBIN, PTX = data("121a.cubin"), b".version 9.0\n.visible .entry scale(\n)"
SASS_IMAGE, PTX_IMAGE = Image(Kind.SASS, 121, "a"), Image(Kind.PTX, 121)
BOTH = (SASS_IMAGE, PTX_IMAGE)


def group(*places: tuple[int, int]) -> Payload:
    whole = CUBIN + PTX
    return Payload(zstandard.ZstdCompressor().compress(whole), FLAG_ZSTD, len(whole), places)


def names(codes: tuple[Code | None, ...]) -> list[list[str] | None]:
    return [None if code is None else [kernel.name for kernel in code.kernels] for code in codes]


def test_one_image() -> None:
    inside = Inside(10_000)
    assert names(inside((SASS_IMAGE,), Payload(CUBIN, 0x11, 0, None))) == [["scale"]]
    assert inside.findings() == []


def test_a_group() -> None:
    inside = Inside(10_000)
    assert names(inside(BOTH, group((0, len(CUBIN)), (len(CUBIN), len(PTX))))) == [["scale"], ["scale"]]
    assert inside.findings() == []


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (((0, len(CUBIN)), (len(CUBIN) + 1, len(PTX))), "compute_121: it lies outside of its group"),
        (((0, len(CUBIN)), (1 << 31, len(PTX))), "compute_121: it lies outside of its group"),
        (((0, len(CUBIN)), (0, len(CUBIN))), "sm_121a: the images of its group lie on top of each other"),
        (((0, 1 << 63), (0, 1)), "sm_121a: the images of its group lie on top of each other"),
        (((len(CUBIN), len(PTX)), (0, 0)), "sm_121a: its symbols cannot be read: it is no CUDA ELF"),
    ],
)
def test_a_group_with_odd_places(places: tuple[tuple[int, int], ...], said: str) -> None:
    inside = Inside(10_000)
    assert None in inside(BOTH, group(*places))
    (finding,) = inside.findings()
    assert (finding.level, finding.code) == ("warning", "unread-kernels")
    assert said in finding.text


def test_what_cannot_be_unpacked_is_counted() -> None:
    inside = Inside(10_000)
    broken = Payload(b"noise", FLAG_ZSTD, 100, None)
    assert inside(BOTH, broken) == (None, None)
    assert inside((SASS_IMAGE,), Payload(b"", 0x11, 0, None)) == (None,)
    (finding,) = inside.findings()
    assert "sm_121a: it cannot be decompressed" in finding.text
    assert "and 2 more" in finding.text


def test_other_kinds_are_left_alone() -> None:
    inside = Inside(10_000)
    assert inside((Image(Kind.LTO, 121),), Payload(b"scrambled", FLAG_ZSTD, 100, None)) == (None,)
    assert inside.findings() == []
