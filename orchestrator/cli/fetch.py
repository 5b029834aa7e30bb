"""`sparkbuild fetch`: download and verify all that a build needs, and build nothing."""

from __future__ import annotations

import click

from orchestrator.cli.options import ask_from, json_option, lines, print_json, what_to_plan


@click.command("fetch")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    arch: str | None,
    device: str | None,
    stack: str | None,
    cuda: str,
    sources: tuple[str, ...],
    *,
    offline: bool,
    as_json: bool,
) -> None:
    """Download and verify sources, toolkit and build requirements, so that a build needs no network."""
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.prepare import prepare
    from orchestrator.build.provide import provide
    from orchestrator.build.session import Session
    from orchestrator.store.home import Home

    ask = ask_from(ctx, names=names, arch=arch, device=device, stack=stack, cuda=cuda, sources=sources)
    emit = lines()
    try:
        with interruptible(), Session.opened(Home.default(), emit) as session:
            prepared = prepare(ask, session.home, emit)
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
