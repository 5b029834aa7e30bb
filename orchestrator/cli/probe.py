"""`sparkbuild probe`: what a night of building would come to, told by one unit of each component."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import (
    json_option,
    lines,
    log_format_option,
    meant,
    print_json,
    what_to_plan,
)

if TYPE_CHECKING:
    from orchestrator.build.prepare import Ask, Prepared
    from orchestrator.build.probed import ProbeOutcome
    from orchestrator.report.choose import LogFormat


@click.command("probe")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
@log_format_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    *,
    ask: Ask,
    offline: bool,
    log_format: LogFormat,
    as_json: bool,
) -> int:
    """Compile one unit of each component as its build would, and audit the object.

    Minutes instead of hours to learn that a flag, patch, header or compiler is wrong: sources are fetched,
    patched and configured, then the recipe's representative unit is compiled with the flags that the build
    gives it. Nothing is stored, but the compiler cache keeps the unit for the build. What cannot be had
    stops nothing else.

    Exit codes: 1 it does not build or compile; 3 what a unit holds, or was to hold, falls short; 4 the
    host compiler is not one that a component can be built with; 5 something could not be had.
    """
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.probe import probe
    from orchestrator.build.session import Session
    from orchestrator.build.unread import prepare_reading
    from orchestrator.cli.build import tell
    from orchestrator.store.home import Home

    emit, home = lines(log_format), Home.default()
    try:
        with interruptible(), Session.opened(home, emit, probing=True, offline=offline) as session:
            asked = replace(ask, names=meant(names))
            prepared, unread = prepare_reading(asked, home, emit, offline=offline)
            outcome = probe(prepared, session, offline=offline, unread=unread)
    finally:
        emit.close()
    if as_json:
        print_json(_json(prepared, outcome))
    else:
        _show(outcome)
    tell(outcome.failures, log_format, emit, debug=bool(ctx.find_root().params.get("debug")))
    if outcome.interrupted is not None:
        raise outcome.interrupted
    return outcome.exit_code


def _show(outcome: ProbeOutcome) -> None:
    from orchestrator.report.tables import console, print_lines, probe_table

    out = console()
    out.print(probe_table(outcome.rows))
    out.print()
    for row in outcome.rows:
        if row.unit:
            out.print(f"unit    {row.component}: {row.unit}", soft_wrap=True)
    told = {failure.step for failure in outcome.failures}
    notes: dict[str, list[str]] = {}
    for row in outcome.rows:
        if row.note and row.component not in told:
            notes.setdefault(row.note, []).append(row.component)
    for note, names in notes.items():
        print_lines(out, f"note    {', '.join(names)}: {note}", indent=8)
    for row in outcome.rows:
        if row.log:
            out.print(f"log     {row.component}: {row.log}", soft_wrap=True)


def _json(prepared: Prepared, outcome: ProbeOutcome) -> dict[str, object]:
    return {
        "schema": "sparkbuild.probe/1",
        "stack": prepared.plan.stack,
        "arch": prepared.plan.arch,
        "rows": [row.to_json() for row in outcome.rows],
        "failures": [failure.to_json() for failure in outcome.failures],
    }
