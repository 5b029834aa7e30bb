"""What several commands share."""

from __future__ import annotations

import pytest

from orchestrator.cli.options import parse_time, refuse_empty
from orchestrator.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"), [("5h30m", 19800), ("90m", 5400), ("45s", 45), ("1H2M3S", 3723), (" 2h ", 7200)]
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "5", "h", "5h30", "-3m", "1d", "3m2h", "9" * 50 + "s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time") as caught:
        parse_time(text)
    assert caught.value.hint


def test_an_option_without_a_value_is_named() -> None:
    refuse_empty({"--a": None, "--b": "x"})
    with pytest.raises(UsageError, match="--b is empty"):
        refuse_empty({"--a": None, "--b": " "})
