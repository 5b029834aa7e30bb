"""Names of kernels without what changes from build to build, so that two builds can be compared."""

from __future__ import annotations

import re
from functools import lru_cache

_CHANGING = re.compile(
    r"(\d{1,3})(?=_GLOBAL__N__[0-9a-f]{8}_\d+_|_INTERNAL_[0-9a-f]{8}_\d+_|(?:CUB|THRUST)_\d+_[\dS])"
)
_HASHED = re.compile(r"_(?:GLOBAL__N_|INTERNAL)_[0-9a-f]{8}_\d+_\w+_[0-9a-f]{8}(?:_\d+)?")
_STATIC = re.compile(r"__nv_static_(\d{1,4})_(?=_[0-9a-f]{8}_\d)")
_FILE = re.compile(r"_[0-9a-f]{8}_(\d{1,3})_")
_FILE_END = re.compile(r"_[0-9a-f]{8}(?:_\d+)?+(?![0-9A-Za-z])")
_INLINE = re.compile(r"(CUB|THRUST)_\d+_[\dSMN_]+")


@lru_cache(maxsize=1 << 16)
def stable(name: str) -> str:
    """Return a mangled name as another build would call the same kernel.

    nvcc calls an unnamed namespace `_GLOBAL__N__<hash>_8_Sleep_cu_<hash>_<number>`: it becomes the one of
    the Itanium C++ ABI. CUB and Thrust put their version and the list of arches into an inline namespace,
    such as `CUB_300001_SM_1000_1200`: these become `CUB` and `THRUST`. A static kernel comes behind the id
    of its file, as `__nv_static_48__<hash>_20_nvshmem_extension_cu_<hash>_<number>_`: that goes. Where else
    such an id is found, what is left of it is the name of the file.
    """
    return _without_files(_without_namespaces(_without_static(name)))


def _without_static(name: str) -> str:
    found = _STATIC.match(name)
    if found is None:
        return name
    end = found.end() + int(found[1])
    return name[end + 1 :] if name[end : end + 2] == "__" else name


def _without_files(name: str) -> str:
    parts, at = [], 0
    for found in _FILE.finditer(name):
        end = found.end() + int(found[1])
        tail = _FILE_END.match(name, end)
        if found.start() >= at and tail is not None:
            parts += [name[at : found.start() + 1], name[found.end() : end]]
            at = tail.end()
    return "".join((*parts, name[at:]))


def _without_namespaces(name: str) -> str:
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
