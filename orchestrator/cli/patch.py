"""`sparkbuild patch`: whether patches apply, to what a stack pins or to a newer upstream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option, lines, meant, mirror_option, print_json, refuse_empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.model.catalog import Catalog
    from orchestrator.model.lock import Lock
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.report.events import Emit
    from orchestrator.source.patch_check import Checked, Subject
    from orchestrator.store.home import Home

Place = dict[str, Path | str]
"""Source -> folder, or reference."""


@click.group("patch")
def command() -> None:
    """Judge patches."""


@command.command("check")
@click.argument("names", nargs=-1, metavar="[all|RECIPE...]")
@click.option("--stack", metavar="NAME", help="Stack that pins the sources; the default one otherwise.")
@click.option(
    "--at",
    multiple=True,
    metavar="[SOURCE=]REF|DIR",
    help="Judge the patches of one recipe at a tag, branch or full commit of a source's repository, or in a "
    "folder, instead of at the pin. Of the main source unless another is named; may be given again.",
)
@click.option("--arch", metavar="LIST", help="Only patches that apply for this request; for any otherwise.")
@mirror_option
@click.option("--offline", is_flag=True, help="Use no network; name what is missing.")
@json_option
@click.pass_context
def check_command(
    ctx: click.Context,
    names: tuple[str, ...],
    *,
    stack: str | None,
    at: tuple[str, ...],
    arch: str | None,
    mirrors: tuple[str, ...],
    offline: bool,
    as_json: bool,
) -> int:
    """Say of each patch whether it applies, and change nothing.

    \b
    applies            it fits, maybe some lines further up or down
    already-upstream   all of it is there: it can go
    out-of-versions    its `when` leaves it out
    conflict           it does not fit: exit 1
    unjudged           it does not fit, and may stand on one that conflicts

    A source that cannot be had is named (exit 5), and the others are judged all the same.
    """  # noqa: D301 (\b is click's mark for lines that stay as they are)
    from orchestrator.build.interrupt import interruptible
    from orchestrator.build.prepare import Ask, stack_name
    from orchestrator.errors import PatchError, SourceError
    from orchestrator.model.catalog import Catalog
    from orchestrator.source.mirrors import parse_mirrors
    from orchestrator.source.patch_check import check
    from orchestrator.source.patch_state import Access
    from orchestrator.store.home import Home
    from orchestrator.store.lease import Lease

    refuse_empty({"--stack": stack, "--arch": arch, "--at": None if all(map(str.strip, at)) else ""})
    catalog = Catalog.default(ctx.find_root().params.get("recipes", ()))
    wanted = meant(names)
    value = catalog.stack(stack_name(Ask(names=wanted, stack=stack), catalog))
    emit, home = lines(), Home.default()
    try:
        with interruptible():
            home.claim()
            chosen = _chosen(catalog, value, wanted, emit)
            places = _places(chosen, at)
            subjects = _subjects(catalog, value, chosen, places, arch, home, emit)
            with Lease(home) as lease:
                access = Access(
                    home=home, lease=lease, emit=emit, offline=offline, mirrors=parse_mirrors(mirrors)
                )
                found = [each for subject in subjects for each in check(subject, access)]
    finally:
        emit.close()
    if as_json:
        told = {
            "patches": [row for each in found for row in each.to_json()],
            "missing": [missing for each in found if (missing := each.missing()) is not None],
        }
        print_json({"schema": "sparkbuild.patch-check/1", "stack": value.name, **told})
    else:
        _print(found)
    if any(each.error for each in found):
        return SourceError.exit_code
    return PatchError.exit_code if any(row.state == "conflict" for each in found for row in each.rows) else 0


def _chosen(catalog: Catalog, stack: Stack, names: Sequence[str], emit: Emit) -> dict[str, Recipe]:
    """Return the recipes with patches that `names` mean: without names, all that the stack builds."""
    from orchestrator.errors import UnknownNameError
    from orchestrator.report.events import Note

    for name in names:
        if name not in stack.components:
            raise UnknownNameError(f"recipe in stack {stack.name}", name, stack.components)
    recipes = catalog.stack_recipes(stack)
    patched = {name: recipes[name] for name in names or recipes if recipes[name].patches}
    for name in names:
        if name not in patched:
            emit(Note("info", f"{name} has no patches"))
    if names:
        return patched
    for name in patched:
        if stack.components[name].prebuilt:
            emit(Note("info", f"stack {stack.name} takes {name} as published: its patches are not judged"))
    return {name: recipe for name, recipe in patched.items() if not stack.components[name].prebuilt}


def _places(chosen: Mapping[str, Recipe], at: Sequence[str]) -> Place:
    """Return where `--at` says that sources of the one recipe are judged."""
    from orchestrator.errors import UnknownNameError, UsageError

    if not at:
        return {}
    if len(chosen) != 1:
        raise UsageError(
            "--at is a state of one recipe's source"
            + (f", and {len(chosen)} recipes have patches" if chosen else ", and no recipe has patches"),
            hint=f"name one of {', '.join(chosen)}" if chosen else "leave it out",
        )
    (recipe,) = chosen.values()
    patched = {patch.source for patch in recipe.patches}
    places: Place = {}
    for text in at:
        name, equals, rest = text.partition("=")
        if not equals or name not in recipe.sources:
            name, rest = "main", text
        if name not in patched:
            raise UnknownNameError(f"patched source of {recipe.name}", name, patched)
        if name in places:
            raise UsageError(f"--at names source {name} twice", hint="name each once")
        folder = Path(rest).expanduser()
        if not folder.is_dir() and rest.startswith(("/", "./", "../", "~")):
            raise UsageError(f"--at {text}: there is no folder {folder}", hint="name one, or a reference")
        places[name] = folder.absolute() if folder.is_dir() else rest
    return places


def _subjects(
    catalog: Catalog,
    stack: Stack,
    chosen: Mapping[str, Recipe],
    places: Place,
    arch: str | None,
    home: Home,
    emit: Emit,
) -> list[Subject]:
    """Return what is judged. A lock is read only when a source is judged at its pin."""
    from orchestrator.errors import UsageError
    from orchestrator.model.arch import parse_request
    from orchestrator.plan.effective import effective
    from orchestrator.report.events import Note
    from orchestrator.source.patch_check import Subject
    from orchestrator.source.patch_format import read_patch

    request = None if arch is None else parse_request(arch)
    lock: Lock | None = None
    found: list[Subject] = []
    for name, recipe in chosen.items():
        component, arches = stack.components[name], None
        if request is not None:
            fit = effective(request, recipe.applies, where=f"recipe {name}")
            if not fit.entries:
                emit(Note("info", f"{name} cannot be built for {arch}: {fit.reason}"))
                continue
            arches = tuple(str(entry.arch) for entry in fit.entries)
        pinned = {patch.source for patch in recipe.patches} - places.keys()
        if pinned and component.prebuilt:
            raise UsageError(
                f"stack {stack.name} takes {name} as published, and pins no source of it",
                hint="--at REF or --at DIR judges its patches elsewhere; or name a stack that builds it",
            )
        if pinned and lock is None:
            lock = _lock(catalog, stack, home)
        found.append(
            Subject(
                recipe=recipe,
                version=component.version,
                folder=catalog.recipe_path(name).parent,
                patches={patch.name: read_patch(catalog.patch_file(name, patch)) for patch in recipe.patches},
                locked=lock.components[name] if lock is not None and pinned else None,
                arches=arches,
                at=places,
            )
        )
    return found


def _lock(catalog: Catalog, stack: Stack, home: Home) -> Lock:
    """Return a lock of the stack, this machine's if there is one: sources are the same in all."""
    from orchestrator.build.unread import with_read_commits
    from orchestrator.errors import LockError
    from orchestrator.model.platform import Target

    first: LockError | None = None
    targets = [Target(platform, python) for platform in stack.platforms for python in stack.pythons]
    for target in sorted(targets, key=lambda target: target != Target.here()):
        try:
            return with_read_commits(catalog.lock(stack.name, target), home, target)
        except LockError as error:
            first = first or error
    raise first or LockError(f"stack {stack.name} has no lock", hint="`sparkbuild lock` makes it")


def _print(found: Sequence[Checked]) -> None:
    from orchestrator.report.patchtable import patch_heading, patch_summary, patch_table
    from orchestrator.report.tables import console, print_lines

    out = console()
    for each in found:
        out.print(patch_heading(each), soft_wrap=True)
        out.print(patch_table(each))
    print_lines(out, patch_summary(found), indent=9)
