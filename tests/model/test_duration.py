"""Times as people write them."""

from __future__ import annotations

import pytest

from orchestrator.model.duration import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("9h", 32400), ("5h30m", 19800), ("90m", 5400), ("45s", 45), ("1h2m3s", 3723), ("0h1s", 1)],
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "0s", "0h0m", "5", "h", "5h30", "-3m", "1d", "3m2h", "1.5h", " 9h", "9H", "٣h", "9" * 50 + "s"],
)
def test_what_is_no_time(text: str) -> None:
    assert seconds_of(text) is None
