"""What a stack pins of a source, and whether somebody has judged a patch there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from orchestrator.model.lock import LockedSource
    from orchestrator.model.recipe import Source

_SHOWN = 12
"""Digits of a commit, for people."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One state of a source: a published version, a commit, or a tag that nobody has read yet."""

    version: str | None = None
    commit: str | None = None
    tag: str | None = None

    def __str__(self) -> str:
        if self.commit is not None:
            return f"commit {self.commit[:_SHOWN]}"
        return f"version {self.version}" if self.tag is None else f"unresolved tag {self.tag}"

    def is_among(self, names: Collection[str]) -> bool:
        """Say whether versions and full commits, as a patch's `Seen-at:` has them, name this one."""
        if self.commit is not None:
            return self.commit in names
        return self.version is not None and any(_same(name, self.version) for name in names)


def pin_of(source: Source, locked: LockedSource | None, *, version: str) -> Pin | None:
    """Return what is pinned of a source; None of a local folder, which may hold anything.

    Args:
        source: as the stack has it.
        locked: what the lock holds of it.
        version: the component's, which an sdist or archive is of.
    """
    if source.local is not None:
        return None
    if source.git is None:
        return Pin(version=version)
    if locked is None or locked.unresolved:
        return Pin(tag=locked.tag or "" if locked else "")
    return Pin(commit=locked.commit)


def unverified(pin: Pin | None, seen_at: Collection[str]) -> str | None:
    """Return why a patch is `unverified-at-pin`, in words; None when somebody has judged it there."""
    if pin is None or pin.is_among(seen_at):
        return None
    seen = f"seen at {', '.join(_short(name) for name in seen_at)} only" if seen_at else "nobody has seen it"
    return f"unverified-at-pin ({pin}): {seen}"


def _short(name: str) -> str:
    return name if len(name) < 40 else f"commit {name[:_SHOWN]}"  # noqa: PLR2004 - digits of a full commit


def _same(name: str, version: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(name) == Version(version)
    except InvalidVersion:
        return name == version
