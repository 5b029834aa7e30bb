"""Pins: what a stack says of a source, and whether a patch was judged at that very state."""

from __future__ import annotations

import pytest
from samples import locked_file

from orchestrator.model.lock import LockedSource
from orchestrator.model.pins import Pin, pin_of, unverified
from orchestrator.model.recipe import Source

COMMIT, OTHER = "ab" * 20, "cd" * 20
GIT = Source(git="https://example.org/vec")


@pytest.mark.parametrize(
    ("source", "locked", "pin"),
    [
        (Source(sdist="vec"), LockedSource(file=locked_file("vec")), Pin(version="1.0")),
        (Source(archive="https://example.org/{version}.zip"), None, Pin(version="1.0")),
        (GIT, LockedSource(commit=COMMIT, tag="v1.0"), Pin(commit=COMMIT)),
        (GIT, LockedSource(commit="unresolved", tag="v1.0"), Pin(tag="v1.0")),
        (Source(local="vec"), None, None),
    ],
)
def test_what_is_pinned(source: Source, locked: LockedSource | None, pin: Pin | None) -> None:
    assert pin_of(source, locked, version="1.0") == pin


@pytest.mark.parametrize(
    ("pin", "seen_at", "told"),
    [
        (None, (), None),
        (Pin(version="1.0"), ("0.9", "1.0.0"), None),
        (Pin(commit=COMMIT), ("0.9", COMMIT), None),
        (
            Pin(version="1.0.post1"),
            ("1.0", "1.1"),
            "unverified-at-pin (version 1.0.post1): seen at 1.0, 1.1 only",
        ),
        (Pin(version="1.0"), (), "unverified-at-pin (version 1.0): nobody has seen it"),
        (Pin(version="1.0"), (COMMIT,), "unverified-at-pin (version 1.0): seen at commit abababababab only"),
        (Pin(commit=COMMIT), ("1.0",), "unverified-at-pin (commit abababababab): seen at 1.0 only"),
        (
            Pin(commit=COMMIT),
            (OTHER, "1.0"),
            "unverified-at-pin (commit abababababab): seen at commit cdcdcdcdcdcd, 1.0 only",
        ),
        (Pin(tag="v1.0"), ("1.0",), "unverified-at-pin (unresolved tag v1.0): seen at 1.0 only"),
        (Pin(version="nightly"), ("1.0",), "unverified-at-pin (version nightly): seen at 1.0 only"),
    ],
)
def test_who_has_seen_it(pin: Pin | None, seen_at: tuple[str, ...], told: str | None) -> None:
    assert unverified(pin, seen_at) == told
