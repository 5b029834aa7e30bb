"""pylock.toml (PEP 751) as uv writes it: which wheel of each package a target takes. Pure."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from orchestrator.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from orchestrator.model.platform import Target

GLIBC_MINOR = 28
"""Wheels are chosen for glibc 2.28 (manylinux_2_28), what torch's own wheels need."""
RUNTIME_GLIBC_MINOR = 34
"""And for 2.34 where there is nothing older: vLLM 0.33 needs tilelang 0.1.12, whose aarch64 wheel asks for
it, and llguidance 1.7, which asks for 2.31. Ubuntu 24.04 has 2.39."""

_OLDEST = {"x86_64": 5, "aarch64": 17}
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""Names that manylinux tags had before PEP 600."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWheel:
    """One wheel that a resolver chose. `size` is None where the index does not say it."""

    name: str
    version: str
    file: str
    url: str
    sha256: str
    size: int | None


def chosen_wheels(
    text: str, target: Target, *, without: Collection[str] = (), glibc: int = GLIBC_MINOR
) -> dict[str, FoundWheel]:
    """Return the best wheel of every package in a pylock.toml, by normalized name.

    Args:
        text: of the file.
        target: the platform and Python that the wheels are for.
        without: normalized names that are passed over.
        glibc: minor version of the oldest glibc that the wheels must run on.

    Raises:
        LockError: not a pylock.toml, or a package has no wheel that fits, or one without sha256.
    """
    from packaging.utils import canonicalize_name

    try:
        packages = tomllib.loads(text).get("packages", [])
    except tomllib.TOMLDecodeError as error:
        raise LockError(f"the resolver's answer is no pylock.toml: {error}", hint="try another uv") from error
    found = [
        _chosen(package, target, glibc)
        for package in packages
        if canonicalize_name(package["name"]) not in without
    ]
    return {wheel.name: wheel for wheel in found}


def _chosen(package: Mapping[str, Any], target: Target, glibc: int) -> FoundWheel:
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    name, version = canonicalize_name(package["name"]), str(package.get("version", ""))
    ranks = _ranks(target, glibc)
    best: tuple[int, Mapping[str, Any]] | None = None
    for wheel in package.get("wheels", []):
        try:
            tags = parse_wheel_filename(_file_of(wheel))[3]
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in map(str, tags) if tag in ranks), default=None)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, wheel)
    where = f"{target.platform}, Python {target.python}"
    if best is None:
        given = ", ".join(_file_of(wheel) for wheel in package.get("wheels", [])) or "no wheel"
        raise LockError(
            f"{name} {version} has no wheel for this target; there is {given}",
            where=where,
            hint="pin a version that has one, or leave this target out of the stack",
        )
    wheel = best[1]
    sha256 = wheel.get("hashes", {}).get("sha256")
    if sha256 is None:
        raise LockError(
            f"the index gives no sha256 for {_file_of(wheel)}", where=where, hint="use an index that does"
        )
    url = str(wheel.get("url") or wheel.get("path") or "")
    return FoundWheel(
        name=name, version=version, file=_file_of(wheel), url=url, sha256=sha256, size=wheel.get("size")
    )


def _file_of(wheel: Mapping[str, Any]) -> str:
    if "name" in wheel:
        return str(wheel["name"])
    place = str(wheel.get("url") or wheel.get("path") or "")
    return unquote(urlsplit(place).path.rpartition("/")[2])


def platform_tags(target: Target, *, glibc: int = GLIBC_MINOR) -> list[str]:
    """Return the platform tags that a target takes, best first (PEP 600 and the older names)."""
    machine = target.platform.partition("-")[2]
    tags: list[str] = []
    for minor in range(glibc, _OLDEST[machine] - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY:
            tags.append(f"{_LEGACY[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


@lru_cache(maxsize=16)
def _ranks(target: Target, glibc: int) -> dict[str, int]:
    """Return tag -> rank, 0 the best, of all wheel tags that the target takes."""
    from packaging.tags import compatible_tags, cpython_tags

    minor = int(target.python.partition(".")[2])
    abi = f"cp3{minor}"
    platforms = platform_tags(target, glibc=glibc)
    tags = [
        *cpython_tags((3, minor), abis=[abi], platforms=platforms),
        *compatible_tags((3, minor), abi, platforms),
    ]
    return {str(tag): rank for rank, tag in enumerate(tags)}
