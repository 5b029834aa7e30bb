"""`sparkbuild all` and `sparkbuild RECIPE`: plan, build, audit, store, serve, and one table at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, parse_time, print_json, what_to_plan

if TYPE_CHECKING:
    from orchestrator.build.prepare import Ask, Prepared
    from orchestrator.build.run import Failure, Outcome
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
    @json_option
    @click.pass_context
    def command(
        ctx: click.Context,
        dist: str,
        *,
        ask: Ask,
        offline: bool,
        deadline: str | None,
        as_json: bool,
    ) -> int:
        from orchestrator.build.interrupt import interruptible
        from orchestrator.build.prepare import prepare
        from orchestrator.build.run import carry_out
        from orchestrator.build.session import Session
        from orchestrator.errors import UsageError
        from orchestrator.store.home import Home

        if not dist.strip():
            raise UsageError("--dist is empty", hint="leave it out, or name a folder; is a variable unset?")
        seconds = None if deadline is None else parse_time(deadline)
        home = Home.default()
        folder = Path(dist).expanduser().absolute()
        emit = lines()
        try:
            with interruptible(seconds), Session.opened(home, emit) as session:
                prepared = prepare(replace(ask, names=names), home, emit)
                _show_plan(prepared)
                outcome = carry_out(prepared, session, dist=folder, offline=offline)
        finally:
            emit.close()
        if as_json:
            print_json(_json(prepared, outcome))
        else:
            _show(outcome, home)
        for failure in outcome.failures:
            _tell(failure, debug=bool(ctx.find_root().params.get("debug")))
        return outcome.exit_code

    return command


all_command = _command("all", "Build every component of a stack, and audit each wheel.", ())


def recipe_command(name: str) -> click.Command:
    """Return the command that builds one recipe and what it needs."""
    return _command(name, f"Build {name} and what it needs, and audit each wheel.", (name,))


def _show_plan(prepared: Prepared) -> None:
    """Show the plan on standard error, when there is something to be done."""
    if not prepared.plan.builds:
        return
    from orchestrator.report.tables import console, plan_heading, plan_table

    out = console(stderr=True)
    out.print(plan_heading(prepared.plan, prepared.toolkit_text))
    out.print(plan_table(prepared.plan))
    out.print()


def _show(outcome: Outcome, home: Home) -> None:
    """Show what became of each component, and where things are."""
    from orchestrator.report.tables import console, run_table

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
            out.print(f"note    {row.component}: {row.note}", soft_wrap=True)
        if row.log:
            out.print(f"log     {row.component}: {row.log}", soft_wrap=True)
    out.print(f"state   {home.root}", soft_wrap=True)


def _tell(failure: Failure, *, debug: bool) -> None:
    """Tell what failed: the component and what went wrong first, then where to look, then what to do."""
    error = failure.error
    lines_ = [f"error: {failure.step}: {error.message}"]
    if error.where:
        lines_.append(f"  at {error.where}")
    if error.hint:
        lines_.append(f"  hint: {error.hint}")
    click.echo("\n".join(lines_), err=True)
    if debug:
        import traceback

        traceback.print_exception(error)


def _json(prepared: Prepared, outcome: Outcome) -> dict[str, object]:
    return {
        "schema": "sparkbuild.run/1",
        "stack": prepared.plan.stack,
        "arch": prepared.plan.arch,
        "worked": outcome.worked,
        "dist": str(outcome.dist),
        "rows": [row.to_json() for row in outcome.rows],
        "failures": [
            {
                "name": failure.step,
                "code": failure.error.code,
                "exit_code": failure.error.exit_code,
                "text": failure.error.message,
                "where": failure.error.where,
                "hint": failure.error.hint,
            }
            for failure in outcome.failures
        ],
    }
