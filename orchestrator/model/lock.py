"""A lock: for one stack, platform and Python, every file and commit that a build may use.

Locks are JSON, written by `sparkbuild lock`. Files are named as on the package index and by sha256;
no lock holds an address.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "sparkbuild.lock/1"


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
    submodules: dict[str, str] = {}
    """Path inside the tree -> commit, of all submodules, nested ones too."""


class LockedComponent(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What was seen of one component."""

    version: str
    prebuilt: LockedFile | None = None
    run: tuple[LockedFile, ...] = ()
    """All that a prebuilt wheel needs to be imported, without itself."""
    sources: dict[str, LockedSource] = {}
    requires: tuple[LockedFile, ...] = ()
    """Build requirements and their closure."""


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One lock file."""

    schema: Literal["sparkbuild.lock/1"]
    stack: str
    platform: str
    python: str
    inputs: str
    """sha256 of what was resolved (stack pins, requirements): a lock whose inputs differ is stale."""
    toolkit: tuple[LockedFile, ...] = ()
    components: dict[str, LockedComponent] = {}


def lock_bytes(lock: Lock) -> bytes:
    """Return the one spelling of a lock: JSON, keys sorted, indent 1, a newline at the end."""
    plain = msgspec.json.encode(lock, order="sorted")
    return msgspec.json.format(plain, indent=1) + b"\n"
