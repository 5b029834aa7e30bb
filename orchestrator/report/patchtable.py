"""What `sparkbuild patch check` found, for people: source by source, each patch with its state."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.table import Table

    from orchestrator.source.patch import Judged
    from orchestrator.source.patch_check import Checked, Row

_UNHAD = "not judged"
_WIDTH = 16
"""Of the longest state."""


def patch_heading(checked: Checked) -> str:
    """Return the line above the patches of one source: recipe, source, and where they were judged."""
    return f"{checked.recipe}, source {checked.source}: {checked.at}"


def patch_table(checked: Checked) -> Table:
    """Return the patches of one source: state, name, and below the name where it differs."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=_WIDTH + 2)
    table.add_column(overflow="fold")
    for row in checked.rows:
        table.add_row(f"  {row.state or _UNHAD}", "\n".join((row.patch, *_details(row))))
    return table


def _details(row: Row) -> Iterator[str]:
    judged = row.judged
    if judged is not None:
        if judged.reason:
            yield judged.reason
        yield from moved_lines(judged)
        if judged.state in {"conflict", "unjudged"}:
            yield judged.where
    if row.unverified is not None:
        yield row.unverified


def moved_lines(judged: Judged) -> Iterator[str]:
    """Yield a line for each file and distance that hunks have moved by."""
    files: dict[tuple[str, int], list[str]] = {}
    for moved in judged.moved:
        files.setdefault((moved.file, moved.lines), []).append(str(moved.hunk))
    for (file, lines), hunks in files.items():
        yield f"{file}: hunk{'s' if hunks[1:] else ''} {', '.join(hunks)} moved by {lines:+d} lines"


def patch_summary(found: Sequence[Checked]) -> str:
    """Return how many patches are in which state, and below that which sources could not be had."""
    states = Counter(row.state or _UNHAD for each in found for row in each.rows)
    total = states.total()
    counted = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    lines = [f"{total} {'patch' if total == 1 else 'patches'}: {counted}" if total else "no patch to judge"]
    lines += (
        f"missing: {each.recipe}, source {each.source}: {each.error.placed}"
        for each in found
        if each.error is not None
    )
    lines += (f"  hint: {hint}" for hint in dict.fromkeys(_hints(found)))
    return "\n".join(lines)


def _hints(found: Iterable[Checked]) -> Iterator[str]:
    for each in found:
        if each.error is not None and each.error.hint:
            yield each.error.hint
