"""`sparkbuild audit SPEC...`: read which GPUs wheels, folders, files, environments hold code for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, refuse_empty

if TYPE_CHECKING:
    from orchestrator.audit.report import AuditReport
    from orchestrator.inspect.call import Answer


@click.command("audit")
@click.argument("specs", metavar="SPEC...", nargs=-1)
@click.option("--arch", metavar="LIST", help="What it should serve, such as 12.1a (DGX Spark).")
@click.option("--device", metavar="CC", help="The device to be served, such as 12.1; else those in --arch.")
@click.option(
    "--env",
    is_flag=False,
    flag_value="",
    metavar="[PYTHON]",
    help="Audit what is installed for an interpreter or venv; without a value the active one.",
)
@click.option("--platform", metavar="TAG", help="Of name==version: manylinux_2_28_aarch64, linux-aarch64...")
@click.option("--python", metavar="V", help="Of name==version: a Python version such as 3.12.")
@click.option("--recipe", metavar="NAME", help="Judge one wheel by the policy of a recipe.")
@click.option(
    "--driver", metavar="V", help="580 or 13.0: PTX that needs a newer driver does not count as a fallback."
)
@click.option("--torch", metavar="PLACE", help="Wheel or folder of the torch that it will run with.")
@click.option("--against", "old", metavar="OLD", help="Say what is lost and gained since another SPEC.")
@click.option(
    "--deep", is_flag=True, help="Read every kernel: which are missing, which do no work; and RECORD."
)
@click.option("--verbose", "-v", is_flag=True, help="Name the containers that fall short by their kernels.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a page that can be sent to somebody.",
)
@json_option
@click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _show_schema(ctx) if asked else None,
    help="Print the schema of --json, and do nothing else.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    verbose: bool,
    html: Path | None,
    as_json: bool,
    **asked: str | bool | tuple[str, ...] | None,
) -> None:
    """Read which GPUs wheels, folders, files or environments hold machine code for.

    SPEC is a wheel, a folder, a .so, .o, .a, .cubin or .fatbin file, or name==version of the package index.
    No GPU and no CUDA toolkit is needed. Fails (3) when device code has no SASS that loads on the device.
    """
    from orchestrator.build.interrupt import interruptible
    from orchestrator.inspect.call import AuditAsk, audit_call

    refuse_empty(
        {
            f"--{'against' if name == 'old' else name}": value
            for name, value in asked.items()
            if name != "env" and (value is None or isinstance(value, str))
        }
    )
    if html is not None:
        _see_place(html)
    folders = ctx.find_root().params.get("recipes", ())
    ask = AuditAsk(names=verbose, recipe_folders=folders, **asked)  # type: ignore[arg-type]  # as click makes them
    emit = lines()
    try:
        with interruptible():
            answer = audit_call(ask, emit)
    finally:
        emit.close()
    if html is not None:
        _write_page(html, answer.report)
    if as_json:
        import json

        click.echo(json.dumps(answer.report.to_json(), indent=2))
    elif len(answer.report.specs) > len(answer.unread) or len(answer.report.specs) > 1:
        _show(answer.report, verbose=verbose)
    _fail(answer)


def _show_schema(ctx: click.Context) -> None:
    from orchestrator.audit.schema import schema_text

    click.echo(schema_text(), nl=False)
    ctx.exit()


def _see_place(path: Path) -> None:
    """Look, before a long time is spent on reading, whether a page can be written there."""
    import os

    from orchestrator.errors import UsageError

    folder = path.parent
    if not path.name or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        hint = "name a file in a folder that exists and can be written"
        raise UsageError("no page can be written there", where=str(path), hint=hint)


def _show(report: AuditReport, *, verbose: bool) -> None:
    import sys

    from orchestrator.report.audit_text import audit_text, width_of
    from orchestrator.report.tables import console

    out = console()
    for line in audit_text(report, width=width_of(sys.stdout), verbose=verbose, recipes=_recipes()):
        out.print(line, soft_wrap=True)


def _write_page(path: Path, report: AuditReport) -> None:
    from datetime import UTC, datetime
    from importlib.metadata import version

    from orchestrator.errors import UsageError
    from orchestrator.report.audit_html import audit_html

    page = audit_html(report, when=datetime.now(UTC), version=version("sparkbuild"), recipes=_recipes())
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        hint = "name a file in a folder that exists and can be written"
        raise UsageError(f"{error.strerror or error}", where=str(path), hint=hint) from error


def _recipes() -> dict[str, str]:
    """Return distribution -> recipe, for advice; none when recipes cannot be read: the audit still stands."""
    from orchestrator.errors import SparkbuildError
    from orchestrator.model.catalog import Catalog

    try:
        catalog = Catalog.default(click.get_current_context().find_root().params.get("recipes", ()))
        return {
            recipe.wheel_name: name
            for name, recipe in catalog.recipes(catalog.names()).items()
            if recipe.build
        }
    except SparkbuildError:
        return {}


def _fail(answer: Answer) -> None:
    from orchestrator.errors import AuditFailedError

    report, unread = answer.report, answer.unread
    if len(unread) == 1 and all(spec.verdict == "pass" or spec.error for spec in report.specs):
        raise unread[0]
    if report.failed:
        failed = [spec.spec for spec in report.specs if spec.verdict == "fail"]
        who = f"{len(failed)} of {len(report.specs)} fail" if len(report.specs) > 1 else f"{failed[0]} fails"
        raise AuditFailedError(
            f"{who} the audit for {', '.join(map(str, report.devices))}",
            hint="the report above says what is missing or damaged, and what to do",
        )
