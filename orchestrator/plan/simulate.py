"""How a run goes if the estimates hold: for forecasts, for better priorities, and to compare policies."""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.plan.schedule import inner_needs, pick, priorities, remaining

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.plan.schedule import Limits, Priorities, Work, Works

Policy = Literal["urgent", "fifo", "barrier"]
"""`urgent`: ours. `fifo`: ready-driven, what was ready first starts first (spack 1.2). `barrier`: rounds of
all that is ready, the next one when the last of a round is done (fromager 0.101)."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each work starts and ends, in seconds from the beginning of the run."""

    starts: Mapping[str, float]
    ends: Mapping[str, float]

    @property
    def makespan(self) -> float:
        """Seconds until all is done."""
        return max(self.ends.values(), default=0.0)


def lower_bound(works: Works, limits: Limits) -> float:
    """Return seconds that no schedule can beat: the longest path, or all that is held, spread evenly.

    Raises:
        CycleError: works need each other.
    """
    held = [(work.seconds, *limits.held(work)) for work in works.values()]
    by_cpus = sum(seconds * cpus for seconds, cpus, _ in held) / limits.cpus
    by_memory = sum(seconds * memory for seconds, _, memory in held) / max(limits.memory, 1)
    return max(by_cpus, by_memory, *priorities(works).values(), 0.0)


def simulate(
    works: Works,
    limits: Limits,
    policy: Policy = "urgent",
    *,
    urgency: Priorities | None = None,
    actual: Mapping[str, float] | None = None,
) -> Schedule:
    """Return how a run goes in which nothing fails.

    Args:
        works: all there is to do.
        limits: what may be held together.
        policy: who decides what starts.
        urgency: priorities for `urgent`; plain critical paths where none are given.
        actual: seconds that works really take, where the policy knows only wrong estimates.

    Raises:
        CycleError: works need each other.
    """
    rank: Priorities
    if policy == "urgent":
        rank = priorities(works) if urgency is None else urgency
    else:
        priorities(works)  # refuses circles
        rank = {}
    return _Run(works, limits, policy, rank, actual or {}).finish()


class _Run:
    """The state of one simulated run: a clock, what is ready, what runs."""

    def __init__(
        self, works: Works, limits: Limits, policy: Policy, rank: Priorities, actual: Mapping[str, float]
    ) -> None:
        self.works, self.limits, self.policy, self.rank, self.actual = works, limits, policy, rank, actual
        self.now = 0.0
        self.missing: dict[str, int] = {}
        self.dependents: dict[str, list[str]] = {name: [] for name in works}
        self.ready: list[tuple[float, str, Work]] = []
        self.next_round: list[str] = []
        self.running: list[tuple[float, str, float]] = []
        """(real end, name, start), as a heap."""
        self.starts: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        for name, needs in inner_needs(works).items():
            self.missing[name] = len(needs)
            for need in needs:
                self.dependents[need].append(name)
            if not needs:
                self._queue(name)

    def finish(self) -> Schedule:
        """Let the clock run until all is done."""
        while True:
            if self.ready:
                self._start()
            if not self.running:
                return Schedule(self.starts, self.ends)
            self.now = self.running[0][0]
            while self.running and self.running[0][0] <= self.now:
                self._end(heapq.heappop(self.running)[1])
            if not self.running and not self.ready:
                waiting, self.next_round = self.next_round, []
                for name in waiting:
                    self._queue(name)

    def _queue(self, name: str) -> None:
        """Put a work among the ready ones, in the order in which the policy looks at them."""
        urgency = -self.rank[name] if self.policy == "urgent" else self.now
        insort(self.ready, (urgency, name, self.works[name]))

    def _start(self) -> None:
        busy = [
            (remaining(self.works[name].seconds, self.now - start), self.works[name])
            for _, name, start in self.running
        ]
        chosen = pick((work for _, _, work in self.ready), busy, self.limits, reserve=self.policy == "urgent")
        for work in chosen:
            self.starts[work.name] = self.now
            end = self.now + self.actual.get(work.name, work.seconds)
            heapq.heappush(self.running, (end, work.name, self.now))
        if chosen:
            names = {work.name for work in chosen}
            self.ready = [item for item in self.ready if item[1] not in names]

    def _end(self, name: str) -> None:
        self.ends[name] = self.now
        for dependent in self.dependents[name]:
            self.missing[dependent] -= 1
            if self.missing[dependent] == 0:
                if self.policy == "barrier":
                    self.next_round.append(dependent)
                else:
                    self._queue(dependent)
