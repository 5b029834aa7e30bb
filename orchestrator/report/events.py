"""Events: what happens in a run, as small values. Stages emit them, renderers listen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from orchestrator.jobs.units import How

Ending = Literal["built", "probed", "reuse", "rejected", "failed", "skipped", "stopped"]
"""`stopped`: a signal or a deadline came; its build tree is kept."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The plan is made, and something is to be done."""

    stack: str
    arch: str
    steps: tuple[str, ...]
    """Steps that will be carried out, in build order."""
    logs: str
    """Folder of the run's logs."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins."""

    step: str
    units: int | None = None
    """Compiler calls that it took last time; None where it was never seen."""
    seconds: float | None = None
    """How long it is thought to take."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step is over."""

    step: str
    ending: Ending
    wall_s: float
    text: str = ""
    """Why, in one line, where it did not go well."""


@dataclass(frozen=True, slots=True)
class StageStarted:
    """`step` enters `stage`; `log` is where its output goes, if any."""

    step: str
    stage: str
    log: str | None = None


@dataclass(frozen=True, slots=True)
class StageFinished:
    """`step` leaves `stage` after `wall_s` seconds."""

    step: str
    stage: str
    wall_s: float


@dataclass(frozen=True, slots=True)
class UnitEnded:
    """One compiler call of a step has ended."""

    step: str
    unit: str
    how: How
    cpu_s: float
    peak_bytes: int
    """0 when it was too quick to be measured."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What all compilers of the run take now; comes about twice a second while some run."""

    units: int
    """Compilers that run."""
    slots: int
    """Compilers that may run at a time."""
    used_bytes: int
    budget_bytes: int
    """What they may take together at this moment, with what they take."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life of a long stage: one short line."""

    step: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know; `step` is None when it concerns the run."""

    level: Literal["info", "warning", "error"]
    text: str
    step: str | None = None


Event = (
    RunStarted | StepStarted | StepEnded | StageStarted | StageFinished | UnitEnded | Usage | Progress | Note
)
Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
    del event
