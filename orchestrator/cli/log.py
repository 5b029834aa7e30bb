"""`sparkbuild log NAME`: the newest log of a step, and what each of its compiler calls cost."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrator.jobs.units import Record
    from orchestrator.store.home import Home

_POLL_S = 0.3


@click.command("log")
@click.argument("name", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Show what is added, until the run that writes it ends.")
@click.option("--units", is_flag=True, help="List what was compiled instead, most CPU first.")
@json_option
def command(name: str, *, follow: bool, units: bool, as_json: bool) -> None:
    """Show the newest log of a component: standard output is the log, its path is told beside it.

    --json prints what was compiled, as --units lists it.
    """
    from orchestrator.errors import UsageError
    from orchestrator.store.home import Home

    if follow and (units or as_json):
        raise UsageError(
            "--follow is for the log itself", hint="leave --follow out: units are listed when a build ended"
        )
    home = Home.default().existing()
    log = _newest(home, name)
    if units or as_json:
        records = _units(log, name)
        if as_json:
            found = [record.to_json() for record in records]
            print_json({"schema": "sparkbuild.units/1", "log": str(log), "units": found})
            return
        from orchestrator.report.tables import console, units_table

        click.echo(log, err=True)
        console().print(units_table(records))
        click.echo(_totals(records))
        return
    click.echo(log, err=True)
    _show(log, lambda: follow and _goes_on(home, log.parent.name))


def _newest(home: Home, name: str) -> Path:
    """Return the log of that name that was written to last.

    Raises:
        UnknownNameError: there is none; it lists those that have one.
    """
    from orchestrator.errors import UnknownNameError
    from orchestrator.store.atomic import disk_errors, is_folder, listed
    from orchestrator.store.names import is_run

    runs = [run for run in listed(home.logs) if is_run(run.name) and is_folder(run)]
    logs = [path for run in runs for path in listed(run) if path.suffix == ".log"]
    written: list[tuple[int, Path]] = []
    for path in (path for path in logs if path.stem == name):
        with disk_errors(path):
            if path.is_file():  # gc may take it meanwhile
                written.append((path.stat().st_mtime_ns, path))
    if not written:
        raise UnknownNameError("log", name, {path.stem for path in logs}, where=str(home.logs))
    return max(written)[1]  # of two at the same time, that of the later run


def _show(log: Path, going_on: Callable[[], bool]) -> None:
    """Copy a log to standard output, byte by byte, and what is added to it for as long as somebody may."""
    import time

    from orchestrator.store.atomic import disk_errors, open_plain

    out = sys.stdout.buffer
    with disk_errors(log):
        stream = open_plain(log)
    with stream:
        more = True
        while more:
            more = going_on()  # asked first: what is written before the end is shown
            while piece := stream.read(1 << 16):
                out.write(piece)
            out.flush()
            if more:
                time.sleep(_POLL_S)


def _goes_on(home: Home, run: str) -> bool:
    """Say whether a run lives."""
    from orchestrator.store.lease import read_leases
    from orchestrator.store.locks import guard

    with guard(home):
        return run in read_leases(home, clean=False).runs


def _units(log: Path, step: str) -> list[Record]:
    """Return what became of each unit of a build, most CPU first.

    Raises:
        UsageError: nothing was written down beside the log.
        StoreError: what was written down cannot be read.
    """
    import msgspec

    from orchestrator.errors import StoreError, UsageError
    from orchestrator.jobs.units import Record
    from orchestrator.store.atomic import disk_errors, open_plain

    path = log.with_suffix(".units.jsonl")
    records = []
    with disk_errors(path):
        try:
            stream = open_plain(path)
        except FileNotFoundError:
            raise UsageError(
                f"no units of {step} are written down in its newest run",
                where=str(log),
                hint="they are when its build ends; one that calls no compiler has none",
            ) from None
        with stream:
            lines = stream.read().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            fields = dict(json.loads(line))
            unit = {**fields, "number": number, "step": step}
            records.append(msgspec.convert({**fields, "unit": unit}, Record))
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"this is no record of a unit: {error}",
                where=f"{path}:{number}",
                hint="the file is damaged; the next build writes a new one",
            ) from error
    return sorted(records, key=lambda record: (-record.cpu_s, -record.wall_s, record.unit.name))


def _totals(records: Sequence[Record]) -> str:
    """Return `1,234 units, 5 h 12 min of CPU, 87% of compilations from the compiler cache`."""
    from orchestrator.jobs.units import hit_rate
    from orchestrator.report.units import show_seconds

    many = f"{len(records):,} unit{'' if len(records) == 1 else 's'}"
    spent = show_seconds(sum(record.cpu_s for record in records))
    rate = hit_rate(records)
    hits = "" if rate is None else f", {rate:.0%} of compilations from the compiler cache"
    return f"{many}, {spent} of CPU{hits}"
