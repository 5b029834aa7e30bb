"""Options that several commands share, and the values they become."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.report.lines import Lines

F = TypeVar("F", bound=Callable[..., Any])


def what_to_plan(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is planned, and hand them on as one `ask`, which names no recipe yet."""
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

    @functools.wraps(function)
    def with_ask(
        *positional: Any,
        arch: str | None,
        device: str | None,
        stack: str | None,
        cuda: str,
        sources: tuple[str, ...],
        **named: Any,
    ) -> Any:
        from orchestrator.build.prepare import Ask

        refuse_empty({"--device": device, "--stack": stack, "--cuda": cuda})
        folders: tuple[Path, ...] = click.get_current_context().find_root().params.get("recipes", ())
        ask = Ask(arch=arch, device=device, stack=stack, cuda=cuda, sources=sources, recipe_folders=folders)
        return function(*positional, ask=ask, **named)

    decorated: Callable[..., Any] = with_ask
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")(function)


def refuse_empty(values: Mapping[str, str | None]) -> None:
    """Refuse options that were given without a value, as an unset variable does.

    Raises:
        UsageError: one is empty.
    """
    from orchestrator.errors import UsageError

    for name, value in values.items():
        if value is not None and not value.strip():
            hint = "leave it out, or give it a value; is a variable unset?"
            raise UsageError(f"{name} is empty", hint=hint)


def parse_time(text: str) -> float:
    """Return the seconds of a time such as `5h30m`, `90m` or `45s`.

    Raises:
        UsageError: it is none, or no time at all.
    """
    import re

    from orchestrator.errors import UsageError

    found = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text.strip().lower())
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if not total:
        raise UsageError(f"{text[:40]!r} is no time", hint="write it like 5h30m, 90m or 45s")
    return float(total)


def meant(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the recipes that are meant: `all` is the whole stack, which an `Ask` spells as none."""
    return () if names == ("all",) else names


def lines() -> Lines:
    """Return the renderer of events for this process."""
    from orchestrator.report.lines import Lines

    return Lines(sys.stderr)


def print_json(value: object) -> None:
    """Print one JSON document on standard output."""
    import json

    click.echo(json.dumps(value, indent=2))
