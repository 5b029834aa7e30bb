"""Globs on paths inside a wheel."""

from __future__ import annotations

import re
from functools import lru_cache

_DATA = re.compile(r"[^/]+\.data/(?:platlib|purelib)/")


def installed(path: str) -> str:
    """Return where a path of a wheel lands in site-packages: `x.data/platlib/a.so` becomes `a.so`."""
    return _DATA.sub("", path, count=1) if _DATA.match(path) else path


def matches(pattern: str, path: str) -> bool:
    """Say whether a glob fits a whole path: `*` and `?` stay inside a folder, `**` spans folders.

    As in the tables of the binary distribution format, `x.data/platlib/` in front does not count.
    """
    return bool(_compiled(pattern).fullmatch(installed(path)))


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif pattern[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            parts.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\")
            parts.append(f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)
