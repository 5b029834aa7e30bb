"""What a run will take: hours, memory and disk, if the estimates hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.plan.improve import improved_priorities
from orchestrator.plan.schedule import UNKNOWN_SECONDS, Work
from orchestrator.plan.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.plan.schedule import Limits, Works
    from orchestrator.plan.simulate import Schedule
    from orchestrator.plan.steps import Step


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run is thought to take."""

    seconds: float
    peak_bytes: int
    """The most that steps hold at one time; more than the machine's when one step alone wants more."""
    disk_bytes: int


def work_of(step: Step, *, cpus: int, memory: int, seconds: float = UNKNOWN_SECONDS) -> Work:
    """Return the work of a step that builds.

    Args:
        step: where its estimate holds CPU seconds, it is thought to keep `cpus` busy with them.
        cpus: slots that it gets.
        memory: bytes that it is thought to hold, where its peak was never seen.
        seconds: how long it is thought to take, where it was never seen.
    """
    seen = step.estimate
    return Work(
        step.name,
        step.keyed.needs,
        seconds if seen.cpu_s is None else seen.cpu_s / cpus,
        cpus,
        memory if seen.peak_bytes is None else seen.peak_bytes,
    )


def forecast(works: Works, limits: Limits, disk: Mapping[str, int]) -> Forecast:
    """Return what a run of `works` takes on a machine.

    Args:
        works: what is built.
        limits: the machine.
        disk: bytes on disk by name, of works and of whatever else the run brings.

    Raises:
        CycleError: works need each other.
    """
    schedule = simulate(works, limits, urgency=improved_priorities(works, limits))
    return Forecast(schedule.makespan, _peak(works, schedule), sum(disk.values()))


def _peak(works: Works, schedule: Schedule) -> int:
    """Return the most memory held at one time; what ends makes room for what starts at that moment."""
    changes = [(time, -works[name].memory) for name, time in schedule.ends.items()]
    changes += [(time, works[name].memory) for name, time in schedule.starts.items()]
    held = peak = 0
    for _, change in sorted(changes):
        held += change
        peak = max(peak, held)
    return peak
