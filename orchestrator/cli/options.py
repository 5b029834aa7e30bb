"""Options that several commands share, and the values they become."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.report.choose import LogFormat, Renderer

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
        mirror_option,
        click.option(
            "--locked", is_flag=True, help="Refuse commits that the stack's lock does not hold (exit 2)."
        ),
        click.option(
            "--prebuilt",
            multiple=True,
            metavar="NAMES",
            help="Take these as published instead of building them, such as pytorch,triton.",
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
        prebuilt: tuple[str, ...],
        mirrors: tuple[str, ...],
        locked: bool,
        **named: Any,
    ) -> Any:
        from orchestrator.build.prepare import Ask

        refuse_empty({"--device": device, "--stack": stack, "--cuda": cuda})
        folders: tuple[Path, ...] = click.get_current_context().find_root().params.get("recipes", ())
        ask = Ask(
            arch=arch,
            device=device,
            stack=stack,
            cuda=cuda,
            sources=sources,
            prebuilt=listed("--prebuilt", prebuilt),
            mirrors=mirrors,
            locked=locked,
            recipe_folders=folders,
        )
        return function(*positional, ask=ask, **named)

    decorated: Callable[..., Any] = with_ask
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def mirror_option(function: F) -> F:
    """Add `--mirror`."""
    return click.option(
        "--mirror",
        "mirrors",
        multiple=True,
        metavar="FROM=TO",
        help="Fetch what lies at an address that begins with FROM from TO, an address or a folder; an empty "
        "FROM means every address. May be given again. SPARKBUILD_MIRROR holds more.",
    )(function)


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


def listed(option: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that an option lists, given once or several times, with commas between; each once.

    Raises:
        UsageError: a name is empty.
    """
    names = [name.strip() for text in given for name in text.split(",")]
    refuse_empty(dict.fromkeys([option] if not all(names) else [], ""))
    return tuple(dict.fromkeys(names))


def parse_time(text: str) -> float:
    """Return the seconds of a time such as `5h30m`, `90m` or `45s`.

    Raises:
        UsageError: it is none, or no time at all.
    """
    from orchestrator.errors import UsageError
    from orchestrator.model.duration import seconds_of

    seconds = seconds_of(text.strip().lower())
    if seconds is None:
        raise UsageError(f"{text[:40]!r} is no time", hint="write it like 5h30m, 90m or 45s")
    return seconds


def meant(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the recipes that are meant: `all` is the whole stack, which an `Ask` spells as none."""
    return () if names == ("all",) else names


def log_format_option(function: F) -> F:
    """Add `--log-format`."""
    from orchestrator.report.choose import FORMATS

    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        envvar="SPARKBUILD_LOG_FORMAT",
        show_envvar=True,
        help="How standard error tells what goes on: a live board, plain lines, foldable groups for the log "
        "of a CI job, or JSON lines for programs. The result is on standard output.",
    )(function)


def lines(log_format: LogFormat = "auto") -> Renderer:
    """Return the renderer of events for this process. It is closed with the command, if not before."""
    from orchestrator.report.choose import renderer

    made = renderer(sys.stderr, log_format)
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.call_on_close(made.close)
    return made


def print_json(value: object) -> None:
    """Print one JSON document on standard output."""
    import json

    click.echo(json.dumps(value, indent=2))
