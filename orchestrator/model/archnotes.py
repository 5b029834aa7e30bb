"""What a person should know about an arch list that is well formed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from orchestrator.errors import ArchError
from orchestrator.model.archvalues import ARCHES, Arch, Device, Entry, jits_ptx, loads_sass

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONDITIONAL: Final = {
    9: ("no-wgmma", "wgmma"),
    10: ("no-tcgen05", "tcgen05"),
    11: ("no-tcgen05", "tcgen05"),
    12: ("no-fp4", "block-scaled FP4 MMA"),
}
"""Major -> (note code, the instructions that only arches with a suffix have). Source: the PTX ISA's
target notes of wgmma, tcgen05 and `mma.kind::mxf4nvf4`."""


@dataclass(frozen=True, slots=True)
class ArchNote:
    """A remark on a request; `code` is stable, `text` is for people."""

    level: Literal["info", "warning"]
    code: str
    text: str


def with_suffix(device: Device) -> tuple[Arch, ...]:
    """Return the arches with the full instruction set for `device`: its own, then its widest family."""
    own = Arch(device.major, device.minor, "a")
    wide = [arch for arch in ARCHES if arch.suffix == "f" and loads_sass(arch, device)]
    return tuple(arch for arch in (own, *wide[:1]) if arch in ARCHES)


def best_for(device: Device) -> str:
    """Name what to compile for `device`: `12.1a or 12.0f`, or the plain arch where there is no suffix."""
    return " or ".join(map(str, with_suffix(device))) or str(device)


def advise(entry: Entry, device: Device | None) -> Iterator[ArchNote]:
    """Yield the notes on one entry; `device` is the one to be served, None the one it names."""
    arch, target = entry.arch, device or entry.arch.device
    sass = loads_sass(arch, target) if entry.sass else None
    jit = entry.ptx and jits_ptx(arch, target)
    if not sass and not jit:
        yield ArchNote(
            "warning",
            "other-device",
            f"{entry} does not run on {target}: its compile time serves other devices",
        )
    elif not sass:
        yield ArchNote("warning", "jit-only", f"{entry} has no machine code for {target}, only PTX")
    elif sass == "compatible":
        yield ArchNote("info", "compatible", f"{entry} loads on {target} as compatible code, not exactly")
    if not arch.suffix and arch.major in _CONDITIONAL and (sass or jit):
        code, what = _CONDITIONAL[arch.major]
        yield ArchNote("warning", code, f"plain {arch} has no {what}: use {best_for(target)}")
    if entry.ptx:
        yield ArchNote(
            "warning",
            "ptx",
            f"{entry} holds PTX, which the driver compiles at load time: slow starts, and an error where the"
            " driver is older than the toolkit; some builds, vLLM's among them, drop +PTX",
        )


def check_device(entries: tuple[Entry, ...], device: Device) -> None:
    """Refuse a request that cannot serve `device`.

    Raises:
        ArchError: no entry runs there; or one has the `a` of a sibling chip, which build systems with
            one slot for a family (vLLM's) let win over the right entry.
    """
    for entry in entries:
        arch = entry.arch
        if arch.suffix == "a" and arch.major == device.major and arch.device != device:
            raise ArchError(
                f"{entry} runs on {arch.device} only and never loads on {device}",
                hint=f"for {device} use {best_for(device)}",
            )
    if not any(
        (entry.sass and loads_sass(entry.arch, device)) or (entry.ptx and jits_ptx(entry.arch, device))
        for entry in entries
    ):
        raise ArchError(
            f"nothing in {';'.join(map(str, entries))} runs on {device}", hint=f"use {best_for(device)}"
        )
