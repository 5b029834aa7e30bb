"""A recipe: how one component is built. Data, no code.

The structs are the format: field names are the YAML's, types come from here, and the JSON schema is
generated from them. `model.reader` turns a file into these values.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "sparkbuild.recipe/1"

Expectation = Literal["native", "jit", "host", "not-applicable"]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition; all fields that are given must hold."""

    version: str | None = None
    """PEP 440 specifiers for the component's version, such as `>=0.33,<0.34`."""
    arch: tuple[str, ...] = ()
    """Holds when one of these is among the effective arches. One string or a list in YAML."""
    platform: str | None = None
    """`linux-x86_64` or `linux-aarch64`."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One source tree. Exactly one of `sdist`, `git`, `archive`, `local` says where it comes from."""

    sdist: str | None = None
    """Distribution name on the package index; the version is the stack's."""
    git: str | None = None
    """Public address of a repository; the commit is the stack's."""
    archive: str | None = None
    """Address of a tarball or zip; `{version}` stands for the stack's version."""
    local: str | None = None
    """A folder, relative to the recipe file."""
    submodules: bool = True
    """git only: fetch all submodules too, each verified through its gitlink."""
    into: str | None = None
    """Where the tree goes, relative to the main source; otherwise it lies beside it."""
    env: str | None = None
    """Environment variable that tells the build the tree's absolute path."""
    cmake: str | None = None
    """CMake variable that tells it: `-D<name>=<path>` is added to CMAKE_ARGS."""
    when: When | None = None


class PatchRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One patch of `patches/<recipe>/`, by its name without `.patch`. A plain string in YAML is `name`."""

    name: str
    source: str = "main"
    when: When | None = None


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Other recipes: `build` ones lie in the build environment, `run` ones are needed to use the wheel."""

    build: tuple[str, ...] = ()
    run: tuple[str, ...] = ()


class ArchUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the component is told what to compile for."""

    env: dict[str, str] = {}
    """Variable -> dialect of the arch module (`nvcc`, `torch-cmake`, `torch-extension`, `cmake`, ...)."""


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is added to `build` when a condition holds."""

    when: When
    requires: tuple[str, ...] = ()
    env: dict[str, str] = {}
    config_settings: dict[str, str] = {}
    commands: tuple[tuple[str, ...], ...] = ()


class UnitException(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sources of device code that may hold nothing for the devices to be served."""

    source: str
    """Glob on the end of a source's path, such as `quantization/marlin/*.cu`: `*` is any text."""
    reason: str
    """Why they are compiled nevertheless."""
    when: When | None = None


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How wheels come out of the sources."""

    backend: Literal["pep517", "commands"] = "pep517"
    """`pep517`: the project's own hooks, without isolation. `commands`: the listed ones only."""
    directory: str = "."
    """Where the project lies inside the main source."""
    requires: tuple[str, ...] = ()
    """Build requirements, PEP 508; the lock holds the exact files."""
    env: dict[str, str] = {}
    config_settings: dict[str, str] = {}
    commands: tuple[tuple[str, ...], ...] = ()
    """Argument lists run in `directory` first; `{python}` and `{out}` stand for their paths."""
    outputs: tuple[str, ...] = ("*.whl",)
    """Globs, relative to the output folder (`{out}`), of what the step yields."""
    memory_per_unit: int = 2 * 2**30
    """Bytes that one compiler call may take; `4 GiB` in YAML."""
    elsewhere: tuple[UnitException, ...] = ()
    """Device code for other GPUs than those served; what is not named here stops the build."""
    variants: tuple[Variant, ...] = ()


class KernelException(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Kernels that may fall short of what is expected of their module."""

    kernels: str
    """Glob on a kernel's whole name, demangled or mangled: `*` is any text."""
    reason: str
    """Why that is right; it is shown with the audit."""
    when: When | None = None


class ModulePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What files that match must be, for the requested arch."""

    match: str
    """Glob on the path inside the wheel."""
    expect: Expectation
    reason: str | None = None
    exceptions: tuple[KernelException, ...] = msgspec.field(default=(), name="except")
    """`except` in YAML. A container is excused when all its kernels fit these."""
    when: When | None = None


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One component."""

    schema: Literal["sparkbuild.recipe/1"]
    name: str
    summary: str
    homepage: str | None = None
    distribution: str | None = None
    """Name of the wheel where it differs from the recipe's (`torch` for pytorch)."""
    sources: dict[str, Source] = {}
    patches: tuple[PatchRef, ...] = ()
    needs: Needs = Needs()
    applies: tuple[str, ...] = ()
    """Arches it can be built for; empty: any."""
    instead: str | None = None
    """What to use where it does not apply."""
    arch: ArchUse = ArchUse()
    build: Build | None = None
    """None: the component can only be taken prebuilt."""
    modules: tuple[ModulePolicy, ...] = ()

    @property
    def wheel_name(self) -> str:
        """Distribution name, not normalized."""
        return self.distribution or self.name
