"""How near schedules come to the best possible: `python bench/schedule.py [KIND...]`, sparkbuild installed.

200 seeded random graphs of 40 steps of each kind. Figures are makespan / lower bound, where the bound is the
longest path or all work spread evenly over the slots, whichever is more. No schedule beats it, and many
graphs allow none that reaches it. Kinds:

- `builds`: like stacks of packages. Each step needs up to 3 earlier ones, and those that many need already
  are the likelier (as torch is); 10 s to 1 h, evenly on a log scale; 4 slots.
- `random`: each pair of steps is bound with a chance of 0.1; 1 min to 1 h, evenly; 4 slots.
- `layers`: 1 to 11 steps a layer, each needs 1 to 3 of the layer before; 1 min to 1 h, evenly; 4 slots. Hard:
  narrow layers leave slots empty whatever one does.
- `memory`: like `builds`, but steps want 1, 2 or 4 of 8 CPUs and 1 to 16 of 24 units of memory. Hard: they do
  not tile.

The issue's limits hold for `builds` and `random`. `urgent` takes plain critical paths, `ours` the improved
ones. In rows with `wrong` the real durations differ from the estimates, lognormally with a sigma of 0.5: in
one case of three by more than a factor of 1.65; the bound is that of the real ones.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from orchestrator.plan.improve import improved_priorities
from orchestrator.plan.schedule import Limits, Work, start_next
from orchestrator.plan.simulate import lower_bound, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.plan.schedule import Works

GRAPHS, STEPS = 200, 40
MEDIAN, NINETY_FIVE = 1.01, 1.06
SEARCH_SECONDS = {STEPS: 0.05, 1000: 1.0}
"""Steps in a graph -> CPU seconds that improving its priorities may take, in the median."""
ROWS = ("ours", "urgent", "fifo", "barrier", "ours, wrong", "urgent, wrong", "fifo, wrong", "barrier, wrong")


def builds(chance: Random, steps: int) -> list[Work]:
    """Return steps like those of a stack."""
    works: list[Work] = []
    weights: list[int] = []
    for number in range(steps):
        drawn = chance.choices(range(number), weights, k=chance.randint(0, 3)) if number else []
        needs = sorted(set(drawn))
        for need in needs:
            weights[need] += 1
        weights.append(1)
        works.append(_work(number, needs, math.exp(chance.uniform(math.log(10), math.log(3600)))))
    return works


def evenly(chance: Random, steps: int) -> list[Work]:
    """Return steps bound by chance, pair by pair."""
    return [
        _work(
            number, [need for need in range(number) if chance.random() < 4 / steps], chance.uniform(60, 3600)
        )
        for number in range(steps)
    ]


def layers(chance: Random, steps: int) -> list[Work]:
    """Return steps in layers."""
    works: list[Work] = []
    before: list[int] = []
    while len(works) < steps:
        layer = list(range(len(works), min(len(works) + chance.randint(1, 11), steps)))
        for number in layer:
            needs = chance.sample(before, min(len(before), chance.randint(1, 3)))
            works.append(_work(number, sorted(needs), chance.uniform(60, 3600)))
        before = layer
    return works


def memory(chance: Random, steps: int) -> list[Work]:
    """Return steps like those of a stack, of which many want several CPUs and much memory."""
    return [
        replace(work, cpus=chance.choice((1, 1, 2, 4)), memory=chance.choice((1, 2, 4, 8, 16)))
        for work in builds(chance, steps)
    ]


def _work(number: int, needs: Sequence[int], seconds: float) -> Work:
    return Work(f"s{number:04d}", tuple(f"s{need:04d}" for need in needs), seconds)


SLOTS = Limits(4, 0)
KINDS: dict[str, tuple[Callable[[Random, int], list[Work]], Limits, bool]] = {
    "builds": (builds, SLOTS, True),
    "random": (evenly, SLOTS, True),
    "layers": (layers, SLOTS, False),
    "memory": (memory, Limits(8, 24), False),
}
"""Name -> how graphs are made, what they run on, whether the limits hold for it."""


def graph(kind: str, seed: int, steps: int = STEPS) -> Works:
    """Return one graph; the same for the same arguments."""
    made = KINDS[kind][0](Random(seed), steps)  # noqa: S311 - chance, not secrets
    return {work.name: work for work in made}


def ratios(works: Works, limits: Limits, seed: int) -> dict[str, float]:
    """Return makespan / lower bound of every row for one graph."""
    ours = improved_priorities(works, limits)
    chance = Random(-1 - seed)  # noqa: S311 - chance, not secrets
    real = {name: work.seconds * math.exp(chance.gauss(0, 0.5)) for name, work in works.items()}
    figures: dict[str, float] = {}
    for word, actual in (("", {}), (", wrong", real)):
        truth = {name: replace(work, seconds=actual.get(name, work.seconds)) for name, work in works.items()}
        bound = lower_bound(truth, limits)
        figures |= {
            f"ours{word}": simulate(works, limits, urgency=ours, actual=actual).makespan / bound,
            f"urgent{word}": simulate(works, limits, actual=actual).makespan / bound,
            f"fifo{word}": simulate(works, limits, "fifo", actual=actual).makespan / bound,
            f"barrier{word}": simulate(works, limits, "barrier", actual=actual).makespan / bound,
        }
    return figures


def compare(kind: str) -> bool:
    """Print the rows of one kind, and return whether ours keeps the limits."""
    _, limits, limited = KINDS[kind]
    all_figures = [ratios(graph(kind, seed), limits, seed) for seed in range(GRAPHS)]
    kept = True
    for row in ROWS:
        figures = sorted(item[row] for item in all_figures)
        median, high = statistics.median(figures), figures[math.ceil(0.95 * len(figures)) - 1]
        line = f"{kind:8} {row:16} {median:7.4f} {high:7.4f} {figures[-1]:7.4f}"
        if row == "ours" and limited:
            kept = median <= MEDIAN and high <= NINETY_FIVE
            line += f"  limits {MEDIAN} {NINETY_FIVE}  {'ok' if kept else 'TOO MUCH'}"
        print(line)
    return kept


def speed(kind: str, steps: int, limit: float) -> bool:
    """Print what priorities and a decision cost in CPU time, and return whether priorities keep the limit."""
    limits = KINDS[kind][1]
    search, decision = [], []
    for seed in range(20 if steps <= STEPS else 3):
        works = graph(kind, seed, steps)
        began = time.process_time()
        urgency = improved_priorities(works, limits)
        searched = time.process_time()
        start_next(works, (), limits, done=(), urgency=urgency)
        decision.append((time.process_time() - searched) * 1000)
        search.append((searched - began) * 1000)
    usual, worst, start = statistics.median(search), max(search), statistics.median(decision)
    kept = usual <= limit * 1000
    print(
        f"{kind:8} {steps:5} {usual:14.1f} {worst:8.1f} {start:9.2f}"
        f"  limit {limit * 1000:.0f}  {'ok' if kept else 'TOO MUCH'}"
    )
    return kept


def main(arguments: list[str]) -> int:
    """Print the tables of the kinds named, or of all; return 1 if any limit is broken."""
    kinds = arguments or list(KINDS)
    print(f"{'kind':8} {'policy':16} {'median':>7} {'95 %':>7} {'worst':>7}   makespan / lower bound")
    kept = [compare(kind) for kind in kinds]
    print(f"\n{'kind':8} {'steps':>5} {'priorities, ms':>14} {'worst':>8} {'start, ms':>9}")
    kept += [speed(kind, steps, limit) for kind in kinds for steps, limit in SEARCH_SECONDS.items()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
