"""How containers run, and what that makes of a file."""

from __future__ import annotations

import pytest
from devicefiles import container, data, entry, scanned
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.audit.coverage import Counts, choose, count, cover, cover_cubin, jits, judge
from orchestrator.audit.facts import Container, Image, Kind
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


@given(st.lists(IMAGES, max_size=6), st.sampled_from([SPARK, HOPPER, Device(8, 0)]))
def test_what_is_chosen_runs_as_well_as_anything_there(images: list[Image], device: Device) -> None:
    found = choose(Container(0, 0, tuple(images)), device)
    assert (found is None) == (cover(images, device) == "none")
    if found is not None:
        kinds = {"jit": Kind.PTX, "exact": Kind.SASS, "compatible": Kind.SASS}
        assert images[found].kind is kinds[cover(images, device)]
        assert cover([images[found]], device) != "none"


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([sass(120), sass(121)], 1),
        ([sass(121), sass(120)], 0),
        ([sass(121), sass(121, "f"), sass(121, "a")], 2),
        ([sass(120, "f"), sass(120)], 0),
        ([sass(120, "a"), sass(120)], 1),
        ([ptx(121), sass(120)], 1),
        ([ptx(80), ptx(90), ptx(75)], 1),
        ([ptx(90, "a"), ptx(80)], 1),
        ([Image(Kind.LTO, 121), Image(Kind.TILE, 121)], None),
        ([sass(90), sass(100)], None),
        ([], None),
    ],
)
def test_what_a_driver_takes(images: list[Image], expected: int | None) -> None:
    assert choose(Container(0, 0, tuple(images)), SPARK) == expected


@pytest.mark.parametrize(
    ("isa", "driver", "expected"),
    [
        ((9, 0), (9, 0), True),
        ((9, 1), (9, 0), False),
        ((8, 8), (9, 0), True),
        ((9, 1), None, True),
        (None, (9, 0), True),
    ],
)
def test_ptx_that_is_newer_than_the_driver_is_no_fallback(
    isa: tuple[int, int] | None, driver: tuple[int, int] | None, *, expected: bool
) -> None:
    image = Image(Kind.PTX, 80, isa=isa)
    assert jits(image, SPARK, driver) is expected
    assert not jits(Image(Kind.PTX, 80, "a", isa), SPARK, driver)
    assert cover([image], SPARK, driver) == ("jit" if expected else "none")
    assert choose(Container(0, 0, (image,)), SPARK, driver) == (0 if expected else None)
    older = Image(Kind.PTX, 75, isa=(8, 0))
    assert choose(Container(0, 0, (image, older)), SPARK, driver) == (0 if expected else 1)


def test_an_older_driver_changes_the_verdict() -> None:
    facts = scanned(container(entry(1, 80)))
    assert facts.containers[0].images[0].isa == (9, 0)
    assert judge(facts, SPARK, (9, 0)) == ("jit", Counts(jit=1))
    assert judge(facts, SPARK, (8, 8)) == ("none", Counts(none=1))


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
