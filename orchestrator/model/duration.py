"""Times as people write them: `5h30m`, `90m`, `45s`. One grammar, for options and recipes."""

from __future__ import annotations

import re

PATTERN = r"(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?"
"""Hours, minutes, seconds, each once at most, in this order; what it matches may still be no time at all."""
_DURATION = re.compile(PATTERN)
_SECONDS = (3600, 60, 1)


def seconds_of(text: str) -> float | None:
    """Return the seconds of a time; None when the text is none, or no time at all (`0s`)."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = sum(int(part or 0) * worth for part, worth in zip(found.groups(), _SECONDS, strict=True))
    return float(total) or None
