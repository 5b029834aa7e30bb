"""Names of kernels: demangled, matched with patterns, and cut to what tells them apart."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NESTED = re.compile(r"_ZN?K?")
_DIGITS = re.compile(r"\d+")
_LAUNCHER = ["cutlass", "device_kernel"]
_ARGUMENT = re.compile(r"IN?(?:S[0-9A-Z]*_)?")
"""The start of the first template argument: the name of a class, maybe in a namespace that came before."""
_TOKEN = re.compile(r"L[a-z]n?\d+E|[ST][0-9A-Z]*_|(\d+)")
"""Of a mangled name: a literal, a substitution, or the length of an identifier."""
_SM = re.compile(r"[sS][mM]_?(\d{2,3})(?!\d)")


@lru_cache(maxsize=1 << 16)
def demangled(name: str) -> str:
    """Return the C++ name of a mangled one; what is none, or cannot be read, stays as it is."""
    try:
        import pycxxfilt
    except ImportError:
        return name
    try:
        return pycxxfilt.demangle(name) or name
    except (ValueError, RuntimeError):
        return name


def fits(pattern: str, name: str) -> bool:
    """Say whether a glob fits a kernel's whole name, demangled or mangled: `*` is any text."""
    return fnmatchcase(name, pattern) or fnmatchcase(demangled(name), pattern)


@lru_cache(maxsize=1 << 16)
def family(name: str) -> str:
    """Return what a kernel shares with its variants: its name without template arguments and numbers.

    `fmha_f16_sm75` and `fmha_f16_sm80` are variants of one, and so are `vectorized<8, F>` and
    `vectorized<4, F>`: at run time the one is taken that serves the device. Read off the mangled name
    (Itanium C++ ABI, 5.1.2): counted identifiers up to the first template argument. `device_kernel` of
    CUTLASS runs whatever class it is given, so the name of that class counts too.
    """
    start = _NESTED.match(name)
    if start is None:
        return _DIGITS.sub("", name)
    parts, at = _identifiers(name, start.end())
    if parts == _LAUNCHER and (argument := _ARGUMENT.match(name, at)) is not None:
        parts += _identifiers(name, argument.end())[0]
    return _DIGITS.sub("", "::".join(parts)) if parts else name


def _identifiers(name: str, at: int) -> tuple[list[str], int]:
    """Return the counted identifiers that stand at a place of a mangled name, and where they end."""
    parts = []
    while (digits := _DIGITS.match(name, at)) is not None and len(digits[0]) <= 4:  # noqa: PLR2004 - a length
        at = digits.end() + int(digits[0])
        parts.append(name[digits.end() : at])
    return parts, at


@lru_cache(maxsize=1 << 16)
def majors(name: str) -> frozenset[int]:
    """Return the majors of the arches that a kernel's name tells: `sm90::prefill` and `FooSm90` give 9."""
    words = _counted(name) if name.startswith("_Z") else (name,)
    return frozenset(int(number) // 10 for word in words for number in _SM.findall(word))


def _counted(name: str) -> Iterator[str]:
    """Yield the counted identifiers of a mangled name; in `4sm907prefill` they are `sm90` and `prefill`."""
    at = 0
    while (found := _TOKEN.search(name, at)) is not None:
        at = found.end()
        if found[1] is not None and len(found[1]) <= 4:  # noqa: PLR2004 - a length
            yield name[at : at + int(found[1])]
            at += int(found[1])


def short(name: str, most: int = 100) -> str:
    """Return a kernel's name for a message: demangled, without its parameters, cut to `most` characters."""
    text = demangled(name).removeprefix("void ")
    text = re.sub(r"\((?:anonymous namespace)\)::", "", text)
    if text.endswith(")"):
        text = text[: _opening(text)]
    return text if len(text) <= most else text[: most - 1] + "…"


def _opening(text: str) -> int:
    """Return where the parameters at the end of a name begin."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if not depth:
            return at
    return len(text)
