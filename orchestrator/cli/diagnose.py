"""`sparkbuild diagnose FILE|-`: what went wrong in a log, in pasted output, or in a listing of code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.machine.faults import Diagnosis, Fault
    from orchestrator.model.arch import Device

_WIDTH = 80
_HOW = "name a log, or pipe output in: `sparkbuild diagnose build.log`, `... 2>&1 | sparkbuild diagnose -`"


@click.command("diagnose")
@click.argument("file", metavar="FILE|-", required=False)
@click.option(
    "--device",
    metavar="CC",
    default="12.1",
    show_default=True,
    help="The GPU that device code is judged for.",
)
@json_option
def command(file: str | None, device: str, *, as_json: bool) -> None:
    """Say what went wrong, the first cause first, and what to do.

    FILE is the log of a build, of a server, or of an import that fails; or a listing of device code, such as
    that of `cuobjdump -lelf` or torch.cuda.get_arch_list(). `-` is standard input. The exit code is 0
    whatever is found: that is the answer.
    """
    from orchestrator.errors import UsageError
    from orchestrator.model.arch import Device

    served = Device.parse(device)
    diagnosis = _read(file, served)
    if diagnosis.blank:
        raise UsageError(f"{_named(file)} is empty: there is nothing to judge", hint=_HOW)
    if as_json:
        print_json(diagnosis.to_json())
    else:
        click.echo("\n".join(_lines(diagnosis)))


def _named(file: str | None) -> str:
    return "standard input" if file in (None, "-") else str(file)


def _read(file: str | None, device: Device) -> Diagnosis:
    from pathlib import Path

    from orchestrator.errors import UsageError
    from orchestrator.machine.diagnose import diagnose
    from orchestrator.machine.logfile import as_log, is_endless

    try:
        if file is not None and file != "-":
            path = Path(file)
            if is_endless(path):
                raise UsageError(f"{file} is a device, and no log", hint=_HOW)
            with path.open("rb") as stream:
                return diagnose(as_log(stream, file), device=device)
        if sys.stdin is None:  # closed by the caller
            raise UsageError("standard input is closed", hint=_HOW)
        if sys.stdin.isatty():
            if file is None:
                raise UsageError("there is nothing to diagnose", hint=_HOW)
            click.echo("Paste the output, then press Enter and Ctrl-D.", err=True)
        return diagnose(as_log(sys.stdin.buffer, _named(file)), device=device)
    except OSError as error:
        raise UsageError(f"{_named(file)} cannot be read: {error.strerror}", hint=_HOW) from error


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _wrapped("", diagnosis.summary)
    for fault in diagnosis.faults:
        yield ""
        yield from _block(fault)


def _block(fault: Fault) -> Iterator[str]:
    for word, text in fault.rows():
        yield from _wrapped(f"  {word:<9}", text)


def _wrapped(head: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )
