"""Names of kernels: demangled, matched with patterns, and cut to what tells them apart."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

_NESTED = re.compile(r"_ZN?K?")
_DIGITS = re.compile(r"\d+")
_SM = re.compile(r"[sS][mM]_?(\d{2,3})(?!\d)")


@lru_cache(maxsize=1 << 16)
def demangled(name: str) -> str:
    """Return the C++ name of a mangled one; what is none, or cannot be read, stays as it is."""
    try:
        import pycxxfilt
    except ImportError:
        return name
    return pycxxfilt.demangle(name) or name


def fits(pattern: str, name: str) -> bool:
    """Say whether a glob fits a kernel's whole name, demangled or mangled: `*` is any text."""
    return fnmatchcase(name, pattern) or fnmatchcase(demangled(name), pattern)


@lru_cache(maxsize=1 << 16)
def family(name: str) -> str:
    """Return what a kernel shares with its variants: its name without template arguments and numbers.

    `fmha_f16_sm75` and `fmha_f16_sm80` are variants of one, and so are `vectorized<8, F>` and
    `vectorized<4, F>`: at run time the one is taken that serves the device. Read off the mangled name
    (Itanium C++ ABI, 5.1.2): counted identifiers up to the first template argument.
    """
    start = _NESTED.match(name)
    if start is None:
        return _DIGITS.sub("", name)
    parts, at = [], start.end()
    while (digits := _DIGITS.match(name, at)) is not None and len(digits[0]) <= 4:  # noqa: PLR2004 - a length
        at = digits.end() + int(digits[0])
        parts.append(name[digits.end() : at])
    return _DIGITS.sub("", "::".join(parts)) if parts else name


@lru_cache(maxsize=1 << 16)
def majors(name: str) -> frozenset[int]:
    """Return the majors of the arches that a kernel's name tells: `sm90::prefill` and `FooSm90` give 9."""
    return frozenset(int(number) // 10 for number in _SM.findall(name))


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
