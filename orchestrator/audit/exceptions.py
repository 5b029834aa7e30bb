"""What the exceptions of a policy excuse in one module. Kernels that are not known are never excused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestrator.audit.facts import Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.hollow import Hollow
from orchestrator.audit.names import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.audit.facts import Container
    from orchestrator.audit.hollow import Unit
    from orchestrator.audit.policy import Exempt, Expectation


@dataclass(frozen=True, slots=True)
class Excused:
    """What one entry's exceptions do for one module on one device."""

    boxes: frozenset[int] = frozenset()
    """Offsets of the containers that fall short and are excused."""
    unread: int = 0
    """Containers that fall short and whose kernels are not known: no exception can tell."""
    used: frozenset[Exempt] = frozenset()
    """Exceptions that excuse something."""
    findings: tuple[Finding, ...] = ()


def kernels_of(box: Container) -> frozenset[str] | None:
    """Return the kernels of all images of a container; None when any of its images was not read."""
    if not box.codes:
        return None
    found: set[str] = set()
    for image, code in zip(box.images, box.codes, strict=True):
        if code is not None:
            found.update(kernel.name for kernel in code.kernels)
        elif image.kind in (Kind.SASS, Kind.PTX):
            return None
    return frozenset(found)


def exceptions_for(box: Container, expectation: Expectation) -> frozenset[Exempt]:
    """Return the exceptions that excuse a container: each of its kernels fits one. Else nothing."""
    names = kernels_of(box)
    if not names:
        return frozenset()
    found = [exception_for(name, expectation) for name in names]
    return frozenset() if None in found else frozenset(one for one in found if one is not None)


def exception_for(kernel: str, expectation: Expectation) -> Exempt | None:
    """Return the first exception that a kernel's mangled name fits."""
    return next((one for one in expectation.exceptions if fits(one.kernels, kernel)), None)


def excuse(short: Sequence[Container], hollow: Hollow | None, expectation: Expectation) -> Excused:
    """Say what an entry's exceptions excuse.

    Args:
        short: containers that do not run as expected.
        hollow: what does no work; None when that was not looked for.
        expectation: the entry.
    """
    if not expectation.exceptions:
        return Excused()
    boxes: dict[int, frozenset[Exempt]] = {}
    unread = 0
    for box in short:
        if kernels_of(box) is None:
            unread += 1
        elif found := exceptions_for(box, expectation):
            boxes[box.offset] = found
    faults: dict[str, Exempt] = {}
    idle: list[frozenset[Exempt]] = []
    if hollow is not None:
        names = {kernel.name for kernel in hollow.faults}
        faults = {name: one for name in names if (one := exception_for(name, expectation)) is not None}
        idle = [exceptions_for(unit.box, expectation) for unit in (*hollow.units, *hollow.jit_units)]
    return Excused(
        frozenset(boxes),
        unread,
        frozenset().union(faults.values(), *boxes.values(), *idle),
        tuple(_told(expectation, boxes, faults, unread)),
    )


def _told(
    expectation: Expectation,
    boxes: dict[int, frozenset[Exempt]],
    faults: dict[str, Exempt],
    unread: int,
) -> Iterable[Finding]:
    if unread:
        text = (
            f"{_many(unread, 'container')} without machine code cannot be excused: not all of the kernels "
            "could be read"
        )
        yield Finding("warning", "exceptions-unread", text)
    for one in expectation.exceptions:
        counted = [
            _many(many, what)
            for many, what in (
                (sum(one in found for found in boxes.values()), "container"),
                (sum(one == other for other in faults.values()), "idle kernel"),
            )
            if many
        ]
        if counted:
            text = f"kernels {one.kernels!r} excuse {' and '.join(counted)}: {one.reason}"
            yield Finding("info", "excepted", text)


def pardon(hollow: Hollow, expectation: Expectation | None) -> Hollow:
    """Return what is left of a file's hollow kernels when those that the policy excuses are taken out."""
    if expectation is None:
        return hollow
    if expectation.expect == "not-applicable":
        return Hollow(hollow.kernels)
    if not expectation.exceptions:
        return hollow
    left = tuple(kernel for kernel in hollow.faults if exception_for(kernel.name, expectation) is None)
    names = {kernel.name for kernel in left}

    def faulty(unit: Unit) -> bool:
        return any(kernel.name in names for kernel in unit.idle)

    def named(units: Iterable[Unit]) -> tuple[Unit, ...]:
        return tuple(unit for unit in units if not exceptions_for(unit.box, expectation))

    return replace(
        hollow,
        units=named(hollow.units),
        jit_units=named(hollow.jit_units),
        faults=left,
        fault_units=tuple(unit for unit in hollow.fault_units if faulty(unit)),
        excused=tuple(kernel for kernel in hollow.faults if kernel.name not in names),
        excused_units=tuple(unit for unit in hollow.fault_units if not faulty(unit)),
    )


def unused(expectation: Expectation, excused: Iterable[Excused]) -> Iterable[Finding]:
    """Tell of exceptions that excuse nothing anywhere: they would hide a fault that comes later."""
    excused = tuple(excused)
    if any(one.unread for one in excused):
        return
    used = frozenset[object]().union(*(one.used for one in excused))
    for one in expectation.exceptions:
        if one not in used:
            text = f"the exception of {expectation.match!r} for kernels {one.kernels!r} excuses nothing"
            yield Finding("warning", "unused-exception", text)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
