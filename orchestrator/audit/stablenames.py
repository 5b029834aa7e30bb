"""Names of kernels without what changes from build to build, so that two builds can be compared."""

from __future__ import annotations

import re
from functools import lru_cache

_CHANGING = re.compile(
    r"(\d{1,3})(?=_GLOBAL__N__[0-9a-f]{8}_\d+_|_INTERNAL_[0-9a-f]{8}_\d+_|(?:CUB|THRUST)_\d+_[\dS])"
)
_HASHED = re.compile(r"_(?:GLOBAL__N_|INTERNAL)_[0-9a-f]{8}_\d+_\w+_[0-9a-f]{8}(?:_\d+)?")
_INLINE = re.compile(r"(CUB|THRUST)_\d+_[\dSMN_]+")


@lru_cache(maxsize=1 << 16)
def stable(name: str) -> str:
    """Return a mangled name as another build would call the same kernel.

    nvcc calls an unnamed namespace `_GLOBAL__N__<hash>_8_Sleep_cu_<hash>_<number>`: it becomes the one of
    the Itanium C++ ABI. CUB and Thrust put their version and the list of arches into an inline namespace,
    such as `CUB_300001_SM_1000_1200`: these become `CUB` and `THRUST`.
    """
    parts, at = [], 0
    for found in _CHANGING.finditer(name):
        if found.start() < at:
            continue
        # the identifier in front may end with digits; a length does not begin with 0
        for start in (place for place in range(*found.span()) if name[place] != "0"):
            length = int(name[start : found.end()])
            text = name[found.end() : found.end() + length]
            inline = _INLINE.fullmatch(text)
            if len(text) < length or (inline is None and _HASHED.fullmatch(text) is None):
                continue
            parts += [name[at:start], f"{len(inline[1])}{inline[1]}" if inline else "12_GLOBAL__N_1"]
            at = found.end() + len(text)
            break
    return "".join((*parts, name[at:]))
