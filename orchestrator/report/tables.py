"""The plan before a run and the table after it, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

from orchestrator.report.output import Output
from orchestrator.report.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from orchestrator.build.probed import Probed
    from orchestrator.jobs.units import Record
    from orchestrator.plan.forecast import Forecast
    from orchestrator.plan.steps import Plan, Step


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
    # What is said beside the result may go nowhere; the result itself may not.
    file = cast("TextIO", Output(stream)) if stderr else stream
    return Plain(file=file, width=width, highlight=False, emoji=False, markup=False)


def print_lines(out: Console, text: str, *, indent: int) -> None:
    """Print lines; where a person reads, they are divided between words, and go on `indent` columns in."""
    if out.is_terminal:
        from textwrap import TextWrapper

        further = " " * indent
        words = TextWrapper(
            out.width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(words.fill(line) for line in text.splitlines())
    out.print(text, soft_wrap=True)


_NAMED = 5
"""Names in one list at most."""
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


def plan_heading(plan: Plan, toolkit: str, network: str = "") -> str:
    """Return the lines above the plan: what is asked for, with which toolkit, and what of the network."""
    told = f"{network}\n" if network else ""
    return f"stack {plan.stack}, arch {plan.arch}, {plan.target}\n{toolkit}\n{told}"


def forecast_lines(forecast: Forecast) -> str:
    """Return the lines below the plan: hours, memory and disk, how sure that is, and warnings."""
    figures = [f"up to {show_bytes(forecast.peak_bytes)} of memory"]
    if forecast.wall_s is not None:
        cpus = "1 CPU" if forecast.cpus == 1 else f"{forecast.cpus} CPUs"
        figures.insert(0, f"about {_roughly(forecast.wall_s)} on {cpus}")
    if forecast.disk_bytes is not None:
        figures.append(f"{show_bytes(forecast.disk_bytes)} of disk")
    whose = "its recipe's figure" if len(forecast.guessed) == 1 else "their recipes' figures"
    sure = [
        f"{_few(names)}: {words}"
        for names, words in (
            (forecast.guessed, f"never built here, by {whose}"),
            (forecast.unfinished, "never finished here, so at least what was compiled"),
            (forecast.unknown, "how long, nobody knows"),
        )
        if names
    ]
    told = [("forecast", ", ".join(figures)), ("", "; ".join(sure))]
    told += [("warning", text) for text in forecast.warnings]
    return "\n".join(f"{word:<10}{text}" for word, text in told if text)


def prebuilt_lines(plan: Plan) -> str:
    """Return a line for each component that is taken as published and could be built: savings and costs."""
    told = [f"{step.name}: {_saved(step)}; {_cost(step, plan.arch)}" for step in plan.steps if step.saved]
    return "\n".join(f"{'' if index else 'prebuilt':<10}{text}" for index, text in enumerate(told))


def _saved(step: Step) -> str:
    saved = step.saved
    if saved is None or saved.cpu_s is None:
        return "how long its build would take, nobody knows"
    whose = {"recipe": "by its recipe's figure", "seen": "as it took before"}.get(saved.basis, "at least")
    return f"saves {_roughly(saved.cpu_s)} of CPU time, {whose}"


def _cost(step: Step, arch: str) -> str:
    if step.coverage is not None:
        return f"its audit found {step.coverage}"
    devices = ", ".join(str(device) for device in step.keyed.devices)
    spec = f"{step.keyed.distribution}=={step.keyed.version}"
    return f"coverage of {devices} unknown until it is audited: sparkbuild audit {spec} --arch '{arch}'"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _roughly(seconds: float) -> str:
    """Return `20 s`, `5 min` or `6 h 10 min`: an estimate has no seconds in its hours."""
    if seconds < 60:  # noqa: PLR2004
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else show_seconds(minutes * 60)  # noqa: PLR2004


def plan_table(plan: Plan) -> Table:
    """Return the plan: order, component, version, action, arch, why."""
    table = _table("#", "component", "version", "action", "arch", "why", right=("#",))
    for number, step in enumerate(plan.steps, 1):
        why = "; ".join((step.why, *step.notes))
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


def probe_table(rows: Sequence[Probed]) -> Table:
    """Return the table that ends a probe; a unit's name would leave no room for the rest."""
    table = _table("component", "version", "asked for", "CPU", "peak", "result", right=("CPU", "peak"))
    for row in rows:
        told = f"{row.result}: {row.coverage}" if row.coverage else row.result
        table.add_row(
            row.component,
            row.version,
            ", ".join(row.images) or "—",
            "cached" if row.cached else show_seconds(row.cpu_s),
            show_bytes(row.peak_bytes),
            told,
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
