"""`sparkbuild fetch`: download and verify all that a build needs, and build nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, meant, print_json, what_to_plan

if TYPE_CHECKING:
    from orchestrator.build.prepare import Ask


@click.command("fetch")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
@json_option
def command(
    names: tuple[str, ...],
    *,
    ask: Ask,
    offline: bool,
    as_json: bool,
) -> None:
    """Download and verify sources, toolkit and build requirements, so that a build needs no network."""
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.prepare import prepare
    from orchestrator.build.provide import provide
    from orchestrator.build.session import Session
    from orchestrator.store.home import Home

    emit = lines()
    try:
        with interruptible(), Session.opened(Home.default(), emit) as session:
            prepared = prepare(replace(ask, names=meant(names)), session.home, emit)
            provided = provide(prepared, prepared.plan.builds, session, offline=offline)
    finally:
        emit.close()
    if as_json:
        print_json(
            {
                "schema": "sparkbuild.fetch/1",
                "stack": prepared.plan.stack,
                "toolkit": str(provided.toolkit) if provided.toolkit else None,
                "sources": [
                    {"recipe": recipe, "source": source, "digest": fetched.digest}
                    for (recipe, source), fetched in provided.sources.items()
                ],
                "layers": {name: [str(path) for path in paths] for name, paths in provided.layers.items()},
            }
        )
        return
    if not prepared.plan.builds:
        click.echo("nothing to fetch: everything was built before from the same ingredients")
        return
    layers = {path for paths in provided.layers.values() for path in paths}
    click.echo(f"all is here: {len(provided.sources)} sources, {len(layers)} layers of packages")
