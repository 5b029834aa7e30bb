"""A stack's constraints as a resolver takes them: without extras, which it would pass over in silence.

`cuda-toolkit[nvcc]==13.0.3` means that nvcc is held too: the extra's own pins become constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import LockError, SourceError
from orchestrator.model.lock import LockedFile
from orchestrator.report.events import silent
from orchestrator.source.download import fetch_file
from orchestrator.source.index import listed
from orchestrator.source.measure import digest_of, size_of
from orchestrator.source.metadata import wheel_requires

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packaging.requirements import Requirement

    from orchestrator.model.platform import Target
    from orchestrator.report.events import Emit
    from orchestrator.source.index import IndexLink
    from orchestrator.source.pipconfig import IndexConfig
    from orchestrator.store.home import Home

_LARGEST = 16 << 20
"""Bytes. What has extras to be held is a package of requirements alone, such as cuda-toolkit."""


def expanded(
    constraints: Sequence[str], target: Target, *, config: IndexConfig, home: Home, emit: Emit = silent
) -> tuple[str, ...]:
    """Return constraints that hold the same, each a plain `name` with specifiers.

    Args:
        constraints: PEP 508, each with or without extras.
        target: the platform and Python that markers are judged for.
        config: the package indexes.
        home: where the wheel of one with extras is kept.
        emit: hears of progress.

    Raises:
        LockError: no wheel fits one with extras, or it lacks an extra.
        SourceError: an index cannot be asked, or a wheel not be had.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: list[str] = []
    for text in constraints:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate(_environment(target, "")):
            continue
        found.append(f"{wanted.name}{wanted.specifier}")
        if not wanted.extras:
            continue
        link = _best(wanted, config)
        held: dict[str, list[str]] = {canonicalize_name(extra): [] for extra in wanted.extras}
        for each in map(
            Requirement, wheel_requires(_wheel(wanted, link, config=config, home=home, emit=emit))
        ):
            for extra, pins in held.items():
                # Without the extra it holds anyway: whoever takes the package takes that.
                if each.marker is not None and each.marker.evaluate(_environment(target, extra)):
                    pins.append(f"{each.name}{each.specifier}")
        for extra, pins in sorted(held.items()):
            if not pins:
                raise LockError(
                    f"{link.file} has no extra {extra}",
                    where=f"constraint {text}",
                    hint="look at its METADATA",
                )
            found += pins
    return tuple(dict.fromkeys(found))


def _best(wanted: Requirement, config: IndexConfig) -> IndexLink:
    """Return the newest pure wheel that fits."""
    from packaging.version import Version

    fitting = [
        link
        for place in (*config.index_urls, *config.find_links)
        for link in listed(wanted.name, place, config=config)
        if link.file.endswith("-none-any.whl")
        and link.version is not None
        and not link.yanked
        and wanted.specifier.contains(link.version)
    ]
    if not fitting:
        raise LockError(
            f"no wheel fits {wanted.name}{wanted.specifier}, so what its extras hold is unknown",
            where=f"constraint {wanted}",
            hint="constraints with extras are for packages of requirements, such as cuda-toolkit",
        )
    return max(fitting, key=lambda link: Version(link.version or "0"))


def _wheel(wanted: Requirement, link: IndexLink, *, config: IndexConfig, home: Home, emit: Emit) -> Path:
    from packaging.utils import canonicalize_name

    size, sha256 = size_of(link.url, config), link.sha256
    if size > _LARGEST:
        raise SourceError(
            f"{link.file} is too large to be read for its extras", where=f"constraint {wanted}", hint=None
        )
    if sha256 is None:
        sha256 = digest_of(link.url, config)[1]
    file = LockedFile(
        name=canonicalize_name(wanted.name),
        version=link.version or "",
        file=link.file,
        sha256=sha256,
        size=size,
    )
    return fetch_file(file, home=home, emit=emit, url=link.url)


def _environment(target: Target, extra: str) -> dict[str, str]:
    return {
        "extra": extra,
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": target.platform.partition("-")[2],
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{target.python}.0",
        "python_version": target.python,
        "sys_platform": "linux",
    }
