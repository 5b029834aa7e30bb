"""What the gate at the compiler does and costs: `python bench/jobs.py [--big] [--runs N]`.

Two figures, each with the limit that the project set itself; exits with 1 when one is broken.

- 20 units of 100 to 500 MB in a budget of 1.2 GB, with a stand-in compiler that allocates and waits: none is
  killed, all together stay within the budget, and the time is at most 1.15 of what no order could beat.
  `--big`: of 2 to 10 GB in 18 GB; it needs a machine with 20 GB to spare.
- Launcher and gate cost at most 25 ms of CPU a unit, above a compiler that does nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from orchestrator.jobs.broker import Broker
from orchestrator.jobs.history import Cost, History
from orchestrator.jobs.tools import variables, write_tools
from orchestrator.jobs.turns import StepJobs
from orchestrator.jobs.units import Unit

_MB = 1_000_000
_INTERPRETERS = 25 * _MB
"""What the stand-in and its gate take beside what they are told to."""
_SLOTS = 4
_RATIO = 1.15
_FIRST_S = 3.0
_CPU_MS = 25.0
_ROUNDS = 5
_COMPILER = """\
#!{python} -IS
import time
begun = time.monotonic()
import mmap, os, sys
source = sys.argv[2]
words = open(source).read().split()
child = os.fork()
if child:
    os.waitpid(child, 0)  # giving 10 GB back takes a second, and counts
    with open(source + ".took", "w") as file:
        file.write(str(time.monotonic() - begun))
else:
    held = mmap.mmap(-1, int(words[0]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.madvise(mmap.MADV_HUGEPAGE)
    held.madvise(23)  # MADV_POPULATE_WRITE, since Linux 5.14: all of it, now
    time.sleep(max(0, begun + float(words[1]) - time.monotonic()))
"""


@dataclass(frozen=True)
class Task:
    """A stand-in's unit: bytes and seconds."""

    memory: int
    seconds: float


def least(tasks: list[Task], budget: int) -> float:
    """Return the seconds that no order could beat."""
    longest = max(task.seconds for task in tasks)
    by_memory = sum(task.memory * task.seconds for task in tasks) / budget
    return max(longest, by_memory, sum(task.seconds for task in tasks) / _SLOTS)


def schedule(folder: Path, tasks: list[Task], budget: int) -> bool:
    """Run the tasks at once, and print how it went; return whether the limits held."""
    compiler = folder / "real-cc"
    compiler.write_text(_COMPILER.format(python=sys.executable))
    compiler.chmod(0o755)
    write_tools(folder / "tools", {"cc": compiler})
    history = History(folder / "h.json", root=folder, default=Cost(budget, 1.0))
    for number, task in enumerate(tasks):  # as if an earlier run had learned it
        (folder / f"{number}.c").write_text(f"{task.memory - _INTERPRETERS} {task.seconds}")
        unit = Unit(0, "bench", str(folder), "compile", str(compiler), ("-c", f"{number}.c"))
        history.learn(unit, (), Cost(task.memory, task.seconds))
    (folder / "first.c").write_text(f"{_MB} {_FIRST_S}")  # the default: the whole budget
    warnings: list[str] = []
    step = StepJobs("bench", history)
    broker = Broker(slots=_SLOTS, reserve=0, budget=budget, warn=lambda _, text: warnings.append(text))
    with broker:
        broker.open(step)
        env = dict(os.environ) | variables(folder / "tools", broker=broker.address, step="bench")
        # One that takes the whole budget runs while the others come: time counts from its end.
        first = subprocess.Popen([str(folder / "tools/cc"), "-c", "first.c"], cwd=folder, env=env)
        while not broker.running:
            time.sleep(0.01)
        units = [
            subprocess.Popen([str(folder / "tools/cc"), "-c", f"{n}.c"], cwd=folder, env=env)
            for n in range(len(tasks))
        ]
        first.wait()
        begin = time.monotonic()
        codes = [unit.wait() for unit in units]
        took = time.monotonic() - begin
        broker.close(step)
    real = [float((folder / f"{n}.c.took").read_text()) for n in range(len(tasks))]
    bound = least([Task(task.memory, seconds) for task, seconds in zip(tasks, real, strict=True)], budget)
    print(
        f"{len(tasks)} units, budget {budget / _MB:.0f} MB: {took:.2f} s, {took / bound:.3f} of the "
        f"least, {bound:.2f} s (at most {_RATIO}); peak {broker.peak / _MB:.0f} MB; {len(warnings)} warnings"
    )
    return not any(codes) and not warnings and broker.peak <= budget and took <= _RATIO * bound


def overhead(folder: Path, runs: int) -> bool:
    """Print what launcher and gate cost a unit; return whether the limit held."""
    write_tools(folder / "tools", {"cc": Path("/bin/true")})
    (folder / "a.c").touch()
    history = History(folder / "h.json", root=folder, default=Cost(_MB, 1.0))
    step = StepJobs("bench", history)
    with Broker(slots=_SLOTS, reserve=0) as broker:
        broker.open(step)
        env = dict(os.environ) | variables(folder / "tools", broker=broker.address, step="bench")
        alone, gated = [], []
        for _ in range(_ROUNDS):  # in turn, and the best of each: others use the machine too
            alone.append(_cpu_ms(["/bin/true"], runs // _ROUNDS, env, folder))
            gated.append(_cpu_ms([str(folder / "tools/cc"), "-c", "a.c"], runs // _ROUNDS, env, folder))
        broker.close(step)
    ran = sum(record.how == "ran" for record in step.records)
    cost = min(gated) - min(alone)
    print(f"launcher and gate: {cost:.1f} ms of CPU a unit (limit {_CPU_MS:g}); {ran} units")
    return ran == runs // _ROUNDS * _ROUNDS and cost <= _CPU_MS


def _cpu_ms(command: list[str], runs: int, env: dict[str, str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run(command, env=env, cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / runs * 1000


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--big", action="store_true", help="20 units of 2 to 10 GB in 18 GB")
    parser.add_argument("--runs", type=int, default=50, help="units of the second figure")
    options = parser.parse_args()
    chance = random.Random(3)  # noqa: S311 - the same units each time
    scale = 20 if options.big else 1
    budget = (18_000 if options.big else 1200) * _MB
    seconds = (8.0, 16.0) if options.big else (1.5, 9.0)
    tasks = [Task(chance.randint(100, 500) * scale * _MB, chance.uniform(*seconds)) for _ in range(20)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        held = [schedule(Path(one), tasks, budget)]
        if not options.big:
            held.append(overhead(Path(two), options.runs))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
