"""The command `sparkbuild`: finds the command that is meant, and turns errors into exit codes.

Start-up is part of the interface: a command's module is imported when it runs or shows its own help.
A recipe's name is a command too.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from orchestrator.errors import SparkbuildError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "all": ("build", "all_command", "Build every component of a stack, and audit each wheel."),
    "plan": ("plan", "command", "Show what would be done, and why."),
    "probe": ("probe", "command", "Compile and audit one unit of each component, before the night."),
    "why": ("why", "command", "Name the ingredient that makes a component build again."),
    "log": ("log", "command", "Show the newest log of a component, or what it compiled."),
    "fetch": ("fetch", "command", "Download and verify all that a build needs."),
    "lock": ("lock", "command", "Resolve a stack for a platform and Python, and write its lock."),
    "patch": ("patch", "command", "Judge whether patches apply to the pins, or to a newer upstream."),
    "audit": ("audit", "command", "Read which GPUs a wheel holds machine code for."),
    "diagnose": ("diagnose", "command", "Say what went wrong in a log or pasted output, and what to do."),
    "arch": ("arch", "command", "Explain an arch list and translate it for each build system."),
    "store": ("store", "command", "List, verify and clean what was built."),
}


_OLDEST = 0x030B0000
"""Python 3.11. pip refuses older ones, but a checkout can be run by any."""

BUG = 70
"""Exit code of an error that nobody foresaw (EX_SOFTWARE of sysexits.h)."""


class Commands(click.Group):
    """The built-in commands and, after them, one per recipe. Imports only what runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all command names, recipes last."""
        return [*COMMANDS, *_recipe_names(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, a built-in one or a recipe's."""
        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            loaded: click.Command = getattr(importlib.import_module(f"orchestrator.cli.{module}"), attribute)
            return loaded
        if cmd_name in _recipe_names(ctx):
            from orchestrator.cli.build import recipe_command

            return recipe_command(cmd_name)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest known name."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownNameError("command or recipe", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])
        recipes = _recipe_names(ctx)
        if recipes:
            with formatter.section("Recipes (each is a command: builds it and what it needs)"):
                formatter.write_text(", ".join(recipes))


def _recipe_names(ctx: click.Context) -> list[str]:
    from orchestrator.model.catalog import Catalog

    folders: tuple[Path, ...] = ctx.find_root().params.get("recipes", ())
    return sorted(Catalog.default(folders).names())


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 (click's signature)
    if value:
        from importlib.metadata import version

        click.echo(f"sparkbuild {version('sparkbuild')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option(
    "--recipes",
    multiple=True,
    is_eager=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of your own recipes, before the built-in ones; may be given again. Also SPARKBUILD_RECIPES.",
)
def root(debug: bool, recipes: tuple[Path, ...]) -> None:  # noqa: FBT001 (click hands options over by name)
    """Build PyTorch, vLLM and their kernels from source for one GPU, and prove what is in every wheel.

    \b
    sparkbuild all --stack quickstart --arch 12.1a
    sparkbuild causal-conv1d --arch 12.1a
    """  # noqa: D301 (\b is click's mark for lines that stay as they are)
    del debug, recipes


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are told on standard error."""
    if sys.stdout is None:  # closed by the caller (`>&-`): what is said goes nowhere
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    code = _run(arguments)
    try:
        sys.stderr.flush()
    except OSError:  # nobody reads it, or its disk is full: that changes nothing about what was done
        _silenced(code, 2)
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        if sys.hexversion < _OLDEST:
            from orchestrator.toolchain.python import check_python

            check_python()
        code = _invoke(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last net; it is told, never swallowed)
        return _told(error, debug="--debug" in arguments)
    return code


def _invoke(arguments: Sequence[str]) -> int:
    """Run the command; what it returns is the exit code."""
    try:
        # Not `root.main`: it turns a reader that went away into exit code 1, a failed build.
        with root.make_context("sparkbuild", list(arguments)) as ctx:
            result: Any = root.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return result if isinstance(result, int) else 0


def _told(error: BaseException, *, debug: bool) -> int:
    """Tell an error, and return its exit code."""
    match error:
        case SparkbuildError():
            code, text = error.exit_code, f"error: {error}"
        case click.exceptions.NoArgsIsHelpError():
            code, text = 2, error.format_message()
        case click.ClickException():
            error.show()
            return 2
        case click.Abort() | KeyboardInterrupt():
            return 130
        case BrokenPipeError():
            return _silenced(141, 1, 2)  # the reader went away (`| head`), maybe of both
        case OSError(errno=errno.ENOSPC | errno.EFBIG | errno.EDQUOT | errno.EIO, filename=None):
            code = _silenced(4, 1)
            text = f"error: standard output cannot be written: {error.strerror}"
        case _:
            code, text = BUG, f"error: {type(error).__name__}: {error}"
            text += "\n  hint: this is a mistake in sparkbuild; the same with --debug shows where"
    if debug:
        import traceback

        traceback.print_exception(error)
    else:
        with contextlib.suppress(OSError):
            click.echo(text, err=True)
    return code


def _silenced(code: int, *descriptors: int) -> int:
    """Return `code`, and see that the interpreter does not try to write the rest when it ends."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return code


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))
