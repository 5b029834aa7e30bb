"""`sparkbuild all` and `sparkbuild RECIPE`: plan, build, audit, store, serve, and one table at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import (
    json_option,
    lines,
    log_format_option,
    parse_time,
    print_json,
    what_to_plan,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.build.outcome import Failure, Outcome
    from orchestrator.build.prepare import Ask, Prepared
    from orchestrator.build.session import Session
    from orchestrator.report.choose import LogFormat
    from orchestrator.report.events import Emit, Note
    from orchestrator.store.home import Home


def _command(name: str, text: str, names: tuple[str, ...]) -> click.Command:
    """Return the command that builds `names` (empty: all of a stack)."""

    @click.command(name, help=text)
    @what_to_plan
    @click.option(
        "--dist",
        default="dist",
        show_default=True,
        metavar="DIR",
        help="Folder for wheels and their index; the stack's name is added.",
    )
    @click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
    @click.option(
        "--deadline", metavar="TIME", help="Stop in time (exit 6), such as 5h30m; the state is kept."
    )
    @click.option(
        "--keep-going/--fail-fast",
        default=True,
        show_default=True,
        help="After a failure, build all that does not depend on it; or start nothing more.",
    )
    @click.option(
        "--steps",
        type=click.IntRange(1, 64),
        metavar="N",
        help="Components that build at a time; by the CPUs otherwise, 4 at most.",
    )
    @log_format_option
    @json_option
    @click.pass_context
    def command(
        ctx: click.Context,
        dist: str,
        *,
        ask: Ask,
        offline: bool,
        deadline: str | None,
        keep_going: bool,
        steps: int | None,
        log_format: LogFormat,
        as_json: bool,
    ) -> int:
        from orchestrator.build.interrupt import interruptible
        from orchestrator.build.run import Way, carry_out
        from orchestrator.build.session import Session
        from orchestrator.build.unread import prepare_read
        from orchestrator.errors import UsageError
        from orchestrator.store.home import Home

        if not dist.strip():
            raise UsageError("--dist is empty", hint="leave it out, or name a folder; is a variable unset?")
        seconds = None if deadline is None else parse_time(deadline)
        home = Home.default()
        folder = Path(dist).expanduser().absolute()
        emit = lines(log_format)
        try:
            with interruptible(seconds), Session.opened(home, emit, offline=offline) as session:
                prepared = prepare_read(replace(ask, names=names), home, emit, offline=offline)
                if log_format != "jsonl":
                    _show_plan(prepared, session)
                prepared.refuse_unfit()
                way = Way(offline=offline, keep_going=keep_going, at_a_time=steps)
                outcome = carry_out(prepared, session, dist=folder, way=way)
        finally:
            emit.close()
        if as_json:
            print_json(_json(prepared, outcome))
        else:
            _show(outcome, home)
        tell(outcome.failures, log_format, emit, debug=bool(ctx.find_root().params.get("debug")))
        if outcome.interrupted is not None:
            raise outcome.interrupted
        return outcome.exit_code

    return command


all_command = _command("all", "Build every component of a stack, and audit each wheel.", ())


def recipe_command(name: str) -> click.Command:
    """Return the command that builds one recipe and what it needs."""
    return _command(name, f"Build {name} and what it needs, and audit each wheel.", (name,))


def _show_plan(prepared: Prepared, session: Session) -> None:
    """Show the plan on standard error, when there is something to be done."""
    if not prepared.plan.builds:
        return
    from orchestrator.build.foresee import foreseen
    from orchestrator.report.tables import console, forecast_lines, plan_heading, plan_table, print_lines

    out = console(stderr=True)
    out.print(
        plan_heading(prepared.plan, prepared.toolkit_text, session.network.text if session.offline else "")
    )
    out.print(plan_table(prepared.plan))
    out.print()
    forecast = foreseen(prepared.plan, session.home)
    if forecast is not None:
        print_lines(out, forecast_lines(forecast), indent=10)
        out.print()


def _show(outcome: Outcome, home: Home) -> None:
    """Show what became of each component, and where things are."""
    from orchestrator.report.tables import console, print_lines, run_table

    out = console()
    if not outcome.worked and not outcome.failures:
        out.print("nothing to do: everything was built before from the same ingredients\n")
    out.print(run_table(outcome.rows))
    out.print()
    served = [wheel for row in outcome.rows for wheel in row.wheels]
    if served:
        out.print(f"wheels  {outcome.dist}")
        for wheel in served:
            out.print(f"        {wheel}", soft_wrap=True)
        out.print(f"index   pip install --index-url {(outcome.dist / 'simple').as_uri()} ...", soft_wrap=True)
    for row in outcome.rows:
        if row.note:
            print_lines(out, f"note    {row.component}: {row.note}", indent=8)
        if row.log:
            out.print(f"log     {row.component}: {row.log}", soft_wrap=True)
    out.print(f"state   {home.root}", soft_wrap=True)


def tell(failures: Iterable[Failure], log_format: LogFormat, emit: Emit, *, debug: bool) -> None:
    """Tell of each failure: people on standard error, programs that read nothing else by an event."""
    for failure in failures:
        if log_format == "jsonl":
            emit(_note(failure))
        else:
            _tell(failure, debug=debug)


def _tell(failure: Failure, *, debug: bool) -> None:
    """Tell what failed: the component and what went wrong first, then where to look, then what to do."""
    text, name = _text(failure), failure.step
    click.echo(f"error: {text}" if text.startswith(f"{name} ") else f"error: {name}: {text}", err=True)
    if debug:
        import traceback

        traceback.print_exception(failure.error)


def _note(failure: Failure) -> Note:
    """Return the same as an event."""
    from orchestrator.report.events import Note

    return Note("error", _text(failure), failure.step)


def _text(failure: Failure) -> str:
    error = failure.error
    where = f"\n  at {error.where}" if error.where and error.where not in error.message else ""
    hint = f"\n  hint: {error.hint}" if error.hint else ""
    return f"{error.message}{where}{hint}"


def _json(prepared: Prepared, outcome: Outcome) -> dict[str, object]:
    return {
        "schema": "sparkbuild.run/1",
        "stack": prepared.plan.stack,
        "arch": prepared.plan.arch,
        "worked": outcome.worked,
        "dist": str(outcome.dist),
        "rows": [row.to_json() for row in outcome.rows],
        "failures": [failure.to_json() for failure in outcome.failures],
    }
