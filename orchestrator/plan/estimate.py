"""What a step is thought to take: what was seen before what its recipe says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.plan.steps import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.model.recipe import Build


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """What the compiler calls of one component took, each compiled once, with nothing from a cache."""

    count: int
    cpu_s: float
    longest_s: float
    """CPU seconds of the longest unit."""
    largest: int
    """Bytes of the largest unit at its peak."""
    typical: int
    """Bytes that one running unit takes on average: each unit weighs as much as it has seconds."""
    total: int
    """Bytes of all units together."""
    whole: bool
    """They are those of one finished build; otherwise whatever was ever compiled, which may be a part."""

    @classmethod
    def of(cls, costs: Iterable[tuple[int, float]], *, whole: bool) -> UnitCosts | None:
        """Return the sum of (bytes, CPU seconds) of each unit; None of no unit."""
        listed = list(costs)
        if not listed:
            return None
        cpu_s = sum(seconds for _, seconds in listed)
        held = sum(memory * seconds for memory, seconds in listed)
        total = sum(memory for memory, _ in listed)
        return cls(
            count=len(listed),
            cpu_s=cpu_s,
            longest_s=max(seconds for _, seconds in listed),
            largest=max(memory for memory, _ in listed),
            typical=round(held / cpu_s) if cpu_s else total // len(listed),
            total=total,
            whole=whole,
        )


def estimated(build: Build, seen: Estimate | None, units: UnitCosts | None) -> Estimate:
    """Return what a step that builds is thought to take.

    CPU time is that of the last finished build, or of its units when these sum up to more: then the compiler
    cache had many of them, and may not have them again. Without a finished build it is what was
    compiled until it failed, or what the recipe says when that is more; None when there is neither. A unit
    that was never compiled is thought to take the recipe's `memory_per_unit`. A build that was finished and
    has no units compiles nothing.

    Disk is what the last build was measured to take, else what the recipe says.

    Args:
        build: the recipe's part.
        seen: of the component's last artifact, whatever its key.
        units: what its compiler calls took.
    """
    measured = seen.disk_bytes if seen is not None else None
    disk = build.estimate.disk if measured is None else measured
    if seen is not None or (units is not None and units.whole):
        last = seen or Estimate()
        if units is None:
            return Estimate(last.cpu_s, last.peak_bytes, disk, basis="seen")
        return Estimate(
            cpu_s=max(last.cpu_s or 0.0, units.cpu_s),
            peak_bytes=max(last.peak_bytes or 0, units.largest),
            disk_bytes=disk,
            units=units.count,
            longest_s=units.longest_s,
            typical_bytes=units.typical,
            total_bytes=units.total,
            basis="seen",
        )
    said, begun = build.estimate.cpu, units.cpu_s if units else None
    trusted = said is not None and said >= (begun or 0)
    return Estimate(
        cpu_s=said if trusted else begun,
        peak_bytes=max(units.largest if units else 0, build.memory_per_unit),
        disk_bytes=disk,
        longest_s=units.longest_s if units else 0.0,
        typical_bytes=units.typical if units else build.memory_per_unit,
        basis="recipe" if trusted else "unfinished" if units else "nothing",
    )
