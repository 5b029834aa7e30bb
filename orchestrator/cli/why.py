"""`sparkbuild why RECIPE`: the ingredient that makes it build again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, print_json, what_to_plan

if TYPE_CHECKING:
    from orchestrator.build.prepare import Ask


@click.command("why")
@click.argument("name", metavar="RECIPE")
@what_to_plan
@json_option
@click.option("--all", "show_all", is_flag=True, help="List every ingredient of the key, changed or not.")
def command(
    name: str,
    *,
    ask: Ask,
    as_json: bool,
    show_all: bool,
) -> None:
    """Name what changed in a component since its last artifact, ingredient by ingredient."""
    from orchestrator.build.prepare import prepare
    from orchestrator.plan.key import changed
    from orchestrator.store.home import Home

    emit = lines()
    prepared = prepare(replace(ask, names=(name,)), Home.default(), emit)
    emit.close()
    step = prepared.plan.step(name)
    before = prepared.last.get(name)
    changes = changed(before.ingredients, step.keyed.ingredients) if before else ()
    if as_json:
        print_json(
            {
                "schema": "sparkbuild.why/1",
                "name": name,
                "action": step.action,
                "why": step.why,
                "key": step.keyed.key,
                "changes": [
                    {"ingredient": item.ingredient, "before": item.before, "now": item.now}
                    for item in changes
                ],
                "ingredients": dict(step.keyed.ingredients),
            }
        )
        return
    click.echo(f"{name} {step.keyed.version}: {step.action}: {step.why}")
    click.echo(f"  key {step.keyed.key}")
    for item in changes:
        click.echo(f"  {item.ingredient}")
        click.echo(f"    before  {item.before or '(not there)'}")
        click.echo(f"    now     {item.now or '(gone)'}")
    if show_all:
        for key, value in sorted(step.keyed.ingredients.items()):
            click.echo(f"  {key}: {value}")
