"""`sparkbuild plan`: what would be done, and why. Reads the lock; no resolver, no network, no pip."""

from __future__ import annotations

import click

from orchestrator.cli.options import ask_from, json_option, lines, print_json, what_to_plan


@click.command("plan")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
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
    as_json: bool,
) -> None:
    """Show what `sparkbuild all` or `sparkbuild RECIPE` would do: steps, action, why, order."""
    from orchestrator.build.prepare import prepare
    from orchestrator.store.home import Home

    ask = ask_from(ctx, names=names, arch=arch, device=device, stack=stack, cuda=cuda, sources=sources)
    emit = lines()
    prepared = prepare(ask, Home.default(), emit)
    emit.close()
    if as_json:
        print_json(prepared.plan.to_json())
        return
    from orchestrator.report.tables import console, plan_heading, plan_table

    out = console()
    out.print(plan_heading(prepared.plan, prepared.toolkit_text))
    out.print(plan_table(prepared.plan))
