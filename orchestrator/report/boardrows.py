"""The board's rows, laid out for a width: no terminal is needed to make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from orchestrator.report.phrases import about, counted, printable
from orchestrator.report.units import show_bytes, show_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.report.state import State, Work

_GAP = 2
_ROOMY = 100
"""From so many columns on, names are cut later, and rows tell how long they have been."""
_LEAST_LINE = 12
"""With fewer columns left, a last line tells nothing."""


def board_rows(state: State, now: float, elapsed: float, *, width: int, height: int) -> list[Text]:
    """Return what the board shows: a row for each of `state.running`, and below them the sum.

    Args:
        state: what goes on.
        now: by its clock.
        elapsed: seconds since the command began.
        width: columns to fill at the most.
        height: rows at the most; at least 1 is taken.
    """
    foot = [_sum(state, now, elapsed, width)] if state.is_run else []
    passing = state.passing(now)
    if passing is not None:
        foot.insert(0, Text(_cut(printable(passing), width)))
    works = list(state.running.values())
    room = max(0, height - len(foot))
    if len(works) > room:
        left = len(works) - max(0, room - 1)
        works, more = works[: max(0, room - 1)], [Text(_cut(f"... and {left} more", width), "dim")]
        foot = [*more, *foot]
    return [*_rows(works, now, width), *foot][-max(1, height) :]


def _rows(works: Sequence[Work], now: float, width: int) -> list[Text]:
    """Return a row for each: name, stage, units, time left, how long, last line; as many as have room."""
    roomy = width >= _ROOMY
    table = [
        [
            printable(work.name),
            printable(work.stage),
            _units(work.count) if work.count else "",
            f"{about(left)} left" if (left := work.left_s(now)) is not None else "",
            show_clock(now - work.began) if roomy else "",
        ]
        for work in works
    ]
    most = (24, 22, 15, 16, 8) if roomy else (18, 12, 15, 16, 0)
    rights = (False, False, True, True, True)
    rows = [Text() for _ in works]
    used = 0
    for column, (limit, right) in enumerate(zip(most, rights, strict=True)):
        longest = max((cell_len(row[column]) for row in table), default=0)
        size = min(longest, limit, width if column == 0 else limit)
        gap = _GAP if column else 0
        if not size or used + gap + size > width:
            continue
        for row, cells in zip(rows, table, strict=True):
            cell = _cut(cells[column], size)
            pad = " " * (size - cell_len(cell))
            row.append(" " * gap)
            row.append(f"{pad}{cell}" if right else f"{cell}{pad}", "" if column else "bold")
        used += gap + size
    room = width - used - _GAP
    for row, work in zip(rows, works, strict=True):
        if room >= _LEAST_LINE and (line := printable(work.line).strip()):
            row.append(f"{' ' * _GAP}{_cut(line, room)}", "dim")
        row.rstrip()
    return rows


def _units(count: tuple[int, int | None]) -> str:
    if count[1] is not None:
        return counted(count)
    return "1 unit" if count[0] == 1 else f"{count[0]} units"


def _sum(state: State, now: float, elapsed: float, width: int) -> Text:
    parts = [f"[{show_clock(elapsed):>7}]"]
    done = len(state.ended if state.planned is None else state.ended.intersection(state.planned))
    failed = f" ({state.failed} failed)" if state.failed else ""
    parts.append(f"steps {done}{'' if state.planned is None else f'/{len(state.planned)}'}{failed}")
    usage = state.usage(now)
    if usage is not None:
        parts.append(f"compilers {usage.units}/{usage.slots}")
        parts.append(_of(usage.used_bytes, usage.budget_bytes))
    if state.units:
        parts.append(f"cached {state.hits}/{state.units}")
    while len(parts) > 1 and len("  ".join(parts)) > width:
        parts.pop()
    return Text(_cut("  ".join(parts), width), "bold red" if state.failed else "bold")


def _of(used: int, budget: int) -> str:
    """Return `41.2/96.0 GiB`."""
    part, whole = show_bytes(used), show_bytes(budget)
    number, _, unit = part.partition(" ")
    return f"{number}/{whole}" if whole.endswith(f" {unit}") else f"{part}/{whole}"


def _cut(text: str, size: int) -> str:
    """Return what of the text has room in so many cells; letters may take two."""
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size)).rstrip()
