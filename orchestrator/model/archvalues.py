"""What an arch and a device are, and which device code runs on which device.

Facts: CUDA Programming Guide, "Compute Capabilities" and its table of family-specific targets; Blackwell
Compatibility Guide; `nvcc --list-gpu-code` of CUDA 13.0. Standard library only: the audit imports this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from orchestrator.errors import ArchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Suffix = Literal["", "a", "f"]
"""None; `a` one chip only; `f` the family of one major version."""


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A GPU by its compute capability; `str` is `12.1`."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Device:
        """Read a compute capability as `nvidia-smi` prints it, such as `12.1`.

        Raises:
            ArchError: it has another form, or no such device is known.
        """
        found = re.fullmatch(r"\s*([1-9][0-9]?)\.([0-9])\s*", text, re.ASCII)
        if found is None:
            raise ArchError(
                f"{text[:40]!r} is no device",
                hint="a device is its compute capability, without a suffix, such as 12.1 for a DGX Spark",
            )
        device = cls(int(found[1]), int(found[2]))
        if device not in DEVICES and device not in DROPPED_DEVICES:
            known = ", ".join(map(str, DEVICES))
            raise ArchError(f"there is no device of compute capability {device}", hint=f"known: {known}")
        return device

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """A target as NVIDIA writes it; `str` is `12.1a`. Any numbers can be held, known or not."""

    major: int
    minor: int
    suffix: Suffix = ""

    @classmethod
    def from_sm(cls, sm: int, suffix: Suffix = "") -> Arch:
        """Return the arch of a number as binaries hold it, such as 121."""
        return cls(*divmod(sm, 10), suffix)

    @property
    def sm(self) -> int:
        """The number in `sm_121a`: 121."""
        return self.major * 10 + self.minor

    @property
    def number(self) -> str:
        """Number and suffix: `121a`."""
        return f"{self.sm}{self.suffix}"

    @property
    def name(self) -> str:
        """Name of its machine code: `sm_121a`."""
        return f"sm_{self.number}"

    @property
    def ptx_name(self) -> str:
        """Name of its PTX: `compute_121a`."""
        return f"compute_{self.number}"

    @property
    def device(self) -> Device:
        """The device that it names."""
        return Device(self.major, self.minor)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One arch of a request, and what is to be compiled for it: at least one of SASS and PTX."""

    arch: Arch
    sass: bool = True
    ptx: bool = False

    def __str__(self) -> str:
        """Return the normal form: `12.1a`, `12.1a+PTX`, or `compute_121a` for PTX alone."""
        if not self.sass:
            return self.arch.ptx_name
        return f"{self.arch}+PTX" if self.ptx else str(self.arch)


def _known() -> tuple[Arch, ...]:
    plain = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
    family = (100, 103, 110, 120, 121)
    return tuple(
        sorted(
            [Arch.from_sm(sm) for sm in plain]
            + [Arch.from_sm(sm, "a") for sm in (90, *family)]
            + [Arch.from_sm(sm, "f") for sm in family]
        )
    )


ARCHES: Final = _known()
"""Every arch that nvcc 13.0 compiles for, sorted."""

DEVICES: Final = tuple(arch.device for arch in ARCHES if not arch.suffix)
"""Every device that CUDA 13.0 serves, sorted."""

DROPPED_DEVICES: Final = tuple(
    Arch.from_sm(sm).device for sm in (20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72)
)
"""Devices that older toolkits served and CUDA 13 dropped."""

FAMILIES: Final[Mapping[int, Collection[Device]]] = {101: ()}
"""SM numbers whose machine code, plain or `f`, does not follow "same major, same or higher minor", and the
other devices that it does load on.

CUDA 12's sm_101 became sm_110 in CUDA 13: it belongs to no other device of major 10.
"""


def in_family(arch: Arch, device: Device, *, families: Mapping[int, Collection[Device]] = FAMILIES) -> bool:
    """Say whether `device` is in the family that starts at `arch`, whatever the suffix of `arch`."""
    if arch.device == device:
        return True
    if arch.sm in families:
        return device in families[arch.sm]
    return arch.major == device.major and arch.minor <= device.minor


def loads_sass(
    arch: Arch, device: Device, *, families: Mapping[int, Collection[Device]] = FAMILIES
) -> Literal["exact", "compatible"] | None:
    """Say how SASS of `arch` loads on `device`: at equal minor, compatibly, or (None) not at all."""
    if arch.device == device:
        return "exact"
    if arch.suffix == "a":
        return None
    return "compatible" if in_family(arch, device, families=families) else None


def jits_ptx(arch: Arch, device: Device, *, families: Mapping[int, Collection[Device]] = FAMILIES) -> bool:
    """Say whether the driver can compile PTX of `arch` for `device`."""
    if arch.suffix == "a":
        return arch.device == device
    if arch.suffix == "f":
        return in_family(arch, device, families=families)
    return arch.device <= device


def image_names(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return what nvcc makes of these entries, sorted: `sm_121a` for SASS, `compute_121a` for PTX."""
    names = {entry.arch.name for entry in entries if entry.sass}
    return tuple(sorted(names | {entry.arch.ptx_name for entry in entries if entry.ptx}))


def runs_on(entry: Entry) -> tuple[Device, ...]:
    """Return the known devices that `entry` runs on, by its SASS or by JIT of its PTX."""
    return tuple(
        device
        for device in DEVICES
        if (entry.sass and loads_sass(entry.arch, device)) or (entry.ptx and jits_ptx(entry.arch, device))
    )
