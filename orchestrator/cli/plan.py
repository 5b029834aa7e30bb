"""`sparkbuild plan`: what would be done, and why. Reads the lock; no resolver, no network, no pip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, meant, print_json, what_to_plan

if TYPE_CHECKING:
    from orchestrator.build.prepare import Ask


@click.command("plan")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@json_option
def command(
    names: tuple[str, ...],
    *,
    ask: Ask,
    as_json: bool,
) -> None:
    """Show what `sparkbuild all` or `sparkbuild RECIPE` would do: steps, action, why, order."""
    from orchestrator.build.prepare import prepare
    from orchestrator.store.home import Home

    emit = lines()
    prepared = prepare(replace(ask, names=meant(names)), Home.default(), emit)
    emit.close()
    if as_json:
        print_json(prepared.plan.to_json())
        return
    from orchestrator.report.tables import console, plan_heading, plan_table

    out = console()
    out.print(plan_heading(prepared.plan, prepared.toolkit_text))
    out.print(plan_table(prepared.plan))
