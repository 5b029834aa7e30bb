"""What single values of a recipe or stack must be: each mistake as a problem with its place.

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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from orchestrator.model.yamltext import Steps

NAME = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)

_RELEASE = r"[0-9]+(?:\.[0-9]+)*"
_SIMPLE = rf"(?:(?:>=|<=|==|!=|<|>) ?{_RELEASE}|(?:==|!=) ?{_RELEASE}\.\*)"
_SPECIFIERS = re.compile(rf"{_SIMPLE}(?:, ?{_SIMPLE})*", re.ASCII)
_REQUIREMENT = re.compile(rf"{DISTRIBUTION.pattern} ?(?:{_SIMPLE}(?:, ?{_SIMPLE})*)?", re.ASCII)
_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# `${name}` is a shell's or CMake's own.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z_]*)\}", re.ASCII)


def name(text: str, file_name: str) -> Iterator[Problem]:
    """Check the `name` field against the file's name, without suffix."""
    if not NAME.fullmatch(text):
        yield Problem(("name",), repr(text), "lower-case letters, digits and -, not starting with -")
    elif text != file_name:
        yield Problem(("name",), repr(text), f"{file_name!r}, as the file is called")


def known(
    text: str, steps: Steps, choices: Collection[str], what: str, *, key: bool = False
) -> Iterator[Problem]:
    """Check that a word is one of `choices`; `what` says what those are."""
    if text not in choices:
        listed = ", ".join(choices) or "there are none"
        yield Problem(steps, repr(text), f"{what} ({listed})", near_miss(text, choices), key)


def distribution(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check a distribution name, if there is one."""
    if text is not None and not DISTRIBUTION.fullmatch(text):
        yield Problem(steps, repr(text), "a distribution name such as torch")


def once(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check that no word of a list stands twice."""
    if len(set(texts)) == len(texts):
        return
    seen: Counter[str] = Counter()
    for index, text in enumerate(texts):
        if seen[text]:
            yield Problem((*steps, index), f"{text!r} a second time", "it once")
        seen[text] += 1


def variable(text: str | None, steps: Steps, *, key: bool = False) -> Iterator[Problem]:
    """Check the name of an environment variable, if there is one."""
    if text is not None and not _VARIABLE.fullmatch(text):
        yield Problem(steps, repr(text), "the name of an environment variable", key=key)


def inside(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check a path or glob that must stay inside its folder, if there is one."""
    if text is not None and (text.startswith(("/", "~")) or "\\" in text or ".." in text.split("/")):
        yield Problem(steps, repr(text), "a relative path that stays inside, with /")


def placeholders(text: str, steps: Steps, choices: Sequence[str]) -> Iterator[Problem]:
    """Check that every `{word}` is one of `choices`."""
    if "{" not in text:
        return
    for found in _PLACEHOLDER.findall(text):
        if found not in choices:
            expected = " or ".join(f"{{{each}}}" for each in choices)
            yield Problem(steps, f"{{{found}}}", expected, near_miss(found, choices))


def specifiers(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check PEP 440 version specifiers, if there are any."""
    if text is not None and not _SPECIFIERS.fullmatch(text) and not _is_specifiers(text):
        yield Problem(steps, repr(text), "version specifiers such as >=0.33,<0.34")


def requirements(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check a list of PEP 508 requirements; addresses are refused, since a lock holds none."""
    for index, text in enumerate(texts):
        fault = None if _REQUIREMENT.fullmatch(text) else _requirement_fault(text)
        if fault is not None:
            yield Problem((*steps, index), f"{text!r} ({fault})", "a requirement such as ninja>=1.11")


def arches(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check a list of arches; each in its normal form, since they are compared as text."""
    for index, text in enumerate(texts):
        fault = _arch_fault(text)
        if fault is not None:
            yield Problem((*steps, index), f"{text!r} ({fault})", "one arch such as 12.1a")


def version(text: str, steps: Steps) -> Iterator[Problem]:
    """Check a PEP 440 version in its normal form."""
    fault = None if _VERSION.fullmatch(text) else _version_fault(text)
    if fault is not None:
        yield Problem(steps, f"{text!r}{fault}", "a version such as 2.14.1")


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
    normal = str(entries[0].arch)
    return None if normal == text else f"its normal form is {normal}"


@lru_cache(maxsize=4096)
def _version_fault(text: str) -> str | None:
    from packaging.version import InvalidVersion, Version

    try:
        normal = str(Version(text))
    except InvalidVersion:
        return ""
    return None if normal == text else f" (its normal form is {normal})"


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
