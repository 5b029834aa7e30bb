"""A recipe: how one component is built. Data, no code.

The structs are the format: field names are the YAML's, types come from here, and the JSON schema is
generated from them. `model.reader` turns a file into these values.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "sparkbuild.recipe/1"

Expectation = Literal["native", "jit", "host", "not-applicable"]
SourceKind = Literal["sdist", "git", "archive", "local"]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition; all fields that are given must hold."""

    version: str | None = None
    """PEP 440 specifiers for the component's version, such as `>=0.33,<0.34`."""
    arch: tuple[str, ...] = ()
    """Holds when one of these is among the effective arches. One string or a list in YAML."""
    platform: str | None = None
    """`linux-x86_64` or `linux-aarch64`."""
    source: SourceKind | None = None
    """Kind of the main source, since a stack may name another one than the recipe."""


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


class ArchLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the entries of one major must be; a request that breaks it is refused before anything runs."""

    major: int
    """Such as 12: every entry 12.x that reaches the component."""
    suffixes: tuple[Literal["a", "f", "none"], ...] = ()
    """Suffixes that an entry may have; `none` is an arch without one. Empty: any."""
    at_most: int | None = None
    """Number of such entries in one request; None: any."""
    reason: str
    """What goes wrong otherwise."""
    instead: str
    """What to ask for."""


class ArchUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the component is told what to compile for."""

    env: dict[str, str] = {}
    """Variable -> dialect of the arch module (`nvcc`, `torch-cmake`, `torch-extension`, `cmake`, ...)."""
    limits: tuple[ArchLimit, ...] = ()


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is added to `build` when a condition holds."""

    when: When
    requires: tuple[str, ...] = ()
    env: dict[str, str] = {}
    config_settings: dict[str, str] = {}
    commands: tuple[tuple[str, ...], ...] = ()
    estimate: BuildEstimate | None = None
    """Takes the place of that of `build`."""


class UnitException(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sources of device code that may hold nothing for the devices to be served."""

    source: str
    """Glob on the end of a source's path, such as `quantization/marlin/*.cu`: `*` is any text."""
    reason: str
    """Why they are compiled nevertheless."""
    when: When | None = None


class BuildEstimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a clean build is thought to take, until one has been seen here. Reaches no key."""

    cpu: float | None = None
    """Seconds of CPU time, of all processes together, nothing from a compiler cache; `9h` in YAML."""
    disk: int | None = None
    """Bytes of the build tree and the wheels; `12 GiB` in YAML."""


class PackedWheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A wheel that is packed from files, where no build backend makes one.

    `{sm}` stands for the effective arches, such as `sm121a` or `sm90a_sm121a`; `{version}` for the wheel's
    version with our local part; `{platform}` for `linux_aarch64` and such; `{info}` for its dist-info folder.
    """

    distribution: str
    """Its name; may hold `{sm}`."""
    summary: str
    license: str | None = None
    """SPDX expression. Files that go to `{info}/licenses` are named in the metadata."""
    tag: str = "py3-none-any"
    """Its wheel tag; may hold `{platform}`."""
    python: str | None = None
    """PEP 440 specifiers of the Python that it needs."""
    files: dict[str, str] = {}
    """Glob that begins with `{out}/` or `{src}/` -> folder of the wheel. Below it a file keeps the part of
    its path that follows the last folder which the glob spells out."""
    texts: dict[str, str] = {}
    """File of the wheel -> file of ours, in the folder beside the recipe that is called like it."""
    entry_points: dict[str, dict[str, str]] = {}
    """Group -> name -> object."""
    requires: tuple[str, ...] = ()
    """PEP 508; may hold `{sm}` and `{version}`."""


class Bundled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A library that the wheel needs and nobody else brings."""

    file: str
    """A path such as `{requires}/nvpl/lib/libnvpl_blas_core.so.0`, or a name such as `libgomp.so.1`: the one
    that the host compiler links."""
    into: str
    """Folder inside the wheel."""
    when: When | None = None


class RpathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where libraries and programs look for the libraries that they need."""

    match: str
    """Glob on the path inside the wheel. Of several that match, the first holds."""
    folders: tuple[str, ...]
    """Each begins with `$ORIGIN`, the folder of the file itself."""


class Repair(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is done to a wheel that a build left, so that it works in another place."""

    bundle: tuple[Bundled, ...] = ()
    rpath: tuple[RpathRule, ...] = ()
    """Bundled files count too. A rule that matches nothing is an error."""
    requires: tuple[str, ...] = ()
    """Requirements, PEP 508, that the wheel's metadata states. Each is added unless the project names that
    distribution itself."""


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How wheels come out of the sources."""

    backend: Literal["pep517", "commands"] = "pep517"
    """`pep517`: the project's own hooks, without isolation. `commands`: the listed ones only."""
    directory: str = "."
    """Where the project lies inside the main source."""
    requires: tuple[str, ...] = ()
    """Build requirements, PEP 508; the lock holds the exact files."""
    compiler: dict[str, str] = {}
    """Kind of host compiler -> PEP 440 specifiers: one of those named must fit. Empty: any compiler."""
    env: dict[str, str] = {}
    """Variables of all commands. Values may hold placeholders, see `model.placeholders`."""
    config_settings: dict[str, str] = {}
    """Handed to the backend; placeholders as in `env`."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Argument lists run in `directory` first; placeholders as in `env`."""
    outputs: tuple[str, ...] = ("*.whl",)
    """Globs, relative to the output folder (`{out}`), of what the step yields."""
    memory_per_unit: int = 2 * 2**30
    """Bytes that one compiler call may take; `4 GiB` in YAML."""
    estimate: BuildEstimate = BuildEstimate()
    wheels: tuple[PackedWheel, ...] = ()
    """Wheels that are packed when commands and backend are done."""
    links: dict[str, str] = {}
    """Path below `{work}` -> what it points to, made before anything runs: find modules of CMake want names
    without a version, such as `lib/libnccl.so: "{requires}/nvidia/nccl/lib/libnccl.so.2"`."""
    repair: Repair | None = None
    """None: wheels are served as the build left them, but for their version."""
    elsewhere: tuple[UnitException, ...] = ()
    """Device code for other GPUs than those served; what is not named here stops the build."""
    variants: tuple[Variant, ...] = ()


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What tells within minutes whether a build of hours would come to something."""

    unit: str | None = None
    """Glob on the main source: one representative unit of device code."""
    refuse: tuple[str, ...] = ()
    """Globs on whole lines that the configure step prints; one that fits stops the build."""


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
    required: bool = True
    """Whether the wheel must hold a file that matches."""
    when: When | None = None


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which files a built wheel may hold at all."""

    only: tuple[str, ...]
    """Globs on the path inside the wheel; one that fits none is a fault. `*.dist-info` need not be named."""


class Assembler(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program inside the wheel that turns PTX into machine code while the component is used."""

    file: str
    """Its path inside the wheel. It takes the options of ptxas."""
    lowest: str | None = msgspec.field(default=None, name="from")
    """`from` in YAML: the lowest device that it is used for, such as `10.0`; None: any."""
    below: str | None = None
    """The lowest device that it is no longer used for; None: none."""
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
    probe: Probe | None = None
    modules: tuple[ModulePolicy, ...] = ()
    files: Files | None = None
    """None: any file."""
    assemblers: tuple[Assembler, ...] = ()

    @property
    def wheel_name(self) -> str:
        """Distribution name, not normalized."""
        return self.distribution or self.name
