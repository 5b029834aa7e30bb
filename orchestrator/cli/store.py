"""`sparkbuild store`: what is stored, whether it is intact, and what may go."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.report.events import Event
    from orchestrator.store.gc import Collected
    from orchestrator.store.listing import Entry
    from orchestrator.store.verify import Verified

_KEY_SHOWN = 12
_DIGITS = 5  # 99999 weeks still fit a timedelta
_UNITS_S = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    """Return the duration that an option says: `30d`, `12h`, `90m`, `2w`, or `0`."""
    text = value.strip().lower()
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS_S else (text, "")
    known = number.isascii() and number.isdigit() and len(number) <= _DIGITS
    if not known or (not unit and int(number)):  # a number without a unit could mean anything
        raise click.BadParameter(f"{value!r} is no duration; say 30d, 12h, 90m, 2w or 0", ctx, param)
    return timedelta(seconds=int(number) * _UNITS_S.get(unit, 0))


@click.group("store")
def command() -> None:
    """Show, verify and clean what is stored."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(*, as_json: bool) -> None:
    """List artifacts with size, age and the verdict of their audit."""
    from orchestrator.store.home import Home
    from orchestrator.store.listing import entries

    home = Home.default().existing()
    found = list(entries(home, _say))
    if as_json:
        _print_json({"schema": "sparkbuild.store-list/1", "home": str(home.root), "artifacts": _rows(found)})
    elif not found:
        click.echo(f"nothing is stored yet in {home.root}")
    else:
        _print_table(found)
        click.echo(_list_line(found, str(home.root)))


@command.command("verify")
@click.option("--keep", is_flag=True, help="Only report; move nothing to quarantine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify_command(ctx: click.Context, *, keep: bool, as_json: bool) -> None:
    """Hash every artifact and download; exit 1 when something is wrong."""
    from orchestrator.store.home import Home
    from orchestrator.store.verify import verify

    home = Home.default().existing()
    result = verify(home, _say, keep=keep)
    if as_json:
        bad = [
            {
                "kind": bad.kind,
                "name": bad.name,
                "problem": bad.problem,
                "moved_to": str(bad.moved_to) if bad.moved_to else None,
            }
            for bad in result.bad
        ]
        _print_json(
            {"schema": "sparkbuild.store-verify/1", "ok": result.ok, "bytes": result.bytes, "bad": bad}
        )
    else:
        click.echo(_verify_text(result, str(home.root)))
    if result.bad:
        ctx.exit(1)


@command.command("gc")
@click.option(
    "--unused-for",
    callback=_duration,
    default="30d",
    show_default=True,
    help="How long a thing may lie unused: 30d, 12h, 90m, 2w, or 0.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def gc_command(*, unused_for: timedelta, dry_run: bool, as_json: bool) -> None:
    """Remove what was not used for long, and what killed runs left.

    Nothing that a running sparkbuild uses is taken.
    """
    from orchestrator.store.gc import collect
    from orchestrator.store.home import Home

    home = Home.default().existing()
    result = collect(home, unused_for=unused_for, dry_run=dry_run, emit=_say)
    if as_json:
        items = [
            {"kind": item.kind, "name": item.name, "bytes": item.bytes, "why": item.why}
            for item in result.items
        ]
        _print_json(
            {"schema": "sparkbuild.store-gc/1", "dry_run": dry_run, "bytes": result.bytes, "items": items}
        )
    else:
        click.echo(_gc_text(result, str(home.root), dry_run=dry_run))


def _say(event: Event) -> None:
    """Tell a person at once what goes beside the result; progress is for the long runs' renderers."""
    from orchestrator.report.events import Note

    if isinstance(event, Note):
        # The text may name files of anybody's, and a file's name hold what a terminal obeys.
        text = "".join(letter if letter.isprintable() else "?" for letter in event.text)
        click.echo(f"{event.level}: {text}", err=True)


def _print_json(value: dict[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _rows(found: Sequence[Entry]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for entry in found:
        row: dict[str, Any] = {"key": entry.folder.name, "verdict": entry.verdict, "problem": entry.problem}
        if entry.artifact is not None:
            manifest = entry.artifact.manifest
            row |= {
                "name": manifest.name,
                "version": manifest.version,
                "bytes": entry.artifact.size,
                "created": manifest.created,
                "coverage": manifest.audit.coverage if manifest.audit else None,
                "files": [
                    {"name": file.name, "sha256": file.sha256, "bytes": file.size} for file in manifest.files
                ],
            }
        rows.append(row)
    return rows


def _print_table(found: Sequence[Entry]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from orchestrator.report.units import show_bytes

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("name", "version"):
        table.add_column(title, overflow="fold")
    table.add_column("key", no_wrap=True, min_width=_KEY_SHOWN)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for entry in found:
        key = entry.folder.name[:_KEY_SHOWN]
        if entry.artifact is None:
            table.add_row("?", "?", key, "", "", entry.verdict)
            continue
        manifest = entry.artifact.manifest
        size = show_bytes(entry.artifact.size)
        table.add_row(manifest.name, manifest.version, key, size, _age(manifest.created), entry.verdict)
    Console(highlight=False, markup=False).print(table)


def _age(created: str) -> str:
    """Return how long ago an ISO time was: `3d`, `5h`, `12m`."""
    from datetime import UTC, datetime

    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return "?"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    seconds = max((datetime.now(UTC) - then).total_seconds(), 0)
    unit = next((unit for unit in ("d", "h") if seconds >= _UNITS_S[unit]), "m")
    return f"{int(seconds // _UNITS_S[unit])}{unit}"


def _list_line(found: Sequence[Entry], root: str) -> str:
    from orchestrator.report.units import show_bytes

    size = show_bytes(sum(entry.artifact.size for entry in found if entry.artifact))
    lines = [f"{_count(len(found), 'artifact')}, {size}, in {root}"]
    broken = [entry for entry in found if entry.artifact is None]
    lines += [f"{entry.folder}: {entry.problem}" for entry in broken]
    if broken:
        lines.append("`sparkbuild store verify` moves what is broken out of the way")
    return "\n".join(lines)


def _verify_text(result: Verified, root: str) -> str:
    from orchestrator.report.units import show_bytes

    if not result.ok and not result.bad:
        return f"nothing to verify in {root}"
    lines = [
        f"bad: {bad.kind}/{bad.name[:_KEY_SHOWN]}: {bad.problem}\n"
        + (f"  moved to {bad.moved_to}" if bad.moved_to else "  left where it is")
        for bad in result.bad
    ]
    lines.append(f"{result.ok} intact ({show_bytes(result.bytes)}), {len(result.bad)} bad")
    if any(bad.moved_to for bad in result.bad):
        lines.append("what was moved is built or downloaded again when it is needed")
    elif result.bad:
        lines.append("run the same without --keep to move it out of the way")
    return "\n".join(lines)


def _gc_text(result: Collected, root: str, *, dry_run: bool) -> str:
    from orchestrator.report.units import show_bytes

    if not result.items:
        return f"nothing to collect in {root}"
    lines = [
        f"{show_bytes(item.bytes):>10}  {item.kind}/{item.name[:40]}  {item.why}" for item in result.items
    ]
    freed = show_bytes(result.bytes)
    things = _count(len(result.items), "thing")
    lines.append(f"would remove {things}, {freed}" if dry_run else f"removed {things}, {freed} freed")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
