"""What a recipe must keep beyond its types: each mistake as a problem with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.model import fieldchecks as check
from orchestrator.model import placeholders, repairchecks
from orchestrator.model.convert import Problem, shown
from orchestrator.model.packchecks import packed_problems
from orchestrator.model.platform import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.model.recipe import (
        ArchLimit,
        ArchUse,
        Assembler,
        Build,
        ModulePolicy,
        Needs,
        PatchRef,
        Probe,
        Recipe,
        Source,
        UnitException,
        Variant,
        When,
    )
    from orchestrator.model.stack import OtherSource
    from orchestrator.model.yamltext import Steps

ARCHIVE_PLACEHOLDERS = ("version",)
"""What `{...}` may stand in `archive`."""

COMPILERS = ("gcc", "clang")
"""Kinds of host compiler that `build.compiler` may name."""

_KINDS = ("sdist", "git", "archive", "local")
_CMAKE_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*", re.ASCII)
_PATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*", re.ASCII)


def recipe_problems(recipe: Recipe, file_name: str) -> list[Problem]:
    """Return the mistakes of a recipe that its types allow; `file_name` is the file's, without suffix."""
    return list(_recipe(recipe, file_name))


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
    yield from _arch(recipe.arch)
    if recipe.build is not None:
        yield from _build(recipe.build, recipe)
    else:
        for given in ("patches", "sources", "probe", "files"):
            if getattr(recipe, given):
                yield Problem((given,), f"{given} without `build`", "both, or neither", key=True)
    if recipe.probe is not None:
        yield from _probe(recipe.probe, ("probe",))
    if recipe.files is not None:
        yield from _only(recipe.files.only, ("files", "only"))
    for index, policy in enumerate(recipe.modules):
        yield from _module(policy, ("modules", index))
    for index, assembler in enumerate(recipe.assemblers):
        yield from _assembler(assembler, ("assemblers", index))


def _arch(use: ArchUse) -> Iterator[Problem]:
    for variable, dialect in use.env.items():
        yield from check.variable(variable, ("arch", "env", variable), key=True)
        yield from check.known(dialect, ("arch", "env", variable), _dialects(), "a dialect")
    for index, limit in enumerate(use.limits):
        yield from _limit(limit, ("arch", "limits", index))


def _module(policy: ModulePolicy, steps: Steps) -> Iterator[Problem]:
    yield from check.inside(policy.match, (*steps, "match"))
    yield from check.glob(policy.match, (*steps, "match"))
    if policy.expect in {"jit", "not-applicable"} and not policy.reason:
        expected = f"one, since {policy.expect} is an exception"
        yield Problem((*steps, "reason"), "no reason", expected, key=True)
    yield from _exceptions(policy, steps)
    yield from _when(policy.when, steps)


def _assembler(assembler: Assembler, steps: Steps) -> Iterator[Problem]:
    yield from check.inside(assembler.file, (*steps, "file"))
    if not {"*", "?", "["}.isdisjoint(assembler.file):
        yield Problem((*steps, "file"), shown(assembler.file), "the path of one file, no glob")
    yield from check.devices(assembler.lowest, assembler.below, steps)
    yield from _when(assembler.when, steps)


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


def _limit(limit: ArchLimit, steps: Steps) -> Iterator[Problem]:
    if not limit.suffixes and limit.at_most is None:
        yield Problem(steps, "a limit that limits nothing", "suffixes or at_most")
    if limit.at_most == 0:
        expected = "at least 1; `applies` says what a component cannot be built for"
        yield Problem((*steps, "at_most"), shown("0"), expected)
    yield from check.once(limit.suffixes, (*steps, "suffixes"))
    for field in ("reason", "instead"):
        if not getattr(limit, field).strip():
            yield Problem((*steps, field), shown(getattr(limit, field)), "words for whoever asked for it")


def _probe(probe: Probe, steps: Steps) -> Iterator[Problem]:
    if probe.unit is None and not probe.refuse:
        yield Problem(steps, "nothing to look at", "unit or refuse")
    if probe.unit is not None:
        yield from check.inside(probe.unit, (*steps, "unit"))
        yield from check.glob(probe.unit, (*steps, "unit"))
    for index, line in enumerate(probe.refuse):
        if not line.strip("*? "):
            expected = "a glob with a part of a line, since this one refuses every line"
            yield Problem((*steps, "refuse", index), shown(line), expected)
        yield from check.glob(line, (*steps, "refuse", index))


def _only(globs: Sequence[str], steps: Steps) -> Iterator[Problem]:
    if not globs:
        yield Problem(steps, "an empty list", "the files that the wheel may hold")
    yield from check.once(globs, steps)
    for index, text in enumerate(globs):
        yield from check.inside(text, (*steps, index))
        yield from check.glob(text, (*steps, index))


def origin(source: Source | OtherSource, steps: Steps, kinds: Sequence[str]) -> Iterator[Problem]:
    """Check where a source comes from: what a recipe and a stack may both say."""
    given = [kind for kind in kinds if getattr(source, kind) is not None]
    if len(given) != 1:
        yield Problem(steps, " and ".join(given) or "none of them", f"exactly one of {', '.join(kinds)}")
    yield from check.distribution(source.sdist, (*steps, "sdist"))
    yield from check.address(source.git, (*steps, "git"))
    if source.archive is not None:
        yield from check.in_address(source.archive, (*steps, "archive"), ARCHIVE_PLACEHOLDERS)
        if "://" not in source.archive:
            yield Problem((*steps, "archive"), shown(source.archive), "an address such as https://...")
        else:
            yield from check.address(source.archive, (*steps, "archive"), file=True)
    if not source.submodules and source.git is None:
        yield Problem((*steps, "submodules"), "submodules without `git`", "both, or neither", key=True)


def _source(name: str, source: Source) -> Iterator[Problem]:
    steps: Steps = ("sources", name)
    if not check.SOURCE.fullmatch(name) or len(name) > check.MAX_NAME:
        yield Problem(steps, shown(name), "a short name of letters, digits, - and _", key=True)
    yield from origin(source, steps, _KINDS)
    yield from check.path(source.local, (*steps, "local"))
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
    if not build.outputs and not build.wheels:
        yield Problem(("build", "outputs"), "an empty list", "at least one glob such as *.whl")
    yield from packed_problems(recipe)
    for index, glob in enumerate(build.outputs):
        yield from check.output(glob, ("build", "outputs", index))
    for index, exempt in enumerate(build.elsewhere):
        yield from _elsewhere(exempt, ("build", "elsewhere", index))
    for kind, versions in build.compiler.items():
        at: Steps = ("build", "compiler", kind)
        yield from check.known(kind, at, COMPILERS, "a kind of compiler", key=True)
        yield from check.specifiers(versions, at)
    yield from repairchecks.links(build.links, ("build", "links"))
    if build.repair is not None:
        yield from repairchecks.repair(build.repair, ("build", "repair"))
    for when, at in repairchecks.conditions(build.repair, ("build", "repair")):
        yield from _when(when, at)
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
        yield from _filling(value, recipe, (*steps, "config_settings", setting))
    for variable, value in part.env.items():
        at = (*steps, "env", variable)
        yield from _filling(value, recipe, at)
        yield from check.variable(variable, at, key=True)
        if variable in recipe.arch.env:
            yield Problem(at, "it here and in arch.env", "it in one of the two", key=True)
    for index, command in enumerate(part.commands):
        at = (*steps, "commands", index)
        if not command:
            yield Problem(at, "an empty list", "a program and its arguments")
        for position, word in enumerate(command):
            yield from _filling(word, recipe, (*at, position))


def _filling(text: str, recipe: Recipe, steps: Steps) -> Iterator[Problem]:
    """Check a text that becomes an argument or variable once its placeholders are filled in."""
    yield from check.value(text, steps)
    yield from check.filling(text, steps, placeholders.BUILD)
    build = recipe.build
    if build is not None and "requires" in placeholders.named(text):
        parts: tuple[Build | Variant, ...] = (build, *build.variants)
        if not any(part.requires for part in parts):
            yield Problem(steps, "{requires}", "requirements in build.requires, since it is their folder")


def _when(when: When | None, steps: Steps) -> Iterator[Problem]:
    if when is None:
        return
    steps = (*steps, "when")
    if when.version is None and not when.arch and when.platform is None and when.source is None:
        yield Problem(steps, "no condition", "version, arch, platform or source")
    yield from check.specifiers(when.version, (*steps, "version"))
    yield from check.arches(when.arch, (*steps, "arch"))
    if when.platform is not None:
        yield from check.known(when.platform, (*steps, "platform"), PLATFORMS, "a platform")


def _dialects() -> tuple[str, ...]:
    from orchestrator.model.dialects import DIALECTS

    return tuple(DIALECTS)
