"""`sparkbuild lock`: resolve a stack for a platform and Python, write its lock, say what changed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.options import mirror_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.model.catalog import Catalog
    from orchestrator.model.lock import Lock
    from orchestrator.model.lockdiff import LockChange
    from orchestrator.model.platform import Target
    from orchestrator.source.mirrors import Mirrors


@dataclass(frozen=True, slots=True)
class Made:
    """One lock that was written, or only looked at."""

    target: Target
    path: Path
    new: bool = False
    changes: tuple[LockChange, ...] = ()


@click.command("lock")
@click.option("--stack", metavar="NAME", help="Stack to lock; the default one otherwise.")
@click.option("--platform", metavar="P", help="linux-x86_64 or linux-aarch64; this machine's otherwise.")
@click.option("--python", metavar="V", help="CPython version such as 3.12; the running one otherwise.")
@click.option("--all", "every", is_flag=True, help="Every platform and Python that the stack names.")
@click.option(
    "--check", is_flag=True, help="Write nothing; fail when a lock is missing or stale. No network."
)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the locks; the one of the stack otherwise.",
)
@mirror_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    stack: str | None,
    platform: str | None,
    python: str | None,
    every: bool,
    check: bool,
    output: Path | None,
    mirrors: tuple[str, ...],
    as_json: bool,
) -> None:
    """Resolve a stack and write its lock: every commit, sha256, toolkit wheel and build requirement.

    Works for any platform and Python from any machine. Names and hashes come from the package index.
    """
    from orchestrator.build.interrupt import interruptible
    from orchestrator.model.catalog import Catalog
    from orchestrator.plan.fit import stack_graph
    from orchestrator.source.mirrors import parse_mirrors
    from orchestrator.store.home import Home
    from orchestrator.store.lease import Lease

    catalog = Catalog.default(ctx.find_root().params.get("recipes", ()))
    name = stack or catalog.default_stack()
    value = catalog.stack(name)
    stack_graph(value, catalog.stack_recipes(value))
    targets = _targets(catalog, name, platform=platform, python=python, every=every)
    if check:
        for target in targets:
            catalog.lock(name, target)
        reports = [_report(name, Made(target, catalog.lock_path(name, target))) for target in targets]
        text = [f"{name} {target.tag}: up to date" for target in targets]
    else:
        folder, places = output or own_folder(catalog, name), parse_mirrors(mirrors)
        home = Home.default()
        home.claim()
        with interruptible(), Lease(home):  # gc leaves alone what is being downloaded
            made = [_make(catalog, name, target, folder, places) for target in targets]
        reports = [_report(name, each) for each in made]
        text = [line for each in made for line in _lines(each)]
    if as_json:
        from orchestrator.cli.options import print_json

        print_json({"schema": "sparkbuild.locks/1", "locks": reports})
    else:
        click.echo("\n".join(text))


def _targets(
    catalog: Catalog, stack: str, *, platform: str | None, python: str | None, every: bool
) -> Sequence[Target]:
    from orchestrator.errors import UsageError
    from orchestrator.model.platform import Target

    if every:
        if platform or python:
            raise UsageError(
                "--all takes every platform and Python", hint="leave out --platform and --python"
            )
        value = catalog.stack(stack)
        return [Target(each, version) for each in value.platforms for version in value.pythons]
    here = Target.here()
    return [Target.checked(platform or here.platform, python or here.python)]


def own_folder(catalog: Catalog, stack: str) -> Path:
    """Return where the stack's locks lie, unless that is an installation's data folder."""
    from orchestrator.errors import UsageError

    place = catalog.lock_place(stack)
    if not place.writable:
        raise UsageError(
            f"stack {stack} came with the installed program, whose folder is not for new locks",
            where=str(place.stacks),
            hint="say `--output DIR/stacks`, and then `--recipes DIR` wherever that lock is to be used",
        )
    return place.stacks


def _make(catalog: Catalog, stack: str, target: Target, folder: Path, mirrors: Mirrors) -> Made:
    from orchestrator.cli.options import lines
    from orchestrator.model.catalog import lock_file
    from orchestrator.model.lock import lock_bytes
    from orchestrator.model.lockdiff import lock_changes
    from orchestrator.source.resolve import make_lock
    from orchestrator.store.atomic import disk_errors, write_bytes
    from orchestrator.store.home import Home

    value = catalog.stack(stack)
    path = folder / lock_file(stack, target)
    with disk_errors(folder):  # before minutes are spent, not after
        folder.mkdir(parents=True, exist_ok=True)
    former = _former(path)
    with closing(lines()) as emit:
        lock = make_lock(
            value,
            catalog.stack_recipes(value),
            target,
            home=Home.default(),
            emit=emit,
            mirrors=mirrors,
            former=former,
        )
    write_bytes(path, lock_bytes(lock))
    return Made(target, path, new=former is None, changes=lock_changes(former, lock))


def _former(path: Path) -> Lock | None:
    from orchestrator.errors import LockError
    from orchestrator.model.reader import load_lock

    if not path.exists():
        return None
    try:
        return load_lock(path)
    except LockError:
        # It is about to be replaced; what it said is not needed.
        return None


def _report(stack: str, made: Made) -> dict[str, Any]:
    return {
        "stack": stack,
        "platform": made.target.platform,
        "python": made.target.python,
        "path": str(made.path),
        "new": made.new,
        "changes": [
            {"part": each.part, "name": each.name, "before": each.before, "after": each.after}
            for each in made.changes
        ],
    }


def _lines(made: Made) -> list[str]:
    head = made.target.tag
    if made.new:
        return [f"{head}: new, {len(made.changes)} files and commits ({made.path})"]
    if not made.changes:
        return [f"{head}: nothing changed ({made.path})"]
    return [f"{head}: {len(made.changes)} changed ({made.path})", *(f"  {each}" for each in made.changes)]
