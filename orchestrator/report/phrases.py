"""What is said of events, and of what goes on, in one plain line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    RunStarted,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
    Usage,
)
from orchestrator.report.units import show_clock, show_seconds

if TYPE_CHECKING:
    from orchestrator.report.state import Work

LONG = 120
"""Of a compiler's command line, more than this tells nobody anything."""
_LITTLE_S = 1.0
"""What is reused in less time than this is not worth a line."""
_MINUTE = 60
_STYLES = {"warning": "33", "error": "31"}


@dataclass(frozen=True, slots=True)
class Said:
    """A line about a step, or about the run (None)."""

    step: str | None
    text: str
    level: Literal["info", "warning", "error"] = "info"


def said(event: Event) -> Said | None:
    """Return the line about an event; None where it is for those who count."""
    line: Said | None
    match event:
        case RunStarted(steps=steps, logs=logs):
            many = f"{len(steps)} step{'' if len(steps) == 1 else 's'}"
            line = Said(None, f"{many} to carry out; logs: {printable(logs)}")
        case StepStarted(step, units, seconds):
            line = Said(step, _starts(units, seconds))
        case StepEnded(step):
            line = _ended(event)
        case StageStarted(step, stage, log):
            line = Said(step, printable(f"{stage} ..." + (f" log: {log}" if log else "")))
        case StageFinished(step, stage, wall_s):
            line = Said(step, printable(f"{stage} done, {show_seconds(wall_s)}"))
        case Note(level, text, step):
            word = "" if level == "info" else f"{level}: "
            line = Said(step, printable(f"{word}{text}"), level)
        case UnitEnded() | Usage() | Progress():
            line = None
    return line


def stamped(what: Said, seconds: float, *, color: bool) -> str:
    """Return a whole line, without its end: when, of which step, what."""
    who = f"{printable(what.step)}: " if what.step else ""
    style = _STYLES.get(what.level) if color else None
    text = f"\x1b[{style}m{what.text}\x1b[0m" if style else what.text
    return f"[{show_clock(seconds):>7}] {who}{text}"


def outcome(event: StepEnded) -> str:
    """Say how a step ended, and after what time: `built in 3 min 12 s`."""
    took = show_seconds(event.wall_s)
    match event.ending:
        case "built" | "probed":
            return f"{event.ending} in {took}"
        case "reuse":
            return f"reused, which took {took}"
        case "rejected":
            return f"rejected by its audit after {took}"
        case "failed":
            return f"failed after {took}"
        case "skipped":
            return "skipped"
        case "stopped":
            return f"stopped after {took}"


def alive(work: Work, now: float, *, last: bool = True) -> str:
    """Say where a step is: `build, 37/111 units, 3 min 12 s, about 9 min left: nvcc ...`.

    Args:
        work: the step.
        now: by the clock that `work` knows.
        last: with the start of its last line.
    """
    parts = [work.stage] if work.stage else []
    if work.count is not None:
        parts.append(f"{counted(work.count)} units")
    parts.append(show_seconds(now - work.began))
    if (left := work.left_s(now)) is not None:
        parts.append(f"about {about(left)} left")
    line = printable(work.line).strip()[:LONG] if last else ""
    return printable(", ".join(parts)) + (f": {line}" if line else "")


def counted(count: tuple[int, int | None]) -> str:
    """Return `37/111`, or `37` when nobody knows how many there are."""
    done, total = count
    return f"{done}" if total is None else f"{done}/{total}"


def about(seconds: float) -> str:
    """Return a time as exactly as a guess deserves: `40 s`, `12 min`, `1 h 04 min`."""
    if seconds < _MINUTE - 5:
        return f"{max(5, round(seconds / 5) * 5)} s"
    minutes = max(1, round(seconds / _MINUTE))
    return f"{minutes} min" if minutes < _MINUTE else f"{minutes // 60} h {minutes % 60:02d} min"


def printable(text: str) -> str:
    """Return the text without control characters: a log line must not steer the terminal."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _starts(units: int | None, seconds: float | None) -> str:
    parts = [f"about {about(seconds)}"] if seconds is not None else []
    parts += [f"{units:,} unit{'' if units == 1 else 's'}"] if units else []
    return f"starts (expects {', '.join(parts)})" if parts else "starts"


def _ended(event: StepEnded) -> Said | None:
    if event.ending == "reuse" and event.wall_s < _LITTLE_S:
        return None
    level: Literal["info", "warning", "error"] = "info"
    if event.ending in ("failed", "rejected"):
        level = "error"
    elif event.ending in ("skipped", "stopped"):
        level = "warning"
    why = f": {event.text}" if event.text else ""
    return Said(event.step, printable(f"{outcome(event)}{why}"), level)
