"""What `build.wheels` of a recipe must keep beyond its types: each mistake as a problem with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.model import fieldchecks as check
from orchestrator.model.convert import Problem, shown
from orchestrator.model.placeholders import faults, filled, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.model.recipe import PackedWheel, Recipe
    from orchestrator.model.yamltext import Steps

_EXAMPLE = {
    "sm": "sm121a",
    "version": "1.0+cu130.sm121a",
    "platform": "linux_aarch64",
    "info": "name-1.0.dist-info",
}
"""What placeholders may become: a text must be right when they are filled in."""

_TAG = re.compile(r"[a-z0-9_.]+-[a-z0-9_.]+-[a-z0-9_.]+", re.ASCII)
_GROUP = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*", re.ASCII)
_ENTRY = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_OBJECT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?", re.ASCII)
_ROOTS = ("{out}/", "{src}/")


def packed_problems(recipe: Recipe) -> Iterator[Problem]:
    """Yield the mistakes in the wheels that a recipe packs."""
    if recipe.build is None:
        return
    wheels = recipe.build.wheels
    yield from check.once([wheel.distribution for wheel in wheels], ("build", "wheels"))
    for index, wheel in enumerate(wheels):
        at: Steps = ("build", "wheels", index)
        found = list(_wheel(wheel, at))
        yield from found
        if not found and "sm" in named(wheel.distribution) and not recipe.arch.env:
            yield Problem((*at, "distribution"), "{sm}", "`arch.env`, which says what is compiled for")


def _wheel(wheel: PackedWheel, at: Steps) -> Iterator[Problem]:
    yield from check.filling(wheel.distribution, (*at, "distribution"), ("sm",))
    yield from check.distribution(_example(wheel.distribution), (*at, "distribution"))
    for field in ("summary", "license"):
        line = getattr(wheel, field)
        if line is not None and not line.isprintable():
            yield Problem((*at, field), shown(line), "one line, as it becomes one of the metadata")
    yield from check.filling(wheel.tag, (*at, "tag"), ("platform",))
    if not _TAG.fullmatch(_example(wheel.tag)):
        yield Problem((*at, "tag"), shown(wheel.tag), "a wheel's tag such as cp39-abi3-{platform}")
    yield from check.specifiers(wheel.python, (*at, "python"))
    if not wheel.files and not wheel.texts:
        yield Problem(at, "a wheel of nothing", "files or texts")
    yield from _files(wheel, at)
    for group, entries in wheel.entry_points.items():
        steps = (*at, "entry_points", group)
        if not _GROUP.fullmatch(group):
            yield Problem(steps, shown(group), "a group such as console_scripts", key=True)
        yield from _entries(entries, steps)
    for index, text in enumerate(wheel.requires):
        yield from check.filling(text, (*at, "requires", index), ("sm", "version"))
    yield from check.requirements([_example(text) for text in wheel.requires], (*at, "requires"))


def _files(wheel: PackedWheel, at: Steps) -> Iterator[Problem]:
    for glob, folder in wheel.files.items():
        steps = (*at, "files", glob)
        root = next((root for root in _ROOTS if glob.startswith(root)), None)
        if root is None:
            yield Problem(steps, shown(glob), "a glob that begins with {out}/ or {src}/", key=True)
        else:
            if "{" in glob[1:]:
                yield Problem(steps, shown(glob), f"no placeholder but {root[:-1]}", key=True)
            yield from check.output(glob.removeprefix(root), steps)
        yield from check.filling(folder, steps, ("sm", "version", "info"))
        yield from check.inside(_example(folder), steps, itself=True)
    for target, source in wheel.texts.items():
        steps = (*at, "texts", target)
        yield from check.filling(target, steps, ("sm", "version", "info"))
        yield from check.inside(_example(target), steps)
        yield from check.inside(source, steps)


def _entries(entries: Mapping[str, str], at: Steps) -> Iterator[Problem]:
    for name, value in entries.items():
        steps = (*at, name)
        yield from check.filling(name, steps, ("sm",))
        yield from check.filling(value, steps, ("sm",))
        if not _ENTRY.fullmatch(_example(name)):
            yield Problem(steps, shown(name), "the name of an entry point", key=True)
        if not _OBJECT.fullmatch(_example(value)):
            yield Problem(steps, shown(value), "an object such as package.module:function")


def _example(text: str) -> str:
    """Return a text as it may become; itself where that cannot be said."""
    return text if faults(text, tuple(_EXAMPLE)) else filled(text, _EXAMPLE)
