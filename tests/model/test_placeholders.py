"""Words in braces: what they are, what is wrong with them, what they become."""

from __future__ import annotations

import pytest

from orchestrator.model.placeholders import BUILD, faults, filled, named

WORDS = {"src": "/w/src", "out": "/w/out", "version": "1.0"}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("plain", "plain"),
        ("{src}/csrc:{out}", "/w/src/csrc:/w/out"),
        ("{{src}}", "{src}"),
        ("{{{src}}}", "{/w/src}"),
        ('{{"a": {{"b": 1}}}}', '{"a": {"b": 1}}'),
        ("${HOME}/{out}", "${HOME}//w/out"),
        ("${version}", "${version}"),
        ("${{src:-{out}}}", "${src:-/w/out}"),
        ("$ORIGIN/../{version}", "$ORIGIN/../1.0"),
        ("", ""),
    ],
)
def test_filled(text: str, becomes: str) -> None:
    assert faults(text, BUILD) == []
    assert filled(text, WORDS) == becomes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{output}", ["{output}"]),
        ("{}", ["{}"]),
        ("{src", ["{"]),
        ("src}", ["}"]),
        ('{"a": {"b": 1}}', ["{", '{"b": 1}', "}"]),
        ("{a}{src}{b}", ["{a}", "{b}"]),
        ("{Src}", ["{Src}"]),
        ("${unclosed", ["{"]),
    ],
)
def test_faults(text: str, found: list[str]) -> None:
    assert faults(text, BUILD) == found


def test_what_is_put_in_is_not_read_again() -> None:
    assert filled("{src} {out}", {"src": "{out}", "out": "/o"}) == "{out} /o"


def test_named_words_are_those_in_single_braces() -> None:
    assert named("{src}/{{out}}/${work}/{version}") == {"src", "version"}
    assert named("none") == frozenset()
