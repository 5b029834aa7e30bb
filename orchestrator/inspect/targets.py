"""Which wheels fit a platform and a Python, in pip's order: `--platform` and `--python` of an audit."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from orchestrator.errors import UsageError
from orchestrator.model.platform import PLATFORMS, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.tags import Tag

_MACHINES = {
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "x86-64": "x86_64",
}
_PLATFORM = re.compile(
    r"(?:manylinux_2_(?P<glibc>\d{1,3})[_-]|musllinux_1_(?P<musl>\d{1,2})[_-]"
    r"|(?P<old>manylinux(?:1|2010|2014))[_-]|linux[_-])?(?P<machine>[a-z0-9_-]+)"
)
_NAMED = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""glibc 2.N -> the older name of its tag (PEP 600)."""
_OLDEST = {"aarch64": 17, "x86_64": 5}
"""The first glibc 2.N for which there are tags (PEP 513, PEP 599)."""
_NEWEST = 60
"""A glibc 2.N that nothing will need for long; it stands for any."""


def platform_tags(platform: str) -> tuple[str, ...]:
    """Return the platform tags of wheels that run on a platform, best first.

    Args:
        platform: a tag such as `manylinux_2_28_aarch64` or `manylinux2014_x86_64`, which takes wheels for
            that C library and older ones, as pip does; or `linux-aarch64`, `linux_x86_64`, `aarch64`, which
            take wheels for any glibc.

    Raises:
        UsageError: it is none of these.
    """
    found = _PLATFORM.fullmatch(platform.lower())
    machine = _MACHINES.get(found["machine"]) if found else None
    if found is None or machine is None:
        raise UsageError(
            f"no platform {platform!r}",
            hint=f"a wheel's platform tag such as manylinux_2_28_aarch64, or one of {', '.join(PLATFORMS)}",
        )
    if found["musl"]:
        return (
            *(f"musllinux_1_{minor}_{machine}" for minor in range(int(found["musl"]), -1, -1)),
            f"linux_{machine}",
        )
    named = {name: minor for minor, name in _NAMED.items()}
    newest = int(found["glibc"]) if found["glibc"] else named.get(found["old"], _NEWEST)
    return (*_manylinux(machine, min(newest, _NEWEST)), f"linux_{machine}")


def _manylinux(machine: str, newest: int) -> Iterator[str]:
    for minor in range(newest, _OLDEST[machine] - 1, -1):
        yield f"manylinux_2_{minor}_{machine}"
        if minor in _NAMED:
            yield f"{_NAMED[minor]}_{machine}"


def python_version(python: str | None) -> tuple[int, int]:
    """Return a CPython's version, `3.12` as (3, 12); this interpreter's for None.

    Raises:
        UsageError: it is not `3.N`.
    """
    if python is None:
        return sys.version_info[0], sys.version_info[1]
    return 3, int(Target.checked(PLATFORMS[0], python).python.partition(".")[2])


def supported_tags(platform: str | None, python: str | None) -> tuple[Tag, ...]:
    """Return the tags of wheels that fit, best first; None stands for this machine and this interpreter.

    Raises:
        UsageError: no such platform or Python.
    """
    from packaging import tags

    version = python_version(python)
    interpreter = f"cp{version[0]}{version[1]}"
    platforms = tuple(tags.platform_tags()) if platform is None else platform_tags(platform)
    return (
        # Named, because packaging would otherwise take the flags of the interpreter that runs this.
        *tags.cpython_tags(version, abis=[interpreter], platforms=platforms),
        *tags.compatible_tags(version, interpreter, platforms),
    )
