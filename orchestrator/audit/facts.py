"""What was read in a file: images, containers, bare cubins. Facts only, no judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

from orchestrator.model.archvalues import Arch, Suffix

if TYPE_CHECKING:
    from orchestrator.audit.dynamic import Linkage
    from orchestrator.audit.findings import Finding

FileKind = Literal["elf", "archive", "fatbin", "cubin", "blob", "other"]


UNREAD = frozenset(("broken-container", "unread"))
"""Codes of findings that tell of device code which could not be read."""


class Kind(Enum):
    """What an image is. The value is how it is called in reports."""

    SASS = "sass"
    PTX = "ptx"
    LTO = "lto"
    """LTO-IR (`lto_XX`): input of a link, not loadable."""
    LINK_PTX = "link-ptx"
    """PTX for a link by the driver, not loadable by itself."""
    TILE = "tile"
    """CUDA Tile IR; its arch field means nothing."""
    UNKNOWN = "unknown"


_PREFIX = {Kind.SASS: "sm_", Kind.PTX: "compute_", Kind.LTO: "lto_", Kind.LINK_PTX: "compute_"}


@dataclass(frozen=True, slots=True)
class Image:
    """One piece of device code, as its header describes it."""

    kind: Kind
    sm: int
    """Decimal arch number: 121."""
    suffix: Suffix = ""
    isa: tuple[int, int] | None = None
    """PTX ISA version of a PTX image."""
    linkable: bool = False
    """It says of itself that it must be linked first (ELF type REL, or PTX with --compile-only)."""
    raw_kind: int = 0
    """The kind field of the fatbin entry; 0 for a bare cubin."""

    @property
    def arch(self) -> Arch:
        """The arch: 121 and `a` are 12.1a."""
        return Arch.from_sm(self.sm, self.suffix)

    @property
    def name(self) -> str:
        """`sm_121a`, `compute_90`, `lto_120f`, `tile` or `kind-0x10`."""
        if self.kind is Kind.TILE:
            return "tile"
        if self.kind is Kind.UNKNOWN:
            return f"kind-{self.raw_kind:#x}"
        return f"{_PREFIX[self.kind]}{self.sm}{self.suffix}"

    @property
    def apart(self) -> str:
        """How it is counted among what never is coverage: `sass:90a`, `lto:120f`, `tile`."""
        if self.kind in (Kind.TILE, Kind.UNKNOWN):
            return self.name
        return f"{self.kind.value}:{self.sm}{self.suffix}"


Hollow = Literal["empty", "trap"]
"""`empty`: nothing but moves, branches and the end. `trap`: also stops, or prints and stops."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A `__global__` function of an image."""

    name: str
    """Mangled."""
    hollow: Hollow | None = None
    """What its instructions come to when they do no work; None for all others, and when nothing is known."""
    code: bytes = field(default=b"", repr=False, compare=False)
    """The instructions of one that does no work, for a disassembler; empty for all others."""


@dataclass(frozen=True, slots=True)
class Code:
    """What lies inside an image. Only read when asked for."""

    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """One fatbin."""

    offset: int
    """Bytes from the start of the file."""
    size: int
    """Bytes, header included."""
    images: tuple[Image, ...]
    codes: tuple[Code | None, ...] = ()
    """One an image when these were read; None where one could not be."""
    section: str | None = None
    """Name of the ELF section that holds it; None when there is no table of sections."""

    @property
    def relocatable(self) -> bool:
        """Whether the runtime cannot load it: it is input of a device link.

        `nvcc -dc` puts these into the section `__nv_relfatbin`. Where no section tells, the images do.
        """
        if self.section == "__nv_relfatbin":
            return True
        return self.section != ".nv_fatbin" and any(image.linkable for image in self.images)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What one file holds. Files of kind `other` hold nothing that could be device code."""

    path: str
    kind: FileKind
    containers: tuple[Container, ...] = ()
    cubins: tuple[Image, ...] = ()
    """Cubins outside any fatbin: the file itself, or embedded in it."""
    cubin_codes: tuple[Code | None, ...] = ()
    """One a cubin when these were read."""
    findings: tuple[Finding, ...] = ()
    machine: int = 0
    """`e_machine` of an ELF for hosts; 0 of all else."""
    linkage: Linkage | None = None
    """What a library or program for the host says to the dynamic linker."""

    @property
    def has_device_code(self) -> bool:
        """Whether anything in it is meant for a GPU: loadable or not, readable or not."""
        return bool(self.containers or self.cubins) or self.unread

    @property
    def unread(self) -> bool:
        """Whether it holds device code that could not be read: then it is never `native`, nor `host`."""
        return any(finding.code in UNREAD for finding in self.findings)
