"""What a recipe or stack must keep beyond its types: each mistake as a problem with its place.

`packaging` and the arch grammar are asked only for text that a short pattern cannot settle, since a
thousand recipes are read for one plan.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from orchestrator.errors import near_miss
from orchestrator.model.convert import Problem
from orchestrator.model.platform import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from orchestrator.model.recipe import Build, ModulePolicy, Recipe, Source, When
    from orchestrator.model.stack import Stack
    from orchestrator.model.yamltext import Steps

NAME = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
COMMAND_PLACEHOLDERS = ("python", "out", "version")
"""What `{...}` may stand in `commands`: the environment's Python, the output folder, the version."""
ARCHIVE_PLACEHOLDERS = ("version",)

_KINDS = ("sdist", "git", "archive", "local")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_RELEASE = r"[0-9]+(?:\.[0-9]+)*"
_SIMPLE = rf"(?:(?:>=|<=|==|!=|<|>) ?{_RELEASE}|(?:==|!=) ?{_RELEASE}\.\*)"
_SPECIFIERS = re.compile(rf"{_SIMPLE}(?:, ?{_SIMPLE})*", re.ASCII)
_REQUIREMENT = re.compile(rf"{_DISTRIBUTION.pattern} ?(?:{_SIMPLE}(?:, ?{_SIMPLE})*)?", re.ASCII)
_VERSION = re.compile(_RELEASE, re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_PYTHON = re.compile(r"3\.[0-9]{1,2}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CMAKE_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*", re.ASCII)
_PATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*", re.ASCII)
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z_]*)\}", re.ASCII)
_LIBRARY = re.compile(r"lib[A-Za-z0-9_+.-]+\.(?:so|a)", re.ASCII)


def recipe_problems(recipe: Recipe, file_name: str) -> list[Problem]:
    """Return the mistakes of a recipe that its types allow; `file_name` is the file's, without suffix."""
    return list(_recipe(recipe, file_name))


def stack_problems(stack: Stack, file_name: str) -> list[Problem]:
    """Return the mistakes of a stack that its types allow; `file_name` is the file's, without suffix."""
    return list(_stack(stack, file_name))


def _recipe(recipe: Recipe, file_name: str) -> Iterator[Problem]:
    yield from _name(recipe.name, file_name)
    if recipe.distribution is not None and not _DISTRIBUTION.fullmatch(recipe.distribution):
        yield Problem(("distribution",), repr(recipe.distribution), "a distribution name such as torch")
    for name, source in recipe.sources.items():
        yield from _source(source, ("sources", name))
    for index, patch in enumerate(recipe.patches):
        steps: Steps = ("patches", index)
        if not _PATCH.fullmatch(patch.name) or patch.name.endswith(".patch"):
            yield Problem((*steps, "name"), repr(patch.name), "a patch's file name without `.patch`")
        if patch.source not in recipe.sources:
            yield _unknown((*steps, "source"), patch.source, recipe.sources, "a source of this recipe")
        yield from _when(patch.when, steps)
    yield from _twice([(("patches", i), patch.name) for i, patch in enumerate(recipe.patches)])
    for kind, names in (("build", recipe.needs.build), ("run", recipe.needs.run)):
        places: list[tuple[Steps, str]] = [(("needs", kind, index), name) for index, name in enumerate(names)]
        yield from _twice(places)
        for place, name in places:
            if name == recipe.name:
                yield Problem(place, f"{name!r} itself", "other recipes")
            elif not NAME.fullmatch(name):
                yield Problem(place, repr(name), "a recipe's name")
    for index, arch in enumerate(recipe.applies):
        yield from _arch(arch, ("applies", index))
    for variable, dialect in recipe.arch.env.items():
        yield from _variable(variable, ("arch", "env", variable))
        if dialect not in _dialects():
            yield _unknown(("arch", "env", variable), dialect, _dialects(), "a dialect")
    if recipe.build is not None:
        yield from _build(recipe.build, recipe)
    elif recipe.patches or recipe.sources:
        given = "patches" if recipe.patches else "sources"
        yield Problem((given,), f"{given} without `build`", "`build`, or neither", key=True)
    for index, policy in enumerate(recipe.modules):
        yield from _policy(policy, ("modules", index))


def _name(name: str, file_name: str) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        yield Problem(("name",), repr(name), "lower-case letters, digits and -, starting with no -")
    elif name != file_name:
        yield Problem(("name",), repr(name), f"{file_name!r}, as the file is called")


def _source(source: Source, steps: Steps) -> Iterator[Problem]:
    if not _VARIABLE.fullmatch(str(steps[-1]).replace("-", "_")):
        yield Problem(steps, repr(steps[-1]), "a name of letters, digits, - and _", key=True)
    kinds = [kind for kind in _KINDS if getattr(source, kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none of them"
        yield Problem(steps, found, f"exactly one of {', '.join(_KINDS)}")
    if source.sdist is not None and not _DISTRIBUTION.fullmatch(source.sdist):
        yield Problem((*steps, "sdist"), repr(source.sdist), "a distribution name")
    if source.archive is not None:
        yield from _placeholders(source.archive, ARCHIVE_PLACEHOLDERS, (*steps, "archive"))
        if "://" not in source.archive:
            yield Problem((*steps, "archive"), repr(source.archive), "an address such as https://...")
    if not source.submodules and source.git is None:
        yield Problem((*steps, "submodules"), "submodules", "`git` beside it", key=True)
    if source.into is not None:
        yield from _inside(source.into, (*steps, "into"))
    if source.env is not None:
        yield from _variable(source.env, (*steps, "env"), key=False)
    if source.cmake is not None and not _CMAKE_VARIABLE.fullmatch(source.cmake):
        yield Problem((*steps, "cmake"), repr(source.cmake), "the name of a CMake variable")
    yield from _when(source.when, steps)


def _build(build: Build, recipe: Recipe) -> Iterator[Problem]:
    if "main" not in recipe.sources:
        yield Problem(("sources",), "no source named main", "one, since there is a `build`", key=True)
    if build.backend == "commands" and not (build.commands or any(each.commands for each in build.variants)):
        yield Problem(("build", "commands"), "none", "at least one, since the backend is `commands`", key=True)
    yield from _inside(build.directory, ("build", "directory"))
    if not build.outputs:
        yield Problem(("build", "outputs"), "an empty list", "at least one glob such as *.whl")
    for index, glob in enumerate(build.outputs):
        yield from _inside(glob, ("build", "outputs", index))
    parts = [(build.requires, build.env, build.commands, ("build",))]
    for number, variant in enumerate(build.variants):
        steps: Steps = ("build", "variants", number)
        parts.append((variant.requires, variant.env, variant.commands, steps))
        yield from _when(variant.when, steps)
    for requires, env, commands, at in parts:
        for index, text in enumerate(requires):
            yield from _requirement(text, (*at, "requires", index))
        for variable in env:
            yield from _variable(variable, (*at, "env", variable))
            if variable in recipe.arch.env:
                steps = (*at, "env", variable)
                yield Problem(steps, "it here and in arch.env", "it in one of them", key=True)
        for index, command in enumerate(commands):
            if not command:
                yield Problem((*at, "commands", index), "an empty list", "a program and its arguments")
            for position, word in enumerate(command):
                yield from _placeholders(word, COMMAND_PLACEHOLDERS, (*at, "commands", index, position))


def _policy(policy: ModulePolicy, steps: Steps) -> Iterator[Problem]:
    yield from _inside(policy.match, (*steps, "match"))
    if policy.expect in {"jit", "not-applicable"} and not policy.reason:
        steps_reason = (*steps, "reason")
        yield Problem(steps_reason, "no reason", f"one, since {policy.expect!r} is an exception", key=True)
    yield from _when(policy.when, steps)


def _when(when: When | None, steps: Steps) -> Iterator[Problem]:
    if when is None:
        return
    steps = (*steps, "when")
    if when.version is None and not when.arch and when.platform is None:
        yield Problem(steps, "no condition", "version, arch or platform")
    if when.version is not None:
        yield from _specifiers(when.version, (*steps, "version"))
    for index, arch in enumerate(when.arch):
        yield from _arch(arch, (*steps, "arch", index))
    if when.platform is not None and when.platform not in PLATFORMS:
        yield _unknown((*steps, "platform"), when.platform, PLATFORMS, "a platform")


def _stack(stack: Stack, file_name: str) -> Iterator[Problem]:
    yield from _name(stack.name, file_name)
    if not stack.components:
        yield Problem(("components",), "none", "at least one")
    for index, platform in enumerate(stack.platforms):
        if platform not in PLATFORMS:
            yield _unknown(("platforms", index), platform, PLATFORMS, "a platform")
    for index, python in enumerate(stack.pythons):
        if not _PYTHON.fullmatch(python):
            yield Problem(("pythons", index), repr(python), "a CPython version such as 3.12")
    yield from _twice([(("platforms", i), each) for i, each in enumerate(stack.platforms)])
    yield from _twice([(("pythons", i), each) for i, each in enumerate(stack.pythons)])
    for name, component in stack.components.items():
        steps: Steps = ("components", name)
        if not NAME.fullmatch(name):
            yield Problem(steps, repr(name), "a recipe's name", key=True)
        if not _is_version(component.version):
            yield Problem((*steps, "version"), repr(component.version), "a version such as 2.14.1")
        for source, commit in component.commits.items():
            if not _COMMIT.fullmatch(commit):
                at = (*steps, "commits", source)
                yield Problem(at, repr(commit), "a full commit id: 40 lower-case hex digits")
    toolkit = stack.toolkit
    if toolkit is not None:
        yield from _specifiers(toolkit.version, ("toolkit", "version"))
        for index, text in enumerate(toolkit.packages):
            yield from _requirement(text, ("toolkit", "packages", index))
        for index, header in enumerate(toolkit.headers):
            yield from _inside(header, ("toolkit", "headers", index))
        for index, library in enumerate(toolkit.libraries):
            if not _LIBRARY.fullmatch(library):
                yield Problem(("toolkit", "libraries", index), repr(library), "a name such as libcublas.so")


def _unknown(steps: Steps, found: str, known: Iterable[str], what: str) -> Problem:
    choices = tuple(known)
    listed = ", ".join(choices) or "there are none"
    return Problem(steps, repr(found), f"{what} ({listed})", near_miss(found, choices))


def _twice(places: Sequence[tuple[Steps, str]]) -> Iterator[Problem]:
    counts = Counter(name for _, name in places)
    if len(counts) == len(places):
        return
    seen: set[str] = set()
    for steps, name in places:
        if name in seen:
            yield Problem(steps, f"{name!r} a second time", "it once")
        seen.add(name)


def _variable(name: str, steps: Steps, *, key: bool = True) -> Iterator[Problem]:
    if not _VARIABLE.fullmatch(name):
        yield Problem(steps, repr(name), "the name of an environment variable", key=key)


def _inside(path: str, steps: Steps) -> Iterator[Problem]:
    if path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/"):
        yield Problem(steps, repr(path), "a relative path that stays inside, with /")


def _placeholders(text: str, known: Sequence[str], steps: Steps) -> Iterator[Problem]:
    for name in _PLACEHOLDER.findall(text) if "{" in text else ():
        if name not in known:
            choices = " or ".join(f"{{{each}}}" for each in known)
            yield Problem(steps, f"{{{name}}}", choices, near_miss(name, known))


def _specifiers(text: str, steps: Steps) -> Iterator[Problem]:
    if not _SPECIFIERS.fullmatch(text) and not _is_specifiers(text):
        yield Problem(steps, repr(text), "version specifiers such as >=0.33,<0.34")


def _requirement(text: str, steps: Steps) -> Iterator[Problem]:
    if _REQUIREMENT.fullmatch(text):
        return
    fault = _requirement_fault(text)
    if fault is not None:
        yield Problem(steps, f"{text!r} ({fault})", "a requirement such as ninja>=1.11")


def _arch(text: str, steps: Steps) -> Iterator[Problem]:
    fault = _arch_fault(text)
    if fault is not None:
        yield Problem(steps, f"{text!r} ({fault})", "one arch such as 12.1a")


@lru_cache(maxsize=1)
def _dialects() -> tuple[str, ...]:
    from orchestrator.model.dialects import DIALECTS

    return tuple(DIALECTS)


@lru_cache(maxsize=4096)
def _arch_fault(text: str) -> str | None:
    from orchestrator.errors import ArchError
    from orchestrator.model.arch import parse_request

    try:
        entries = parse_request(text).entries
    except ArchError as error:
        return error.message
    if len(entries) != 1:
        return "several arches"
    return None if str(entries[0].arch) == text else f"written {entries[0].arch} here"


@lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    if _VERSION.fullmatch(text):
        return True
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text)) == text
    except InvalidVersion:
        return False


@lru_cache(maxsize=4096)
def _is_specifiers(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return bool(list(SpecifierSet(text)))
    except InvalidSpecifier:
        return False


@lru_cache(maxsize=4096)
def _requirement_fault(text: str) -> str | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        url = Requirement(text).url
    except InvalidRequirement as error:
        return str(error).partition("\n")[0]
    return "an address" if url else None
