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
@click.option("--offline", is_flag=True, help="Say what would keep the network from the build's commands.")
@json_option
def command(
    names: tuple[str, ...],
    *,
    ask: Ask,
    offline: bool,
    as_json: bool,
) -> None:
    """Show what `sparkbuild all` or `sparkbuild RECIPE` would do: steps, action, why, order."""
    from orchestrator.build.foresee import foreseen
    from orchestrator.build.isolation import isolation
    from orchestrator.build.prepare import prepare
    from orchestrator.report.events import Note
    from orchestrator.store.home import Home

    emit, home = lines(), Home.default()
    prepared = prepare(replace(ask, names=meant(names)), home, emit)
    for fault in prepared.unfit.values():
        emit(Note("warning", f"{fault.message}; {fault.hint}"))
    emit.close()
    forecast = foreseen(prepared.plan, home)
    network = isolation(offline=offline)
    if as_json:
        more = {"forecast": forecast and forecast.to_json(), "network": network.held}
        print_json({**prepared.plan.to_json(), **more})
        return
    from orchestrator.report.tables import (
        console,
        forecast_lines,
        plan_heading,
        plan_table,
        prebuilt_lines,
        print_lines,
    )

    out = console()
    out.print(plan_heading(prepared.plan, prepared.toolkit_text, network.text if offline else ""))
    out.print(plan_table(prepared.plan))
    if forecast is not None:
        out.print()
        print_lines(out, forecast_lines(forecast), indent=10)
    if published := prebuilt_lines(prepared.plan):
        out.print()
        print_lines(out, published, indent=10)
