"""Which PTX a driver compiles."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchestrator.audit.driver import RELEASES, newer_driver, parse_driver
from orchestrator.errors import UsageError


@pytest.mark.parametrize(
    ("text", "isa"),
    [
        ("580", (9, 0)),
        ("r580", (9, 0)),
        ("R580", (9, 0)),
        (" 580.95.05 ", (9, 0)),
        ("580.142", (9, 0)),
        ("13.0", (9, 0)),
        ("590.48.01", (9, 1)),
        ("595.84", (9, 2)),
        ("13.3", (9, 3)),
        ("615", (9, 4)),
        ("13.5", (9, 5)),
        ("520", (7, 8)),
        ("11.8", (7, 8)),
        ("12.6", (8, 5)),
        ("560", (8, 5)),
        ("576.02", (8, 8)),
        ("581.80", (9, 0)),
        ("588", (9, 0)),
        ("619", (9, 4)),
    ],
)
def test_drivers(text: str, isa: tuple[int, int]) -> None:
    assert parse_driver(text) == isa


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no driver"),
        ("new", "'new' is no driver"),
        ("-580", "is no driver"),
        ("580.1.2.3", "is no driver"),
        ("٥٨٠", "is no driver"),
        ("13", "no driver of CUDA 13 is known"),
        ("12.10", "no driver of CUDA 12.10 is known"),
        ("10.2", "no driver of CUDA 10.2 is known"),
        ("13.6", "CUDA 13.6 is newer than all"),
        ("14.0", "CUDA 14.0 is newer than all"),
        ("470.57.02", "driver 470 is older than all"),
        ("620", "driver 620 is newer than all"),
        ("5800", "driver 5800 is newer than all"),
    ],
)
def test_what_is_not_known_is_told_with_what_is(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_driver(text)
    assert words in caught.value.message
    assert "13.0 (580), 13.1 (590)" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("isa", "text"),
    [
        ((9, 1), "PTX 9.1 needs a driver of CUDA 13.1 (590) or newer"),
        ((8, 5), "PTX 8.5 needs a driver of CUDA 12.5 (555) or newer"),
        ((9, 5), "PTX 9.5 needs a driver of CUDA 13.5 or newer"),
        ((9, 6), "PTX 9.6 needs a driver newer than that of CUDA 13.5"),
    ],
)
def test_the_driver_that_is_needed(isa: tuple[int, int], text: str) -> None:
    assert newer_driver(isa) == text


def test_releases_are_in_order_and_each_is_found_by_both_its_names() -> None:
    for before, after in pairwise(RELEASES):
        assert before.cuda < after.cuda
        assert before.ptx_isa <= after.ptx_isa
        assert after.branch is None or (before.branch or 0) < after.branch
    for release in RELEASES:
        assert parse_driver("{}.{}".format(*release.cuda)) == release.ptx_isa
        assert release.branch is None or parse_driver(str(release.branch)) == release.ptx_isa
