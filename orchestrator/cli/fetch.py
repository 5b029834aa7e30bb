"""`sparkbuild fetch`: download and verify all that a build needs, and build nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, meant, print_json, what_to_plan

if TYPE_CHECKING:
    from orchestrator.build.gather import Gathered
    from orchestrator.build.prepare import Ask


@click.command("fetch")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@what_to_plan
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
@click.option(
    "--runtime",
    is_flag=True,
    help="Also the wheels that are needed to use what is built, the runtime closure of the lock.",
)
@json_option
def command(
    names: tuple[str, ...],
    *,
    ask: Ask,
    offline: bool,
    runtime: bool,
    as_json: bool,
) -> int:
    """Download and verify sources, toolkit and build requirements, so that a build needs no network.

    What cannot be had stops nothing else; the end says what is complete and what is missing (exit 5). Run it
    again to go on. Tags whose commits the lock leaves open are looked up, and noted in the state folder.
    """
    from orchestrator.build.gather import gather
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.session import Session
    from orchestrator.build.unread import prepare_reading
    from orchestrator.errors import SourceError
    from orchestrator.store.home import Home

    emit = lines()
    try:
        with interruptible(), Session.opened(Home.default(), emit) as session:
            ask = replace(ask, names=meant(names))
            prepared, unread = prepare_reading(ask, session.home, emit, offline=offline)
            found = gather(prepared, session, offline=offline, runtime=runtime, unread=unread)
    finally:
        emit.close()
    if as_json:
        print_json({"schema": "sparkbuild.fetch/1", "stack": prepared.plan.stack, **_json(found)})
    else:
        from orchestrator.report.tables import console, print_lines

        told = _lines(found, needed=bool(prepared.plan.builds or found.wheels))
        print_lines(console(), "\n".join(told), indent=9)
    return SourceError.exit_code if found.missing else 0


def _json(found: Gathered) -> dict[str, object]:
    return {
        "toolkit": str(found.toolkit) if found.toolkit else None,
        "sources": [
            {"recipe": recipe, "source": source, "digest": fetched.digest}
            for (recipe, source), fetched in found.sources.items()
        ],
        "layers": {name: [str(path) for path in paths] for name, paths in found.layers.items()},
        "wheels": {name: list(files) for name, files in found.wheels.items()},
        "complete": list(found.complete),
        "missing": [each.to_json() for each in found.missing],
    }


def _lines(found: Gathered, *, needed: bool) -> list[str]:
    if not found.missing and not needed:
        return ["nothing to fetch: everything was built before from the same ingredients"]
    layers = {path for paths in found.layers.values() for path in paths}
    wheels = sum(len(files) for files in found.wheels.values())
    counted = f"{len(found.sources)} sources, {len(layers)} layers of packages, {wheels} published wheels"
    if not found.missing:
        return [f"all is here: {counted}"]
    hints = dict.fromkeys(each.error.hint for each in found.missing if each.error.hint)
    return [
        f"here: {counted}",
        f"complete: {', '.join(found.complete) or 'no component'}",
        *(f"missing: {each}" for each in found.missing),
        *(f"  hint: {hint}" for hint in hints),
    ]
