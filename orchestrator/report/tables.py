"""The plan before a run and the table after it, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.report.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from orchestrator.jobs.units import Record
    from orchestrator.plan.steps import Plan


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one component. Times in seconds, memory in bytes; None: nothing was measured."""

    component: str
    version: str
    action: str
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None
    coverage: str = ""
    note: str = ""
    """Why nothing was done about it."""
    wheels: tuple[str, ...] = ()
    key: str | None = None
    log: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as the run's JSON shows it."""
        return {
            "name": self.component,
            "version": self.version,
            "action": self.action,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "peak_bytes": self.peak_bytes,
            "coverage": self.coverage or None,
            "note": self.note or None,
            "wheels": list(self.wheels),
            "key": self.key,
            "log": self.log,
        }


def console(*, stderr: bool = False) -> Console:
    """Return a console that wraps nothing on a pipe: 200 columns there, the terminal's own otherwise."""
    import sys

    from rich.console import Console

    class Plain(Console):
        """Lets a reader that went away be told by whoever runs the command."""

        def on_broken_pipe(self) -> None:
            """Raise again; rich itself would end the process as failed."""
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 200
    return Plain(file=stream, width=width, highlight=False, emoji=False, markup=False)


_WHOLE = frozenset({"action", "component", "version", "how"})
"""Columns whose words are not divided."""


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        if column in right:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return table


def plan_heading(plan: Plan, toolkit: str) -> str:
    """Return the lines above the plan: what is asked for, and with which toolkit."""
    return f"stack {plan.stack}, arch {plan.arch}, {plan.target}\n{toolkit}\n"


def plan_table(plan: Plan) -> Table:
    """Return the plan: order, component, version, action, arch, why."""
    table = _table("#", "component", "version", "action", "arch", "why", right=("#",))
    for number, step in enumerate(plan.steps, 1):
        why = "; ".join((step.why, *step.keyed.notes))
        row = (step.name, step.keyed.version, step.action, step.keyed.arch or "—", why)
        table.add_row(str(number), *row)
    return table


def run_table(rows: Sequence[Row]) -> Table:
    """Return the table that ends a run."""
    table = _table(
        "component", "version", "action", "time", "CPU", "peak", "coverage", right=("time", "CPU", "peak")
    )
    for row in rows:
        table.add_row(
            row.component,
            row.version,
            row.action,
            show_seconds(row.wall_s),
            show_seconds(row.cpu_s),
            show_bytes(row.peak_bytes),
            row.coverage or "—",
        )
    return table


def units_table(records: Sequence[Record]) -> Table:
    """Return the table of what was compiled, in the order given: cost, what became of it, images, name."""
    table = _table("CPU", "wall", "peak", "how", "images", "unit", right=("CPU", "wall", "peak"))
    for record in records:
        table.add_row(
            show_seconds(record.cpu_s),
            show_seconds(record.wall_s),
            show_bytes(record.peak_bytes or None),
            record.how,
            ", ".join(record.images) or "—",
            record.unit.name,
        )
    return table
