"""Events: what happens in a run, as small values. Stages emit them, renderers listen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


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


Event = StageStarted | StageFinished | Progress | Note
Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
    del event
