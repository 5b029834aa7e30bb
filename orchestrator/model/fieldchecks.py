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
from orchestrator.model import placeholders
from orchestrator.model.convert import Problem, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from orchestrator.model.yamltext import Steps

NAME = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
STACK = re.compile(r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*", re.ASCII)
"""A stack may be called by a version, such as `vllm-0.33`."""
SOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*", re.ASCII)
MAX_NAME = 100
"""Letters of a name or version: file names are made of several."""
MAX_PART = 255
"""Bytes of one file name (NAME_MAX of common file systems)."""
MAX_PATH = 1024
"""Bytes of a path in a recipe; it goes on top of our own folders, and the kernel takes 4096 (PATH_MAX)."""
MAX_VALUE = 100_000
"""Bytes of one argument or variable; the kernel takes 128 KiB with its name (MAX_ARG_STRLEN)."""
MAX_DIGITS = 500
"""Letters of what `packaging` turns to numbers; int() may be limited to 640 (sys.int_info)."""

DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)

_RELEASE = r"[0-9]+(?:\.[0-9]+)*"
_SIMPLE = rf"(?:(?:>=|<=|==|!=|<|>) ?{_RELEASE}|(?:==|!=) ?{_RELEASE}\.\*)"
_SPECIFIERS = re.compile(rf"{_SIMPLE}(?:, ?{_SIMPLE})*", re.ASCII)
_REQUIREMENT = re.compile(rf"{DISTRIBUTION.pattern} ?(?:{_SIMPLE}(?:, ?{_SIMPLE})*)?", re.ASCII)
_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPENED = re.compile(r"\[(?:[^\]][^\]]*\]|.*)", re.DOTALL)
_SET = re.compile(r"\[[!^]?(?!.*--)[A-Za-z0-9_.,+*?-]+\]", re.ASCII)
_RANGE = re.compile(r"(?=([^!^\[-])-([^\]-]))")
# `${name}` is a shell's or CMake's own.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z_]*)\}", re.ASCII)


def name(text: str, file_name: str, pattern: re.Pattern[str] = NAME) -> Iterator[Problem]:
    """Check the `name` field against the file's name, without suffix."""
    if not pattern.fullmatch(text):
        dots = ", and . between them" if pattern is STACK else ""
        yield Problem(("name",), shown(text), f"lower-case letters, digits and -, not starting with -{dots}")
    elif len(text) > MAX_NAME:
        yield Problem(("name",), shown(text), f"at most {MAX_NAME} letters, since files are called by it")
    elif text != file_name:
        yield Problem(("name",), shown(text), f"{file_name!r}, as the file is called")


def known(
    text: str, steps: Steps, choices: Collection[str], what: str, *, key: bool = False
) -> Iterator[Problem]:
    """Check that a word is one of `choices`; `what` says what those are."""
    if text not in choices:
        listed = ", ".join(choices) or "there are none"
        yield Problem(steps, shown(text), f"{what} ({listed})", near_miss(text, choices), key)


def distribution(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check a distribution name, if there is one."""
    if text is not None and not (DISTRIBUTION.fullmatch(text) and len(text) <= MAX_NAME):
        yield Problem(steps, shown(text), "a distribution name such as torch")


def once(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check that no word of a list stands twice."""
    if len(set(texts)) == len(texts):
        return
    seen: Counter[str] = Counter()
    for index, text in enumerate(texts):
        if seen[text]:
            yield Problem((*steps, index), f"{shown(text)} a second time", "it once")
        seen[text] += 1


def variable(text: str | None, steps: Steps, *, key: bool = False) -> Iterator[Problem]:
    """Check the name of an environment variable, if there is one."""
    if text is not None and not _VARIABLE.fullmatch(text):
        yield Problem(steps, shown(text), "the name of an environment variable", key=key)


def inside(text: str | None, steps: Steps, *, itself: bool = False) -> Iterator[Problem]:
    """Check a path or glob that must stay inside its folder, if there is one.

    Args:
        text: what stands there.
        steps: where.
        itself: the folder itself (`.`) will do.
    """
    if text is None:
        return
    parts = text.split("/")
    if text.startswith(("/", "~")) or "\\" in text or ".." in parts:
        yield Problem(steps, shown(text), "a relative path that stays inside, with /")
    elif not itself and not set(parts) - {"", "."}:
        yield Problem(steps, shown(text), "a path to something inside, not the folder itself")
    else:
        yield from path(text, steps)


def path(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check that a path, if there is one, can be one: one line, no part longer than a file name may be."""
    if text is None:
        return
    if not text.isprintable():
        yield Problem(steps, shown(text), "a path in one line, without control characters")
    elif len(text.encode()) > MAX_PATH or any(len(part.encode()) > MAX_PART for part in text.split("/")):
        expected = f"a path of at most {MAX_PATH} bytes, {MAX_PART} between two /"
        yield Problem(steps, shown(text), expected)


def address(text: str | None, steps: Steps, *, file: bool = False) -> Iterator[Problem]:
    """Check that an address, if there is one, is one word that no tool takes for an option.

    Args:
        text: what stands there.
        steps: where.
        file: it must end with the name of a file.
    """
    if text is None:
        return
    last = text.partition("?")[0].rpartition("/")[2]
    if not text.isprintable() or " " in text or text.startswith("-"):
        yield Problem(steps, shown(text), "an address such as https://..., without spaces")
    elif file and (last in {"", ".", ".."} or len(last.encode()) > MAX_PART - MAX_NAME):
        yield Problem(steps, shown(text), "an address that ends with a file's name")


def glob(text: str, steps: Steps) -> Iterator[Problem]:
    """Check the sets of a glob: what they may hold is what all matchers read alike."""
    for found in _OPENED.findall(text):
        if not _SET.fullmatch(found) or any(low > high for low, high in _RANGE.findall(found)):
            yield Problem(steps, shown(text), "a glob whose sets are like [abc], [a-z] or [!0-9]")
            return


def output(text: str, steps: Steps) -> Iterator[Problem]:
    """Check a glob of files in the output folder: `**` is a whole part, and a file's name follows."""
    parts = text.split("/")
    if any("**" in part and part != "**" for part in parts):
        yield Problem(steps, shown(text), "`**` alone between two /, such as **/*.whl")
    elif parts[-1] in {"", ".", "**"}:
        yield Problem(steps, shown(text), "a glob that ends with a file's name, such as *.whl")
    else:
        yield from inside(text, steps)
        yield from glob(text, steps)


def value(text: str, steps: Steps) -> Iterator[Problem]:
    """Check the length of what becomes one argument or variable of a command."""
    if len(text.encode()) > MAX_VALUE:
        yield Problem(steps, shown(text), f"at most {MAX_VALUE} bytes, since the kernel hands on no more")


def in_address(text: str, steps: Steps, choices: Sequence[str]) -> Iterator[Problem]:
    """Check that every `{word}` of an address is one of `choices`."""
    if "{" not in text:
        return
    for found in _PLACEHOLDER.findall(text):
        if found not in choices:
            expected = " or ".join(f"{{{each}}}" for each in choices)
            yield Problem(steps, f"{{{found}}}", expected, near_miss(found, choices))


def filling(text: str, steps: Steps, choices: Sequence[str]) -> Iterator[Problem]:
    """Check the braces of a text that is filled in: each is `{word}` with one of `choices`, or double."""
    for found in placeholders.faults(text, choices):
        listed = ", ".join(f"{{{each}}}" for each in choices)
        expected = f"one of {listed}; a brace itself is written {{{{ or }}}}"
        yield Problem(steps, found, expected, near_miss(found.strip("{}"), choices))


def specifiers(text: str | None, steps: Steps) -> Iterator[Problem]:
    """Check PEP 440 version specifiers, if there are any."""
    if text is None:
        return
    if len(text) > MAX_DIGITS or not (_SPECIFIERS.fullmatch(text) or _is_specifiers(text)):
        yield Problem(steps, shown(text), "version specifiers such as >=0.33,<0.34")


def requirements(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check a list of PEP 508 requirements; addresses are refused, since a lock holds none."""
    for index, text in enumerate(texts):
        if len(text) > MAX_DIGITS:
            fault: str | None = f"{len(text)} letters"
        else:
            fault = None if _REQUIREMENT.fullmatch(text) else _requirement_fault(text)
        if fault is not None:
            yield Problem((*steps, index), f"{shown(text)} ({fault})", "a requirement such as ninja>=1.11")


def arches(texts: Sequence[str], steps: Steps) -> Iterator[Problem]:
    """Check a list of arches; each in its normal form, since they are compared as text."""
    for index, text in enumerate(texts):
        fault = _arch_fault(text)
        if fault is not None:
            yield Problem((*steps, index), f"{shown(text)} ({fault})", "one arch such as 12.1a")


def devices(lowest: str | None, below: str | None, steps: Steps) -> Iterator[Problem]:
    """Check a range of devices: `from` and `below`, those of the two that are given."""
    from orchestrator.errors import ArchError
    from orchestrator.model.arch import Device

    found = []
    for field, text in (("from", lowest), ("below", below)):
        if text is None:
            continue
        try:
            found.append(Device.parse(text))
        except ArchError as error:
            yield Problem((*steps, field), f"{shown(text)} ({error.message})", "a device such as 12.1")
    if len(found) == len(("from", "below")) and found[0] >= found[1]:
        yield Problem((*steps, "below"), shown(below or ""), f"a device above {lowest}, where `from` begins")


def version(text: str, steps: Steps) -> Iterator[Problem]:
    """Check a PEP 440 version in its normal form."""
    if len(text) > MAX_NAME:
        fault: str | None = f" ({len(text)} letters)"
    else:
        fault = None if _VERSION.fullmatch(text) else _version_fault(text)
    if fault is not None:
        yield Problem(steps, f"{shown(text)}{fault}", "a version such as 2.14.1")


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
