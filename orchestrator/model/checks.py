"""What a recipe or stack must keep beyond its types: each mistake as a problem with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.errors import near_miss
from orchestrator.model import fieldchecks as check
from orchestrator.model.convert import Problem, shown
from orchestrator.model.platform import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from orchestrator.model.recipe import (
        Build,
        ModulePolicy,
        Needs,
        PatchRef,
        Recipe,
        Source,
        UnitException,
        Variant,
        When,
    )
    from orchestrator.model.stack import Component, Stack, Toolkit
    from orchestrator.model.yamltext import Steps

COMMAND_PLACEHOLDERS = ("python", "out")
"""What `{...}` may stand in `commands`: the environment's Python, the output folder."""
ARCHIVE_PLACEHOLDERS = ("version",)
"""What `{...}` may stand in `archive`."""

_KINDS = ("sdist", "git", "archive", "local")
_PYTHON = re.compile(r"3\.[0-9]{1,2}", re.ASCII)
_CMAKE_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*", re.ASCII)
_PATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*", re.ASCII)
_LIBRARY = re.compile(r"lib[A-Za-z0-9_+.-]+\.(?:so|a)", re.ASCII)


def recipe_problems(recipe: Recipe, file_name: str) -> list[Problem]:
    """Return the mistakes of a recipe that its types allow; `file_name` is the file's, without suffix."""
    return list(_recipe(recipe, file_name))


def stack_problems(stack: Stack, file_name: str, recipes: Collection[str] | None = None) -> list[Problem]:
    """Return the mistakes of a stack that its types allow.

    Args:
        stack: the stack.
        file_name: the file's name, without suffix.
        recipes: the recipes that there are; None: not known.
    """
    return list(_stack(stack, file_name, recipes))


def _recipe(recipe: Recipe, file_name: str) -> Iterator[Problem]:
    yield from check.name(recipe.name, file_name)
    yield from check.distribution(recipe.distribution, ("distribution",))
    for name, source in recipe.sources.items():
        yield from _source(name, source)
    for index, patch in enumerate(recipe.patches):
        yield from _patch(patch, recipe, ("patches", index))
    yield from check.once([patch.name for patch in recipe.patches], ("patches",))
    yield from _needs(recipe.needs, recipe.name)
    yield from check.arches(recipe.applies, ("applies",))
    for variable, dialect in recipe.arch.env.items():
        yield from check.variable(variable, ("arch", "env", variable), key=True)
        yield from check.known(dialect, ("arch", "env", variable), _dialects(), "a dialect")
    if recipe.build is not None:
        yield from _build(recipe.build, recipe)
    elif recipe.patches or recipe.sources:
        given = "patches" if recipe.patches else "sources"
        yield Problem((given,), f"{given} without `build`", "both, or neither", key=True)
    for index, policy in enumerate(recipe.modules):
        steps: Steps = ("modules", index)
        yield from check.inside(policy.match, (*steps, "match"))
        yield from check.glob(policy.match, (*steps, "match"))
        if policy.expect in {"jit", "not-applicable"} and not policy.reason:
            expected = f"one, since {policy.expect} is an exception"
            yield Problem((*steps, "reason"), "no reason", expected, key=True)
        yield from _exceptions(policy, steps)
        yield from _when(policy.when, steps)


def _exceptions(policy: ModulePolicy, steps: Steps) -> Iterator[Problem]:
    if policy.exceptions and policy.expect not in {"native", "jit"}:
        found = f"exceptions from `expect: {policy.expect}`"
        yield Problem((*steps, "except"), found, "them with native or jit only", key=True)
    for index, exempt in enumerate(policy.exceptions):
        at = (*steps, "except", index)
        if not exempt.kernels.strip("*?"):
            expected = "a glob with a part of a name, since this one excuses every kernel"
            yield Problem((*at, "kernels"), shown(exempt.kernels), expected)
        yield from check.glob(exempt.kernels, (*at, "kernels"))
        if not exempt.reason.strip():
            yield Problem((*at, "reason"), shown(exempt.reason), "why these kernels may fall short")
        yield from _when(exempt.when, at)


def _source(name: str, source: Source) -> Iterator[Problem]:
    steps: Steps = ("sources", name)
    if not check.SOURCE.fullmatch(name) or len(name) > check.MAX_NAME:
        yield Problem(steps, shown(name), "a short name of letters, digits, - and _", key=True)
    kinds = [kind for kind in _KINDS if getattr(source, kind) is not None]
    if len(kinds) != 1:
        yield Problem(steps, " and ".join(kinds) or "none of them", f"exactly one of {', '.join(_KINDS)}")
    yield from check.distribution(source.sdist, (*steps, "sdist"))
    yield from check.address(source.git, (*steps, "git"))
    yield from check.path(source.local, (*steps, "local"))
    if source.archive is not None:
        yield from check.placeholders(source.archive, (*steps, "archive"), ARCHIVE_PLACEHOLDERS)
        if "://" not in source.archive:
            yield Problem((*steps, "archive"), shown(source.archive), "an address such as https://...")
        else:
            yield from check.address(source.archive, (*steps, "archive"), file=True)
    if not source.submodules and source.git is None:
        yield Problem((*steps, "submodules"), "submodules without `git`", "both, or neither", key=True)
    if source.into is not None and name == "main":
        yield Problem((*steps, "into"), "`into` for main", "it for other sources only", key=True)
    yield from check.inside(source.into, (*steps, "into"))
    yield from check.variable(source.env, (*steps, "env"))
    if source.cmake is not None and not _CMAKE_VARIABLE.fullmatch(source.cmake):
        yield Problem((*steps, "cmake"), shown(source.cmake), "the name of a CMake variable")
    yield from _when(source.when, steps)


def _patch(patch: PatchRef, recipe: Recipe, steps: Steps) -> Iterator[Problem]:
    fits = _PATCH.fullmatch(patch.name) and len(patch.name) <= check.MAX_NAME
    if not fits or patch.name.endswith(".patch"):
        yield Problem((*steps, "name"), shown(patch.name), "a patch's file name without `.patch`")
    yield from check.known(patch.source, (*steps, "source"), recipe.sources, "a source of this recipe")
    yield from _when(patch.when, steps)


def _needs(needs: Needs, own: str) -> Iterator[Problem]:
    for kind, names in (("build", needs.build), ("run", needs.run)):
        yield from check.once(names, ("needs", kind))
        for index, name in enumerate(names):
            if name == own:
                yield Problem(("needs", kind, index), f"{name!r} itself", "other recipes")
            elif not check.NAME.fullmatch(name):
                yield Problem(("needs", kind, index), shown(name), "a recipe's name")


def _build(build: Build, recipe: Recipe) -> Iterator[Problem]:
    if "main" not in recipe.sources:
        yield Problem(("sources",), "no source named main", "one, since there is a `build`", key=True)
    if build.backend == "commands" and not (build.commands or any(each.commands for each in build.variants)):
        yield Problem(
            ("build", "commands"), "none", "at least one, since the backend is `commands`", key=True
        )
    yield from check.inside(build.directory, ("build", "directory"), itself=True)
    if not build.outputs:
        yield Problem(("build", "outputs"), "an empty list", "at least one glob such as *.whl")
    for index, glob in enumerate(build.outputs):
        yield from check.output(glob, ("build", "outputs", index))
    for index, exempt in enumerate(build.elsewhere):
        yield from _elsewhere(exempt, ("build", "elsewhere", index))
    yield from _part(build, recipe, ("build",))
    for index, variant in enumerate(build.variants):
        yield from _part(variant, recipe, ("build", "variants", index))
        yield from _when(variant.when, ("build", "variants", index))


def _elsewhere(exempt: UnitException, steps: Steps) -> Iterator[Problem]:
    if not exempt.source.removesuffix(".cu").removesuffix(".ptx").strip("*?./"):
        expected = "a glob with a part of a name, since this one excuses every source"
        yield Problem((*steps, "source"), shown(exempt.source), expected)
    else:
        yield from check.inside(exempt.source, (*steps, "source"))
    yield from check.glob(exempt.source, (*steps, "source"))
    if not exempt.reason.strip():
        expected = "why these sources are compiled for other GPUs"
        yield Problem((*steps, "reason"), shown(exempt.reason), expected)
    yield from _when(exempt.when, steps)


def _part(part: Build | Variant, recipe: Recipe, steps: Steps) -> Iterator[Problem]:
    """Check what `build` and its variants share."""
    yield from check.requirements(part.requires, (*steps, "requires"))
    for setting, value in part.config_settings.items():
        yield from check.value(value, (*steps, "config_settings", setting))
    for variable, value in part.env.items():
        yield from check.value(value, (*steps, "env", variable))
        at = (*steps, "env", variable)
        yield from check.variable(variable, at, key=True)
        if variable in recipe.arch.env:
            yield Problem(at, "it here and in arch.env", "it in one of the two", key=True)
    for index, command in enumerate(part.commands):
        at = (*steps, "commands", index)
        if not command:
            yield Problem(at, "an empty list", "a program and its arguments")
        for position, word in enumerate(command):
            yield from check.value(word, (*at, position))
            yield from check.placeholders(word, (*at, position), COMMAND_PLACEHOLDERS)


def _when(when: When | None, steps: Steps) -> Iterator[Problem]:
    if when is None:
        return
    steps = (*steps, "when")
    if when.version is None and not when.arch and when.platform is None:
        yield Problem(steps, "no condition", "version, arch or platform")
    yield from check.specifiers(when.version, (*steps, "version"))
    yield from check.arches(when.arch, (*steps, "arch"))
    if when.platform is not None:
        yield from check.known(when.platform, (*steps, "platform"), PLATFORMS, "a platform")


def _stack(stack: Stack, file_name: str, recipes: Collection[str] | None) -> Iterator[Problem]:
    yield from check.name(stack.name, file_name)
    if not stack.components:
        yield Problem(("components",), "none", "at least one")
    yield from check.once(stack.platforms, ("platforms",))
    for index, platform in enumerate(stack.platforms):
        yield from check.known(platform, ("platforms", index), PLATFORMS, "a platform")
    yield from check.once(stack.pythons, ("pythons",))
    for index, python in enumerate(stack.pythons):
        if not _PYTHON.fullmatch(python):
            yield Problem(("pythons", index), shown(python), "a CPython version such as 3.12")
    for name, component in stack.components.items():
        if recipes is not None and name not in recipes:
            guess = near_miss(name, recipes)
            yield Problem(("components", name), shown(name), "the name of a recipe", guess, key=True)
        yield from _component(component, ("components", name))
    if stack.toolkit is not None:
        yield from _toolkit(stack.toolkit, ("toolkit",))


def _component(component: Component, steps: Steps) -> Iterator[Problem]:
    yield from check.version(component.version, (*steps, "version"))
    for source, commit in component.commits.items():
        if not check.COMMIT.fullmatch(commit):
            expected = "a full commit id: 40 lower-case hex digits"
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


def _dialects() -> tuple[str, ...]:
    from orchestrator.model.dialects import DIALECTS

    return tuple(DIALECTS)
