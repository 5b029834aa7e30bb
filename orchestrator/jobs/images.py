"""What nvcc is asked to make, told from its arguments: `sm_121a`, `compute_121a`, `lto_90`, `native`.

The rules are nvcc's own: `nvcc --help` on -gencode, -arch and -code, and `nvcc --dryrun` of CUDA 13.0.88 for
what it does not say. Tests compare with the latter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from orchestrator.model.archvalues import ARCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GENCODE: Final = frozenset(("-gencode", "--generate-code"))
_ARCH: Final = frozenset(("-arch", "--gpu-architecture"))
_CODE: Final = frozenset(("-code", "--gpu-code"))
_LTO: Final = frozenset(("-dlto", "--dlink-time-opt", "-lto", "--lto"))
_PTX: Final = frozenset(("-ptx", "--ptx"))
_CUBIN: Final = frozenset(("-cubin", "--cubin"))
_DEFAULT: Final = "sm_75"
_NAME: Final = re.compile(r"(sm|compute|lto)_([1-9][0-9]{1,2})([af]?)")
_PLAIN: Final = [arch.sm for arch in ARCHES if not arch.suffix]


def images(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the images that nvcc makes of these arguments, sorted.

    `native` is whatever GPU the machine has. What nvcc would refuse may yield anything.

    Args:
        arguments: all of them, with those from variables and response files; see `command.effective`.
    """
    made: set[str] = set()
    arch: str | None = None
    codes: list[str] = []
    for name, value in _given(arguments):
        if name in _GENCODE:
            made |= _generated(value)
        elif name in _ARCH:
            arch = value
        else:
            codes += _listed(value)
    given = set(arguments)
    if codes:
        made.update(_as_arch(code, arch or "") for code in codes)
    elif arch is not None or not made:
        made |= _shorthand(arch or _DEFAULT)
    if given & _LTO:
        made = {re.sub("^sm_", "lto_", name) for name in made}
    if given & _PTX:  # it ends there, whatever else was asked for; a suffix is kept
        virtual = {re.sub("^sm_", "compute_", name) for name in made}
        return tuple(
            sorted(name for name in virtual if f"{name}a" not in virtual and f"{name}f" not in virtual)
        )
    if given & _CUBIN:
        made = {name for name in made if not name.startswith("compute_")}
    return tuple(sorted(made))


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _GENCODE or name in _ARCH or name in _CODE:
            yield name, (value if equals else next(words, "")).replace('"', "").replace("'", "").strip()


def _listed(value: str) -> list[str]:
    return [name for name in (part.strip() for part in value.strip("[]").split(",")) if name]


def _generated(value: str) -> set[str]:
    """Read `arch=compute_90,code=[sm_90,compute_90]`, its two parts in either order."""
    arch = re.search(r"arch=([^,]*)", value)
    code = re.search(r"code=(\[[^\]]*\]|.*?)(?:,arch=|$)", value)
    return {_as_arch(name, arch[1] if arch else "") for name in _listed(code[1])} if code else set()


def _as_arch(code: str, arch: str) -> str:
    """Return the image's name: of arch=compute_120f, code=sm_121 makes sm_121f."""
    plain = code.startswith("sm_") and not code.endswith(("a", "f"))
    return f"{code}f" if plain and arch.endswith("f") else code


def _shorthand(arch: str) -> set[str]:
    """Return what -arch alone makes; of a name with a suffix the PTX comes with it and without it."""
    if arch in {"all", "all-major"}:
        majors = [sm for sm in _PLAIN if sm % 10 == 0]
        chosen = _PLAIN if arch == "all" else [_PLAIN[0], *majors]
        return {f"sm_{sm}" for sm in chosen} | {f"compute_{majors[-1]}"}
    found = _NAME.fullmatch(arch)
    if found is None or found[1] == "lto":
        return {arch}
    made = {f"compute_{found[2]}{found[3]}", f"compute_{found[2]}"}
    return made | {arch} if found[1] == "sm" else made
