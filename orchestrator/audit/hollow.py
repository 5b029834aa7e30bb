"""Kernels that do no work on a device although their container holds code for it.

A guard such as `#if __CUDA_ARCH__ == 900` leaves a kernel for all other arches that ends at once, or
prints and stops. That is right when another variant serves the device, as in stock torch, and a fault
when none does, as in FlashAttention 3 built for another chip. Which it is, only names can tell: see
`names.family`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.audit.coverage import choose, loadable
from orchestrator.audit.facts import Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.names import family, majors, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.audit.facts import Code, Container, FileFacts, Image, Kernel
    from orchestrator.model.archvalues import Device

_BY_DESIGN = frozenset(("EmptyKernel", "MarlinDefault"))
"""CUB launches the first to learn for which arch its caller is compiled; Marlin never launches the second."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One container, seen from a device."""

    box: Container
    image: Image
    """The one that runs there."""
    chosen: Code
    """What is known of it; of PTX, what SASS made from the same PTX shows."""
    elsewhere: frozenset[str]
    """Kernels that do work in another of its images."""
    everywhere: bool
    """Whether images for several majors are there, and no kernel does any work in any: it is meant so."""

    @property
    def idle(self) -> tuple[Kernel, ...]:
        """Kernels that do no work on the device, but not by design."""
        return tuple(
            kernel
            for kernel in self.chosen.kernels
            if kernel.hollow and family(kernel.name).rpartition("::")[2] not in _BY_DESIGN
        )

    @property
    def all_idle(self) -> bool:
        """Whether none of its kernels does any work on the device."""
        return bool(self.idle) and all(kernel.hollow for kernel in self.chosen.kernels)


@dataclass(frozen=True, slots=True)
class Hollow:
    """What does no work on a device, in one module."""

    kernels: int = 0
    """Kernels that were looked at."""
    guarded: tuple[Kernel, ...] = ()
    """Without work on this device, but another variant serves it."""
    units: tuple[Unit, ...] = ()
    """Containers in which no kernel does any work on this device, but variants elsewhere do."""
    jit_units: tuple[Unit, ...] = ()
    """Containers that run by JIT only, in which some kernels do no work on this device."""
    faults: tuple[Kernel, ...] = ()
    """Without work on this device, and no variant of it does any in the whole module."""
    fault_units: tuple[Unit, ...] = ()
    """Containers with such a fault."""
    excused: tuple[Kernel, ...] = ()
    """Such faults that an exception of the policy covers."""
    excused_units: tuple[Unit, ...] = ()
    """Containers all of whose faults are excused."""


def find_hollow(facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None = None) -> Hollow:
    """Find what does no work on `device` in a file whose images were unpacked."""
    units = list(_units(facts, device, ptx_isa))
    working = {kernel.name for unit in units for kernel in unit.chosen.kernels if not kernel.hollow}
    families = set(map(family, working))
    # when kernels here are made for the device by name, those of other arches are rightly guarded
    named = any(device.major in majors(name) for name in working)

    def served(kernel: Kernel, unit: Unit) -> bool:
        if family(kernel.name) in families:
            return True
        told = majors(kernel.name)
        return named and (kernel.name in unit.elsewhere or (bool(told) and device.major not in told))

    guarded: list[Kernel] = []
    faults: list[Kernel] = []
    idle: list[Unit] = []
    faulty: list[Unit] = []
    by_jit: list[Unit] = []
    for unit in units:
        all_idle = unit.all_idle
        lost = [kernel for kernel in unit.idle if all_idle or kernel.name in unit.elsewhere]
        bad = [] if all_idle and unit.everywhere else [kernel for kernel in lost if not served(kernel, unit)]
        faults += bad
        guarded += [kernel for kernel in lost if kernel not in bad]
        if bad:
            faulty.append(unit)
        elif all_idle:
            idle.append(unit)
        elif unit.idle and unit.image.kind is Kind.PTX:
            by_jit.append(unit)
    kernels = sum(len(unit.chosen.kernels) for unit in units)
    return Hollow(
        kernels,
        guarded=tuple(guarded),
        units=tuple(idle),
        jit_units=tuple(by_jit),
        faults=tuple(faults),
        fault_units=tuple(faulty),
    )


def _units(facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None) -> Iterator[Unit]:
    for box in loadable(facts):
        index = choose(box, device, ptx_isa)
        if index is None or not box.codes:
            continue
        image = box.images[index]
        chosen = box.codes[index]
        if image.kind is Kind.PTX:
            # PTX shows names only; SASS made from the same PTX shows what it comes to
            twin = next(
                (
                    code
                    for other, code in zip(box.images, box.codes, strict=True)
                    if other.kind is Kind.SASS and (other.sm, other.suffix) == (image.sm, image.suffix)
                ),
                None,
            )
            chosen = twin or chosen
        if chosen is None:
            continue
        sass = [
            (other, code)
            for other, code in zip(box.images, box.codes, strict=True)
            if other.kind is Kind.SASS and code is not None
        ]
        elsewhere = frozenset(
            kernel.name
            for _, code in sass
            if code is not chosen
            for kernel in code.kernels
            if not kernel.hollow
        )
        everywhere = len({other.arch.major for other, _ in sass}) > 1 and not elsewhere
        yield Unit(box, image, chosen, elsewhere, everywhere)


def findings(hollow: Hollow, device: Device) -> Iterator[Finding]:
    """Yield what a person should know."""
    if hollow.faults:
        text = (
            f"{_many(len(hollow.faults), 'kernel')} in {_many(len(hollow.fault_units), 'container')} "
            f"{_do(hollow.faults)} on {device}, and no variant of {_them(hollow.faults)} does: "
            f"{_named(hollow.faults)}"
        )
        yield Finding("error", "hollow", text)
    for everywhere in (False, True):
        units = [unit for unit in hollow.units if unit.everywhere is everywhere]
        if units:
            where = (
                "any arch that they were built for" if everywhere else f"{device}, which leave it to others"
            )
            text = f"{_holding(units)} only kernels without work on {where}: {_named(_idle(units))}"
            yield Finding("warning", "hollow-units", text)
    if hollow.jit_units:
        kernels = _idle(hollow.jit_units)
        ptx = ", ".join(sorted({unit.image.name for unit in hollow.jit_units}))
        total = sum(len(unit.chosen.kernels) for unit in hollow.jit_units)
        text = (
            f"{_running(hollow.jit_units)} on {device} by JIT of {ptx} only, and {len(kernels):,} of "
            f"{total:,} kernels in {_those(hollow.jit_units)} {_do(kernels)}: {_named(kernels)}"
        )
        yield Finding("warning", "hollow-jit", text)
    if hollow.guarded:
        text = (
            f"{len(hollow.guarded):,} of {hollow.kernels:,} kernels {_do(hollow.guarded)} on {device}; "
            f"variants of them serve it"
        )
        yield Finding("info", "guarded", text)


def _do(kernels: tuple[Kernel, ...]) -> str:
    traps = sum(kernel.hollow == "trap" for kernel in kernels)
    if traps == len(kernels):
        return "only stop" if traps > 1 else "only stops"
    return "do nothing or only stop" if traps else ("do nothing" if len(kernels) > 1 else "does nothing")


def _idle(units: Sequence[Unit]) -> tuple[Kernel, ...]:
    return tuple(kernel for unit in units for kernel in unit.idle)


def _holding(units: Sequence[Unit]) -> str:
    return f"{_many(len(units), 'container')} {'holds' if len(units) == 1 else 'hold'}"


def _running(units: Sequence[Unit]) -> str:
    return f"{_many(len(units), 'container')} {'runs' if len(units) == 1 else 'run'}"


def _those(units: Sequence[Unit]) -> str:
    return "it" if len(units) == 1 else "them"


def _them(kernels: tuple[Kernel, ...]) -> str:
    return "them" if len(kernels) > 1 else "it"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _named(kernels: tuple[Kernel, ...]) -> str:
    names = list(dict.fromkeys(short(kernel.name, 120) for kernel in kernels))
    more = f", and {len(names) - 2:,} more" if len(names) > 2 else ""  # noqa: PLR2004 - two are shown
    return ", ".join(names[:2]) + more
