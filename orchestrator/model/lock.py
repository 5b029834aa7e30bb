"""A lock: for one stack, platform and Python, every file and commit that a build may use.

Locks are JSON, written by `sparkbuild lock`. Files are named as on the package index and by sha256;
no lock holds an address.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "sparkbuild.lock/1"
UNRESOLVED = "unresolved"
"""Stands for a commit that nobody has read yet; no hash is ever guessed."""


class LockedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, order=True):
    """One wheel or sdist of the package index."""

    name: str
    """Normalized distribution name (PEP 503)."""
    version: str
    file: str
    sha256: str
    size: int
    """Bytes."""


class LockedSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What was seen of one source. An index file, an archive, or a commit."""

    file: LockedFile | None = None
    """An sdist, or an archive (its `name` is the recipe's)."""
    commit: str | None = None
    """40 hex digits; or `unresolved`, and then `tag` names the commit."""
    tag: str | None = None
    """What the stack names instead of a commit."""
    submodules: dict[str, str] | None = None
    """Path inside the tree -> commit, of all submodules, nested ones too. None: nobody has listed them;
    the commit's own gitlinks say, and verify, what they are."""

    @property
    def unresolved(self) -> bool:
        """Whether the commit must be looked up before anything is built from it."""
        return self.commit == UNRESOLVED


class LockedComponent(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What was seen of one component."""

    version: str
    prebuilt: LockedFile | None = None
    """The published wheel, of one that is taken so or can be."""
    run: tuple[LockedFile, ...] = ()
    """All that it needs to be imported, without itself and what the stack builds; for one that others build
    on."""
    sources: dict[str, LockedSource] = {}
    requires: tuple[LockedFile, ...] = ()
    """Build requirements and their closure."""


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One lock file."""

    schema: Literal["sparkbuild.lock/1"]
    stack: str
    platform: str
    python: str
    inputs: str
    """sha256 of what was resolved (stack pins, requirements): a lock whose inputs differ is stale."""
    toolkit: tuple[LockedFile, ...] = ()
    run: tuple[LockedFile, ...] = ()
    """The runtime closure: all that the stack's components need to be used, without themselves."""
    components: dict[str, LockedComponent] = {}


def unresolved_sources(lock: Lock) -> tuple[tuple[str, str, str], ...]:
    """Return (component, source, tag) of every commit that nobody has read yet, sorted."""
    return tuple(
        (name, source, seen.tag or "")
        for name, component in sorted(lock.components.items())
        for source, seen in sorted(component.sources.items())
        if seen.unresolved
    )


def with_commits(lock: Lock, read: Lock) -> Lock:
    """Return a lock whose unresolved commits are those that another lock has read from the same tags."""
    components = dict(lock.components)
    for name, source, tag in unresolved_sources(lock):
        other = read.components.get(name)
        seen = other.sources.get(source) if other is not None else None
        if seen is not None and seen.tag == tag and not seen.unresolved:
            component = components[name]
            components[name] = msgspec.structs.replace(component, sources={**component.sources, source: seen})
    return msgspec.structs.replace(lock, components=components)


def lock_bytes(lock: Lock) -> bytes:
    """Return the one spelling of a lock: JSON, keys sorted, indent 1, a newline at the end."""
    plain = msgspec.json.encode(lock, order="sorted")
    return msgspec.json.format(plain, indent=1) + b"\n"
