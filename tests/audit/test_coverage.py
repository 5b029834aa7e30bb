"""How containers run, and what that makes of a file."""

from __future__ import annotations

import pytest
from devicefiles import container, data, entry, scanned
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.audit.coverage import Counts, count, cover, cover_cubin, judge
from orchestrator.audit.facts import Image, Kind
from orchestrator.model.archvalues import Device, Suffix

SPARK = Device(12, 1)
HOPPER = Device(9, 0)


def sass(sm: int, suffix: Suffix = "") -> Image:
    return Image(Kind.SASS, sm, suffix)


def ptx(sm: int, suffix: Suffix = "") -> Image:
    return Image(Kind.PTX, sm, suffix)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([sass(121, "a")], "exact"),
        ([sass(121)], "exact"),
        ([sass(120)], "compatible"),
        ([sass(120, "f")], "compatible"),
        ([sass(120), sass(121, "f")], "exact"),
        ([sass(120, "a")], "none"),
        ([sass(90, "a"), sass(100, "f")], "none"),
        ([ptx(80)], "jit"),
        ([ptx(121, "a")], "jit"),
        ([ptx(120, "a")], "none"),
        ([ptx(80), sass(120)], "compatible"),
        ([sass(120), ptx(121)], "compatible"),
        ([Image(Kind.LTO, 121)], "none"),
        ([Image(Kind.TILE, 121)], "none"),
        ([Image(Kind.LINK_PTX, 121)], "none"),
        ([Image(Kind.UNKNOWN, 121)], "none"),
        ([], "none"),
    ],
)
def test_on_a_spark(images: list[Image], expected: str) -> None:
    assert cover(images, SPARK) == expected


IMAGES = st.builds(
    Image,
    st.sampled_from([Kind.SASS, Kind.PTX, Kind.LTO]),
    st.sampled_from([75, 80, 90, 100, 120, 121]),
    st.sampled_from(["", "a", "f"]),
)
ORDER = ["none", "jit", "compatible", "exact"]


@given(st.lists(IMAGES, max_size=6), IMAGES)
def test_another_image_never_makes_it_worse(images: list[Image], more: Image) -> None:
    assert ORDER.index(cover([*images, more], SPARK)) >= ORDER.index(cover(images, SPARK))
    assert cover(images, SPARK) == cover(images[::-1], SPARK)


def test_a_cubin_that_must_be_linked_does_not_run() -> None:
    assert cover_cubin(sass(121), SPARK) == "exact"
    assert cover_cubin(Image(Kind.SASS, 121, linkable=True), SPARK) == "none"


def test_counts() -> None:
    counts = count(["exact", "jit", "exact", "none", "compatible"])
    assert counts == Counts(exact=2, compatible=1, jit=1, none=1)
    assert (counts.total, counts.native) == (5, 3)


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (container(entry(2, 121)) + container(entry(2, 120)), "native"),
        (container(entry(2, 121)) + container(entry(1, 80)), "partial"),
        (container(entry(1, 80)) + container(entry(2, 90)), "jit"),
        (container(entry(2, 90)), "none"),
        (data("rdc.o"), "none"),
        (data("magic.so"), "host"),
        (b"", "host"),
        (container(entry(2, 121)) + container(entry(2, 121))[:-4], "partial"),
        (container(entry(2, 121))[:-4], "none"),
    ],
)
def test_verdicts(content: bytes, verdict: str) -> None:
    assert judge(scanned(content), SPARK)[0] == verdict


def test_the_same_file_on_another_device() -> None:
    facts = scanned(data("native.so"))
    assert judge(facts, HOPPER) == ("native", Counts(exact=2))
    assert judge(facts, Device(10, 0)) == ("none", Counts(none=2))
