"""What a run will take: hours, memory and disk, if the estimates hold. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.plan.improve import improved_priorities
from orchestrator.plan.schedule import UNKNOWN_SECONDS, Limits, Work
from orchestrator.plan.simulate import simulate
from orchestrator.report.units import show_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.plan.schedule import Works
    from orchestrator.plan.steps import Basis, Estimate, Plan, Step


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run may use of the machine that it is planned for."""

    cpus: int
    memory: int
    """Bytes that all compilers together may take: all there is, less what is left to everything else."""
    disk: int | None = None
    """Bytes that are free where the state lies; None: not known."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the steps of a plan that build are thought to take."""

    cpus: int
    wall_s: float | None
    """Of the steps of which something is known; None when that is none of them."""
    peak_bytes: int
    """The most that compilers hold at one time; more than the machine's when one alone wants more."""
    disk_bytes: int | None
    """Build trees and wheels, all at one time, without packages to be fetched; None when nobody knows."""
    guessed: tuple[str, ...] = ()
    """Steps whose time is their recipe's figure, since they were never built."""
    unfinished: tuple[str, ...] = ()
    """Steps of which a part was compiled and never all: their time is that part's."""
    unknown: tuple[str, ...] = ()
    """Steps whose time nobody knows; it is not counted."""
    warnings: tuple[str, ...] = ()
    """What the machine lacks, and what to do, a line each."""

    def to_json(self) -> dict[str, Any]:
        """Return it as the plan JSON shows it."""
        return {
            "cpus": self.cpus,
            "wall_s": None if self.wall_s is None else round(self.wall_s, 3),
            "peak_bytes": self.peak_bytes,
            "disk_bytes": self.disk_bytes,
            "guessed": list(self.guessed),
            "unfinished": list(self.unfinished),
            "unknown": list(self.unknown),
            "notes": [{"level": "warning", "text": text} for text in self.warnings],
        }


def works_of(plan: Plan, *, cpus: int, memory: int, unknown_s: float = UNKNOWN_SECONDS) -> dict[str, Work]:
    """Return the steps that build, as the schedule sees them.

    A step is thought to keep all CPUs busy, since it offers more units than there are CPUs and the gate hands
    these out among all steps. But no number of CPUs makes it shorter than its longest unit: then it
    holds as many as it keeps busy on average.

    Its memory is that of the units that run at a time: CPUs times what a running unit takes on average, at
    most the machine's, as the gate sees to that, and at most all its units together; but never less than its
    largest unit, which runs whatever it takes.

    Args:
        plan: what is done.
        cpus: slots of the machine.
        memory: bytes that all compilers together may take.
        unknown_s: how long a step is thought to take of which nothing is known.
    """
    return {step.name: _work(step, cpus, memory, unknown_s) for step in plan.builds}


def _work(step: Step, cpus: int, memory: int, unknown_s: float) -> Work:
    known = step.estimate
    held = _memory(known, cpus, memory)
    if known.cpu_s is None:
        return Work(step.name, step.keyed.needs, unknown_s, cpus, held)
    seconds = max(known.cpu_s / cpus, known.longest_s)
    busy = math.ceil(known.cpu_s / seconds) if seconds else 1
    return Work(step.name, step.keyed.needs, seconds, min(max(busy, 1), cpus), held)


def _memory(known: Estimate, cpus: int, memory: int) -> int:
    together = cpus * (known.typical_bytes or 0)
    if known.total_bytes is not None:
        together = min(together, known.total_bytes)
    return max(known.peak_bytes or 0, min(together, memory))


def forecast(plan: Plan, machine: Machine) -> Forecast | None:
    """Return what a run of the plan takes on a machine; None when nothing is built."""
    if not plan.builds:
        return None
    works = works_of(plan, cpus=machine.cpus, memory=machine.memory, unknown_s=0.0)
    known = any(step.estimate.cpu_s is not None for step in plan.builds)
    wall, peak = _simulated(works, Limits(machine.cpus, machine.memory)) if known else (None, 0)
    disks = [step.estimate.disk_bytes for step in plan.builds if step.estimate.disk_bytes is not None]
    disk = sum(disks) if disks else None
    return Forecast(
        cpus=machine.cpus,
        wall_s=wall,
        peak_bytes=max(peak, *(work.memory for work in works.values())),
        disk_bytes=disk,
        guessed=_on(plan, "recipe"),
        unfinished=_on(plan, "unfinished"),
        unknown=tuple(step.name for step in plan.builds if step.estimate.cpu_s is None),
        warnings=tuple(_warnings(plan, machine, disk)),
    )


def _on(plan: Plan, basis: Basis) -> tuple[str, ...]:
    return tuple(step.name for step in plan.builds if step.estimate.basis == basis)


def _simulated(works: Works, limits: Limits) -> tuple[float, int]:
    """Return the seconds of a run, and the most memory held at one time.

    What ends makes room for what starts at that moment.
    """
    schedule = simulate(works, limits, urgency=improved_priorities(works, limits))
    changes = [(time, -works[name].memory) for name, time in schedule.ends.items()]
    changes += [(time, works[name].memory) for name, time in schedule.starts.items()]
    held = peak = 0
    for _, change in sorted(changes):
        held += change
        peak = max(peak, held)
    return schedule.makespan, peak


def _warnings(plan: Plan, machine: Machine, disk: int | None) -> Iterator[str]:
    for step in plan.builds:
        largest = step.estimate.peak_bytes
        if largest is not None and largest > machine.memory:
            yield (
                f"one compiler call of {step.name} is thought to take {show_bytes(largest)}, and compilers "
                f"can have {show_bytes(machine.memory)} here: it runs alone, and may be killed; "
                "add swap, or build on a larger machine"
            )
    if disk is not None and machine.disk is not None and disk > machine.disk:
        yield (
            f"{show_bytes(machine.disk)} of disk are free where the state lies, and up to {show_bytes(disk)} "
            "may be needed: make room, as with `sparkbuild store gc`, or let SPARKBUILD_HOME name a folder "
            "on a larger disk"
        )
