"""Globs on paths inside a wheel."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_DATA = re.compile(r"[^/]+\.data/(?:platlib|purelib)/")

_NEVER = "(?!)"


def installed(path: str) -> str:
    """Return where a path of a wheel lands in site-packages: `x.data/platlib/a.so` becomes `a.so`."""
    return _DATA.sub("", path, count=1) if _DATA.match(path) else path


def matches(pattern: str, path: str) -> bool:
    """Say whether a glob fits a whole path: `*` and `?` stay inside a folder, `**` spans folders.

    As in the tables of the binary distribution format, `x.data/platlib/` in front does not count.
    """
    return _compiled(pattern).fits(installed(path))


class _Glob(NamedTuple):
    """A glob as a row of places; a path is read once, and all places that can be reached go along.

    So it takes as many steps as the path is long, whatever the glob: a regular expression may take ages
    where there are many `*`. Places are bits of a number.
    """

    singles: tuple[re.Pattern[str], ...]
    """What the character is after which one goes on from each place to the next."""
    inside: int
    """Places at which characters other than `/` may be passed over: a `*`."""
    across: int
    """Places at which any may be: a `**`."""
    jumps: tuple[int, ...]
    """Places before a `**/`: without reading anything, one is in its folders, and behind them."""

    def fits(self, path: str) -> bool:
        """Say whether it fits a whole path."""
        at = self._reached(1)
        steps: dict[str, int] = {}
        for char in path:
            if char not in steps:
                steps[char] = sum(1 << n for n, single in enumerate(self.singles) if single.match(char))
            stay = self.across if char == "/" else self.across | self.inside
            at = self._reached((at & steps[char]) << 1 | at & stay)
            if not at:
                return False
        return bool(at >> len(self.singles) & 1)

    def _reached(self, places: int) -> int:
        for start in self.jumps:
            if places >> start & 1:
                places |= 0b110 << start
        return places


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> _Glob:
    singles: list[str] = []
    jumps: list[int] = []
    inside = across = at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            jumps.append(len(singles))
            across |= 1 << len(singles) + 1
            singles += [_NEVER, "/"]
            at += 3
        elif pattern.startswith("**", at):
            across |= 1 << len(singles)
            at += 2
        elif char == "*":
            inside |= 1 << len(singles)
            at += 1
        elif char == "[" and (end := pattern.find("]", at + 2)) > 0:
            within = pattern[at + 1 : end].replace("\\", r"\\")
            singles.append(f"[^{within[1:]}]" if within[0] in "!^" else f"[{within}]")
            at = end + 1
        else:
            singles.append("[^/]" if char == "?" else re.escape(char))
            at += 1
    return _Glob(tuple(re.compile(single, re.DOTALL) for single in singles), inside, across, tuple(jumps))
