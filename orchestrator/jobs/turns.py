"""One step's units, and one unit on its way: from its launcher's first word to its record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from orchestrator.jobs.budget import Grant, Wish
from orchestrator.jobs.memory import oom_kills
from orchestrator.jobs.units import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.jobs.history import Cost, History
    from orchestrator.jobs.link import Link
    from orchestrator.jobs.pick import Pick
    from orchestrator.jobs.units import How, Unit

MEMORY_CODES = frozenset((9, 137, 143, 247, -9))
"""How a compiler ends whose part was killed: nvcc gives the signal's number, shells 128 more."""
CRASH_CODES = frozenset((4, 6, 7, 8, 11, 132, 134, 135, 136, 139))
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, in the same spellings."""
_ENDINGS = 3
"""How often a unit is run again when it was us that ended it."""


def _passes(_unit: Unit, _images: tuple[str, ...]) -> str | None:
    return None


def _ignored(_record: Record) -> None:
    return None


@dataclass(slots=True, eq=False)
class StepJobs:
    """What one step of the run gives to the broker, and gets."""

    name: str
    history: History
    urgency: float = 0.0
    judge: Callable[[Unit, tuple[str, ...]], str | None] = _passes
    """Says why a unit must not run, or None; see `served.refusal`. Called in the broker's thread."""
    listen: Callable[[Record], None] = _ignored
    """Called with each unit that has ended: in the broker's thread, or in `close`."""
    journal: Path | None = None
    """Folder that holds a file for each unit on its way, with the path of what it makes."""
    pick: Pick | None = None
    """The one unit that is compiled, where all others wait; None: all are."""
    records: list[Record] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether nothing more is compiled, since what a probe was about is known."""
        return self.pick is not None and self.pick.over

    def enter(self, unit: Unit) -> None:
        """Note that a unit is on its way: if nobody tells how it ends, what it makes may be half written."""
        if self.journal is not None:
            with suppress(OSError):  # a full disk stops the compiler as well
                self.journal.mkdir(exist_ok=True)
                (self.journal / str(unit.number)).write_text(unit.made, "utf-8", "surrogateescape")

    def leave(self, unit: Unit) -> None:
        """Note that a unit has ended."""
        if self.journal is not None:
            with suppress(OSError):
                (self.journal / str(unit.number)).unlink()


@dataclass(slots=True, eq=False)
class Turn:
    """A unit on its way."""

    unit: Unit
    step: StepJobs
    images: tuple[str, ...]
    cost: Cost
    """What it is expected to take."""
    launcher: Link | None = None
    state: Literal["parked", "launched", "waiting", "running"] = "launched"
    """`parked`: a probe holds its launcher."""
    since: float = 0.0
    """When that began, on a clock that only goes forward."""
    tries: int = 0
    reruns: int = 0
    alone: bool = False
    plain: bool = False
    """It goes without ccache, which has failed."""
    told: bool = False
    """It was ended for want of memory."""
    gate: Link | None = None
    gate_pid: int = 0
    was_killed: bool = False
    """Its gate was, in this try."""
    code: int | None = None
    """The compiler's, in this try."""
    used: int = 0
    peak: int = 0
    cpu_s: float = 0.0
    _kills: int = 0

    def wait(self, gate: Link, now: float) -> None:
        """Its gate asks for a turn."""
        self.gate, self.gate_pid = gate, gate.pid
        self.state, self.since = "waiting", now

    def start(self, now: float) -> None:
        """It has its turn."""
        self.state, self.since, self._kills = "running", now, oom_kills()
        self.tries += 1
        self.tell("go")

    def ran(self, code: int, cpu_s: float, largest: int) -> None:
        """Its compiler has ended."""
        if self.state == "waiting":  # while we were silent, its gate has gone ahead
            self.tries += 1
        self.state, self.used, self.code = "launched", 0, code
        self.cpu_s += cpu_s
        self.peak = max(self.peak, largest)

    def lost(self, gate: Link) -> None:
        """A gate is gone; without a last word it was killed."""
        if self.gate is gate:
            self.was_killed = self.state != "launched"
            self.state, self.used, self.gate = "launched", 0, None

    def again(self, code: int, *, cache: bool = False) -> str | None:
        """Return why the unit is to be run again, alone or without ccache; None when it is not.

        Args:
            code: of what its launcher ran.
            cache: whether that was ccache.
        """
        compilers = code if self.code is None else self.code
        short = compilers in MEMORY_CODES or self.was_killed or oom_kills() > self._kills
        killed, told = self.was_killed, self.told
        self.told, self.was_killed, self.code = False, False, None
        if not code:
            return None
        if cache and not told and not killed and (compilers == 0 or not self.tries):
            self.plain = True
            return f"{self.unit.name}: ccache failed (exit code {code}); it is compiled without"
        unfit = not told and not short and compilers not in CRASH_CODES
        if unfit or not (self.tries or killed) or self.reruns >= (_ENDINGS if told else 1):
            return None
        self.alone = True
        self.reruns += 1
        if told:
            return f"{self.unit.name} waits until nothing else runs"
        what = "was killed, as when memory runs out" if short else "crashed"
        return f"{self.unit.name}: its compiler {what} (exit code {compilers}); it is run once more, alone"

    def measured(self, used: int) -> None:
        """Its processes take so many bytes now."""
        self.used = used
        self.peak = max(self.peak, used)

    def tell(self, word: str) -> None:
        """Say a word to its gate."""
        if self.gate is not None:
            self.gate.say(word)

    def wish(self) -> Wish:
        """Return it as one that waits."""
        return Wish(
            self.unit.number,
            max(self.cost.memory, self.peak),
            self.cost.seconds,
            self.since,
            urgency=self.step.urgency,
            alone=self.alone,
        )

    def grant(self) -> Grant:
        """Return it as one that runs."""
        return Grant(self.unit.number, self.cost.memory, self.used, self.since, self.cost.seconds, self.alone)

    def record(self, how: How, code: int = 0, cpu_s: float = 0.0, wall_s: float = 0.0) -> Record:
        """Return what became of it."""
        cpu_s = max(cpu_s, self.cpu_s)
        return Record(self.unit, how, code, cpu_s, wall_s, self.peak, self.images, self.tries)
