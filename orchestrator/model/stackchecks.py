"""What a stack must keep beyond its types: each mistake as a problem with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.errors import near_miss
from orchestrator.model import fieldchecks as check
from orchestrator.model.checks import origin
from orchestrator.model.convert import Problem, shown
from orchestrator.model.platform import PLATFORMS
from orchestrator.model.stack import UNRESOLVED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from orchestrator.model.stack import Component, Stack, Toolkit
    from orchestrator.model.yamltext import Steps

_KINDS = ("sdist", "git", "archive")
_PYTHON = re.compile(r"3\.[0-9]{1,2}", re.ASCII)
_LIBRARY = re.compile(r"lib[A-Za-z0-9_+.-]+\.(?:so|a)", re.ASCII)


def stack_problems(stack: Stack, file_name: str, recipes: Collection[str] | None = None) -> list[Problem]:
    """Return the mistakes of a stack that its types allow.

    Args:
        stack: the stack.
        file_name: the file's name, without suffix.
        recipes: the recipes that there are; None: not known.
    """
    return list(_stack(stack, file_name, recipes))


def _stack(stack: Stack, file_name: str, recipes: Collection[str] | None) -> Iterator[Problem]:
    yield from check.name(stack.name, file_name, check.STACK)
    if not stack.components:
        yield Problem(("components",), "none", "at least one")
    yield from check.once(stack.platforms, ("platforms",))
    for index, platform in enumerate(stack.platforms):
        yield from check.known(platform, ("platforms", index), PLATFORMS, "a platform")
    yield from check.once(stack.pythons, ("pythons",))
    for index, python in enumerate(stack.pythons):
        if not _PYTHON.fullmatch(python):
            yield Problem(("pythons", index), shown(python), "a CPython version such as 3.12")
    yield from check.requirements(stack.constraints, ("constraints",))
    yield from check.once(stack.constraints, ("constraints",))
    for name, component in stack.components.items():
        if recipes is not None and name not in recipes:
            guess = near_miss(name, recipes)
            yield Problem(("components", name), shown(name), "the name of a recipe", guess, key=True)
        yield from _component(component, ("components", name))
    if stack.toolkit is not None:
        yield from _toolkit(stack.toolkit, ("toolkit",))


def _component(component: Component, steps: Steps) -> Iterator[Problem]:
    yield from check.version(component.version, (*steps, "version"))
    for source, other in component.sources.items():
        yield from origin(other, (*steps, "sources", source), _KINDS)
    for source, commit in component.commits.items():
        tag = commit.removeprefix(UNRESOLVED)
        fits = check.COMMIT if tag == commit else check.TAG
        if not fits.fullmatch(tag) or len(tag) > check.MAX_NAME:
            expected = "a full commit id: 40 lower-case hex digits; or `unresolved TAG`"
            yield Problem((*steps, "commits", source), shown(commit), expected)


def _toolkit(toolkit: Toolkit, steps: Steps) -> Iterator[Problem]:
    yield from check.specifiers(toolkit.version, (*steps, "version"))
    yield from check.requirements(toolkit.packages, (*steps, "packages"))
    if not toolkit.packages:
        yield Problem((*steps, "packages"), "an empty list", "the wheels that make the toolkit")
    for index, header in enumerate(toolkit.headers):
        yield from check.inside(header, (*steps, "headers", index))
    for index, library in enumerate(toolkit.libraries):
        if not _LIBRARY.fullmatch(library) or len(library) > check.MAX_NAME:
            yield Problem((*steps, "libraries", index), shown(library), "a name such as libcublas.so")
