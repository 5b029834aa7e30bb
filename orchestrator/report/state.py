"""What goes on in a run at one moment, as its events tell. Times are seconds of a monotonic clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from orchestrator.report.events import (
    Event,
    Progress,
    RunStarted,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
    Usage,
)

_NINJA = re.compile(r"\[(\d{1,7})/(\d{1,7})\] ?")
"""How ninja begins its lines (its NINJA_STATUS by default)."""
_FRESH_S = 3.0
"""`Usage` comes only while compilers run; an older one says nothing."""
_PASSING_S = 10.0


@dataclass(slots=True)
class Work:
    """A step, or a stage of none, that goes on."""

    name: str
    began: float
    is_step: bool = False
    expected_units: int | None = None
    expected_s: float | None = None
    stage: str = ""
    units: int = 0
    """Compiler calls that have ended."""
    ninja: tuple[int, int] | None = None
    line: str = ""
    """What it wrote last, without ninja's own count."""

    @property
    def count(self) -> tuple[int, int | None] | None:
        """Units done of how many; no total where the expected one was too small, None where nobody counts."""
        if self.expected_units and self.units <= self.expected_units:
            return self.units, self.expected_units
        return self.ninja or ((self.units, None) if self.units else None)

    def left_s(self, now: float) -> float | None:
        """Return how much longer it is thought to take; None when that is unknown or it took longer."""
        if self.expected_s is None or (left := self.expected_s - (now - self.began)) <= 0:
            return None
        return left

    def wrote(self, text: str) -> None:
        """Take note of a line of its output."""
        found = _NINJA.match(text)
        if found and int(found[1]) <= int(found[2]):
            self.ninja = int(found[1]), int(found[2])
            text = text[found.end() :]
        self.line = text


@dataclass(slots=True)
class State:
    """The sum of the events so far. Not for several threads at once."""

    running: dict[str, Work] = field(default_factory=dict)
    """By name, in the order of their beginning."""
    planned: tuple[str, ...] | None = None
    ended: set[str] = field(default_factory=set)
    failed: int = 0
    units: int = 0
    hits: int = 0
    """Of all units, those that the compiler cache had."""
    _usage: tuple[float, Usage] | None = None
    _passing: tuple[float, str] | None = None

    @property
    def is_run(self) -> bool:
        """Whether steps are carried out, or a command only does some small things."""
        return self.planned is not None or any(work.is_step for work in self.running.values())

    def usage(self, now: float) -> Usage | None:
        """Return what the compilers take; None when none of them ever ran, little when none does now."""
        if self._usage is None:
            return None
        when, usage = self._usage
        return usage if now - when <= _FRESH_S else Usage(0, usage.slots, 0, usage.budget_bytes)

    def passing(self, now: float) -> str | None:
        """Return the newest sign of life of what is neither step nor stage, while it may still be true."""
        if self._passing is None:
            return None
        when, text = self._passing
        return text if not self.running or now - when <= _PASSING_S else None

    def take(self, event: Event, now: float) -> None:
        """Take one event in."""
        match event:
            case RunStarted(steps=steps):
                self.planned = steps
            case StepStarted(step, units, seconds):
                work = Work(step, now, is_step=True, expected_units=units, expected_s=seconds)
                self.running[step] = work
            case StepEnded(step, ending):
                self.running.pop(step, None)
                self.ended.add(step)
                self.failed += ending in ("failed", "rejected")
            case StageStarted(step, stage):
                work = self.running.setdefault(step, Work(step, now))
                work.stage, work.line, work.ninja = stage, "", None
            case StageFinished(step):
                self._stage_over(step)
            case UnitEnded(step, how=how):
                self.units += 1
                self.hits += how == "hit"
                if step in self.running:
                    self.running[step].units += 1
            case Usage():
                self._usage = now, event
            case Progress(step, text):
                self._wrote(step, text, now)

    def _stage_over(self, name: str) -> None:
        work = self.running.get(name)
        if work is None or not work.is_step:
            self.running.pop(name, None)
        else:
            work.stage, work.line, work.ninja = "", "", None

    def _wrote(self, name: str, text: str, now: float) -> None:
        """A download is called by its file: it belongs to the stage that goes on, if there is but one."""
        stages = [work for work in self.running.values() if not work.is_step]
        if name in self.running:
            self.running[name].wrote(text)
        elif stages and stages[0] is stages[-1]:
            stages[0].line = f"{name}: {text}"
        else:
            self._passing = now, f"{name}: {text}"
