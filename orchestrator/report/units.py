"""Numbers as people read them."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show_bytes(count: int | None) -> str:
    """Return `3.1 GiB`; an em dash when nothing was measured."""
    if count is None:
        return "—"
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:  # noqa: PLR2004
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004
        value /= 1024
    raise AssertionError


def show_seconds(seconds: float | None) -> str:
    """Return `0.4 s`, `12 s`, `6 min 12 s` or `1 h 04 min`; an em dash when nothing was measured."""
    if seconds is None:
        return "—"
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def show_clock(seconds: float) -> str:
    """Return elapsed time as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
