"""`sparkbuild why RECIPE`: the ingredient that makes it build again."""

from __future__ import annotations

import click

from orchestrator.cli.options import ask_from, json_option, lines, print_json, what_to_plan


@click.command("why")
@click.argument("name", metavar="RECIPE")
@what_to_plan
@json_option
@click.option("--all", "show_all", is_flag=True, help="List every ingredient of the key, changed or not.")
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    arch: str | None,
    device: str | None,
    stack: str | None,
    cuda: str,
    sources: tuple[str, ...],
    *,
    as_json: bool,
    show_all: bool,
) -> None:
    """Name what changed in a component since its last artifact, ingredient by ingredient."""
    from orchestrator.build.prepare import prepare
    from orchestrator.plan.key import changed
    from orchestrator.store.home import Home

    ask = ask_from(ctx, names=(name,), arch=arch, device=device, stack=stack, cuda=cuda, sources=sources)
    emit = lines()
    prepared = prepare(ask, Home.default(), emit)
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
