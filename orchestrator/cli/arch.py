"""`sparkbuild arch LIST`: read an arch list, say what it means, and how each build system spells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.model.archreport import ArchReport

_WIDTH = 80
_VARIABLES = {
    "torch-cmake": "TORCH_CUDA_ARCH_LIST",
    "torch-extension": "TORCH_CUDA_ARCH_LIST",
    "cmake": "CMAKE_CUDA_ARCHITECTURES",
    "flashinfer": "FLASHINFER_CUDA_ARCH_LIST",
    "flash-attn": "FLASH_ATTN_CUDA_ARCHS",
}


@click.command("arch")
@click.argument("arches", metavar="LIST...", nargs=-1)
@click.option("--device", metavar="CC", help="The device to be served, such as 12.1; else those in LIST.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(arches: tuple[str, ...], device: str | None, *, as_json: bool) -> None:
    """Read an arch list in any spelling, such as 12.1a, '12.0f;12.1a' or sm_121a.

    Shows the normal form, what runs where, and how each build system is told.
    """
    from orchestrator.model.arch import Device, parse_request
    from orchestrator.model.archreport import arch_report

    served = None if device is None else Device.parse(device)
    report = arch_report(parse_request(";".join(arches), served))
    click.echo(report.to_json() if as_json else "\n".join(_lines(report)))


def _lines(report: ArchReport) -> Iterator[str]:
    yield f"{report.normal}"
    yield ""
    for entry in report.entries:
        code = " and ".join(name for name in (entry.sass, entry.ptx) if name)
        yield from _wrapped(f"  {entry.arch:<7}", f"{code}, runs on {', '.join(entry.runs_on)}")
    if report.notes:
        yield ""
    for note in report.notes:
        yield from _wrapped(f"  {note.level}: ", note.text)
    yield ""
    # Values are never wrapped: they are there to be copied
    for dialect, value in report.translations.items():
        if isinstance(value, tuple):
            yield f"  {dialect}"
            yield from (f"    {argument}" for argument in value)
        else:
            yield f"  {dialect}"
            shown = "(cannot be said)" if value is None else f"{_VARIABLES[dialect]}={_quoted(value)}"
            yield f"    {shown}"


def _quoted(value: str) -> str:
    return f"'{value}'" if not value or set(value) & {" ", ";"} else value


def _wrapped(head: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
