"""A stack: which version of each recipe, which are taken prebuilt, and the toolkit they share."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "sparkbuild.stack/1"


class Toolkit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The CUDA toolkit that a stack builds with."""

    version: str
    """PEP 440 specifiers for nvcc's version, such as `==13.0.*`."""
    packages: tuple[str, ...]
    """PEP 508 requirements of the wheels that make the pip toolkit."""
    headers: tuple[str, ...] = ()
    """Headers that must be there, relative to `include`."""
    libraries: tuple[str, ...] = ()
    """Unversioned library names that must be there, such as `libcublas.so`."""


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One recipe in a stack."""

    version: str
    prebuilt: bool = False
    """Taken as published instead of built."""
    commits: dict[str, str] = {}
    """Source name -> full commit, for git sources."""


class Stack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One stack file."""

    schema: Literal["sparkbuild.stack/1"]
    name: str
    summary: str
    default: bool = False
    """Used when no --stack is given."""
    toolkit: Toolkit | None = None
    """None: nothing in this stack compiles device code."""
    platforms: tuple[str, ...]
    """Of `linux-x86_64`, `linux-aarch64`: which locks are kept."""
    pythons: tuple[str, ...]
    """CPython versions, such as `3.12`."""
    components: dict[str, Component]
