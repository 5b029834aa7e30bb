"""Options that several commands share, and the values they become."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.build.prepare import Ask
    from orchestrator.report.lines import Lines

F = TypeVar("F", bound=Callable[..., Any])


def what_to_plan(function: F) -> F:
    """Add the options that say what is planned: arch, device, stack, toolkit, local sources."""
    options = [
        click.option(
            "--arch",
            metavar="LIST",
            help="What to compile for, such as 12.1a (DGX Spark) or '9.0a;12.1a'. See `sparkbuild arch`.",
        ),
        click.option("--device", metavar="CC", help="GPU to serve, such as 12.1, when --arch names another."),
        click.option(
            "--stack", metavar="NAME", help="Stack to take versions from; the default one otherwise."
        ),
        click.option(
            "--cuda",
            default="auto",
            metavar="auto|system|pip|PATH",
            show_default=True,
            help="CUDA toolkit: the system's when it serves, else from wheels; or insist on one.",
        ),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="NAME=DIR",
            help="Take a source from a folder; NAME is a recipe or RECIPE/SOURCE. May be given again.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")(function)


def ask_from(
    ctx: click.Context,
    *,
    names: tuple[str, ...],
    arch: str | None,
    device: str | None,
    stack: str | None,
    cuda: str,
    sources: tuple[str, ...],
) -> Ask:
    """Return what a person asked for; `all` among the names means the whole stack."""
    from orchestrator.build.prepare import Ask
    from orchestrator.errors import UsageError

    for name, value in {"--stack": stack, "--cuda": cuda, "--device": device}.items():
        if value is not None and not value.strip():
            raise UsageError(
                f"{name} is empty", hint="leave it out, or give it a value; is a variable unset?"
            )
    folders: tuple[Path, ...] = ctx.find_root().params.get("recipes", ())
    return Ask(
        names=() if names == ("all",) else names,
        arch=arch,
        device=device,
        stack=stack,
        cuda=cuda,
        sources=sources,
        recipe_folders=folders,
    )


def lines() -> Lines:
    """Return the renderer of events for this process."""
    from orchestrator.report.lines import Lines

    return Lines(sys.stderr)


def print_json(value: object) -> None:
    """Print one JSON document on standard output."""
    import json

    click.echo(json.dumps(value, indent=2))
