"""`sparkbuild fetch`: download and verify all that a build needs, and build nothing."""

from __future__ import annotations

import click

from orchestrator.cli.options import ask_from, lines, what_to_plan


@click.command("fetch")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
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
) -> None:
    """Download and verify sources, toolkit and build requirements, so that a build needs no network."""
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.prepare import prepare
    from orchestrator.build.provide import provide
    from orchestrator.build.session import Session
    from orchestrator.store.home import Home

    ask = ask_from(ctx, names=names, arch=arch, device=device, stack=stack, cuda=cuda, sources=sources)
    emit = lines()
    with interruptible(), Session.opened(Home.default(), emit) as session:
        prepared = prepare(ask, session.home, emit)
        provided = provide(prepared, prepared.plan.builds, session, offline=offline)
        emit.close()
    click.echo(f"everything is here: {len(provided.sources)} sources, {len(provided.layers)} layers")
