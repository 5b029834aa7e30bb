"""Which step starts next: a pure function of the graph, the estimates, the limits and what runs.

Ready-driven: a step can start as soon as all that it needs is done; nothing waits for the rest of a round.
Most urgent first: urgent is what has the longest way to the end (`priorities`, or the better ones of
`orchestrator.plan.improve`). A step that is too big for what is free gets a reservation: less urgent ones
fill the gap only if, by the estimates, they do not delay it (EASY backfilling, Lifka 1995). So a step that
wants the whole machine does not starve behind a stream of small ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from orchestrator.plan.graph import build_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

UNKNOWN_SECONDS = 600.0
"""How long a step is thought to take that was never seen and whose recipe says nothing."""
_OVERRUN = 0.1
"""A step past its estimate is thought to take this share of its time so far again."""


@dataclass(frozen=True, slots=True)
class Work:
    """One step, as the schedule sees it."""

    name: str
    needs: tuple[str, ...] = ()
    """What must be done before; a name that is not among the works is there already."""
    seconds: float = UNKNOWN_SECONDS
    """Estimate of its duration; may be wrong."""
    cpus: int = 1
    """CPU slots that it holds while it runs."""
    memory: int = 0
    """Bytes that it holds while it runs."""

    def __post_init__(self) -> None:
        if not (0 <= self.seconds < math.inf and self.cpus >= 1 and self.memory >= 0):
            raise ValueError(f"{self.name}: {self.seconds} s, {self.cpus} CPUs, {self.memory} bytes")


@dataclass(frozen=True, slots=True)
class Running:
    """A step that runs, and how many seconds it is thought to go on (see `remaining`)."""

    name: str
    left: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What all running steps may hold together: CPU slots, at least one, and bytes of memory."""

    cpus: int
    memory: int

    def __post_init__(self) -> None:
        if self.cpus < 1 or self.memory < 0:
            raise ValueError(f"no machine has {self.cpus} CPUs and {self.memory} bytes")

    def held(self, work: Work) -> tuple[int, int]:
        """Return (CPUs, bytes) that a work holds; one larger than the limits holds all, so it runs alone."""
        if work.cpus > self.cpus or work.memory > self.memory:
            return self.cpus, self.memory
        return work.cpus, work.memory


Works = Mapping[str, Work]
"""Name -> work; all that a run has to do, done or not."""
Priorities = Mapping[str, float]
"""Name -> seconds from its start to the end of everything: the larger, the more urgent."""


def remaining(seconds: float, elapsed: float) -> float:
    """Return how many seconds a running step is thought to go on; never 0, however wrong the estimate was."""
    return max(seconds - elapsed, elapsed * _OVERRUN)


def inner_needs(works: Works) -> dict[str, tuple[str, ...]]:
    """Return the graph of the works among themselves, without what is there already."""
    return {
        name: tuple(dict.fromkeys(need for need in work.needs if need in works))
        for name, work in works.items()
    }


def priorities(works: Works) -> dict[str, float]:
    """Return for each work the longest path from its start to the end, in seconds (its upward rank).

    Raises:
        CycleError: works need each other.
    """
    graph = inner_needs(works)
    after = dict.fromkeys(works, 0.0)
    for name in reversed(build_order(graph)):
        after[name] += works[name].seconds
        for need in graph[name]:
            after[need] = max(after[need], after[name])
    return after


def start_next(
    works: Works,
    running: Collection[Running],
    limits: Limits,
    *,
    done: Collection[str],
    failed: Collection[str] = (),
    urgency: Priorities | None = None,
) -> tuple[str, ...]:
    """Return what to start now, most urgent first; empty when it is better, or necessary, to wait.

    Held resources stay within the limits, except that a work larger than the limits runs, alone. When
    nothing runs and something is ready, something starts. What needs a failed work, however far, never does.

    Args:
        works: the whole run.
        running: what runs now. May hold more than `limits`, when those have shrunk.
        limits: what may be held together.
        done: works that succeeded.
        failed: works that failed, or that nobody wants any more.
        urgency: priorities, made once for a run; plain critical paths where none are given. Equals go by
            name.
    """
    urgent = priorities(works) if urgency is None else urgency
    over = {*done, *failed, *(item.name for item in running)}
    finished = frozenset(done)
    ready = [
        work
        for name, work in works.items()
        if name not in over and all(need in finished or need not in works for need in work.needs)
    ]
    ready.sort(key=lambda work: (-urgent[work.name], work.name))
    busy = [(item.left, works[item.name]) for item in running]
    return tuple(work.name for work in pick(ready, busy, limits))


def pick(
    ready: Iterable[Work], running: Sequence[tuple[float, Work]], limits: Limits, *, reserve: bool = True
) -> list[Work]:
    """Return what of `ready` (most urgent first) starts now beside `running` (seconds left, work).

    Without `reserve` all that fits starts, and big works may starve: that is how others do it.
    """
    cpus, memory = limits.cpus, limits.memory
    busy: list[tuple[float, int, int]] = []
    for left, work in running:
        held = limits.held(work)
        busy.append((left, *held))
        cpus -= held[0]
        memory -= held[1]
    chosen: list[Work] = []
    gap: _Gap | None = None
    for work in ready:
        if cpus < 1:
            break
        held = limits.held(work)
        if held[0] > cpus or held[1] > memory:
            if reserve and gap is None:
                gap = _gap(held, busy, cpus, memory)
            continue
        if gap is not None and not gap.takes(work.seconds, *held):
            continue
        chosen.append(work)
        busy.append((work.seconds, *held))
        cpus -= held[0]
        memory -= held[1]
    return chosen


@dataclass(slots=True)
class _Gap:
    """The time until the reserved work can start, and what is left free beside it from then on."""

    seconds: float
    cpus: int
    memory: int

    def takes(self, seconds: float, cpus: int, memory: int) -> bool:
        """Tell whether a work that starts now does not delay the reserved one; if so, count it in."""
        if seconds <= self.seconds:
            return True
        if cpus > self.cpus or memory > self.memory:
            return False
        self.cpus -= cpus
        self.memory -= memory
        return True


def _gap(held: tuple[int, int], busy: Iterable[tuple[float, int, int]], cpus: int, memory: int) -> _Gap:
    """Return when a work that does not fit now can start, if all goes by the estimates."""
    seconds = 0.0
    for left, its_cpus, its_memory in sorted(busy, key=itemgetter(0)):
        fits = held[0] <= cpus and held[1] <= memory
        if fits and left > seconds:
            break
        seconds = left
        cpus += its_cpus
        memory += its_memory
    return _Gap(seconds, cpus - held[0], memory - held[1])
