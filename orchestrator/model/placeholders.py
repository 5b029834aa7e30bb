"""Words in braces that stand for paths of one build: `{src}`, `{out}` and so on.

A brace is written double, `{{` and `}}`. What a shell or CMake writes, `${name}`, is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUILD = ("requires", "src", "work", "python", "out", "version")
"""What there is in `env`, `config_settings` and `commands`: the folder that holds the packages of the build
requirements, the main source, a scratch folder, the environment's Python, the output folder, the version."""

_TOKEN = re.compile(r"(\$\{[^{}]*\})|(\{\{|\}\})|\{([^{}]*)\}|([{}])")


def named(text: str) -> frozenset[str]:
    """Return the words that stand in single braces."""
    if "{" not in text:
        return frozenset()
    return frozenset(found[3] for found in _TOKEN.finditer(text) if found[3] is not None)


def faults(text: str, choices: Sequence[str]) -> list[str]:
    """Return what stands in braces and is none of `choices`: `{word}`, or a brace alone."""
    if "{" not in text and "}" not in text:
        return []
    found = []
    for token in _TOKEN.finditer(text):
        if token[4]:
            found.append(token[4])
        elif token[3] is not None and token[3] not in choices:
            found.append(token[0])
    return found


def filled(text: str, words: Mapping[str, str]) -> str:
    """Return the text with every placeholder replaced, in one pass: what is put in is not read again.

    Raises:
        KeyError: a word that `words` lacks; `faults` finds those.
    """
    if "{" not in text and "}" not in text:
        return text

    def value(token: re.Match[str]) -> str:
        if token[2]:
            return token[2][0]
        return words[token[3]] if token[3] is not None else token[0]

    return _TOKEN.sub(value, text)
