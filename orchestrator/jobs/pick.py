"""One unit of a step is compiled and the others wait: what a probe asks of the broker.

A launcher that waits costs no CPU, but one of the jobs that the build tool starts at a time. So when nothing
has come, ended or run for a moment, some go after all: what the one unit is made from may come of them.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrator.jobs.units import Record, Unit

QUIET_S = 1.5
"""After so long without a sign of the build, somebody who waits goes."""
LAST_WORD_S = 0.3
"""Between the end of the one unit and that of those who wait: its compiler's words come first in the log."""
TURNED_AWAY = "not compiled: the probe is over"


@dataclass(slots=True, eq=False)
class Pick:
    """Which unit is compiled, and what became of it. The broker's thread changes it, others read it."""

    wanted: Callable[[Unit, tuple[str, ...]], bool]
    """Whether a unit is the one; the first of which this is true is taken."""
    unit: str | None
    """Glob on the end of its source's path: ninja is asked for it alone. None: only `wanted` knows."""
    keep: Path
    """Where its object is linked to: the build may remove its own."""
    record: Record | None = None
    """What became of it."""
    cause: Record | None = None
    """What ended the probe: it, or another that was refused or failed. None: it is not over, or nobody
    asked for the one unit."""
    asked: int = 0
    """Units of device code that the build has asked for; none of them was for other GPUs alone."""
    over_at: float | None = None
    """When it was over, on a clock that only goes forward."""
    _one: int = 0
    _moved: float = field(default_factory=time.monotonic)
    _arrived: int = 0
    _spent: int = -1
    """How many had come when a unit of device code was let go in vain; -1: none was."""

    @property
    def over(self) -> bool:
        """Whether all that it was about is known; nothing more is compiled."""
        return self.over_at is not None

    def lets(self, unit: Unit, images: tuple[str, ...], now: float) -> bool:
        """Take note of a unit that is asked for; return whether it goes at once."""
        self._moved = now
        self._arrived += 1
        self.asked += unit.is_cuda
        if not self._one and unit.kind == "compile" and self.wanted(unit, images):
            self._one = unit.number
            return True
        return unit.kind == "link"  # of units that have gone

    def ended(self, record: Record, now: float) -> None:
        """Take note of a unit that has ended or was refused."""
        self._moved = now
        if self.over:
            return
        if record.unit.number == self._one:
            self.record = record
            if not record.code and record.how in {"ran", "hit"}:
                self._keep(record.unit)
        elif record.how in {"ran", "hit"}:
            return
        self.cause = record
        self.over_at = now

    def released(self, waiting: Sequence[Unit], others: int, now: float, slots: int) -> list[Unit]:
        """Return which of those who wait go now: host code first, of device code one at a time.

        Where the end of one unit of device code led to no other, nothing more will come: it is over.

        Args:
            waiting: the step's units that wait here, the oldest first.
            others: how many of its units are on their way.
            now: seconds on a clock that only goes forward.
            slots: units that may run at a time.
        """
        if not waiting or others or now - self._moved < QUIET_S:
            return []
        self._moved = now
        if host := [unit for unit in waiting if not unit.is_cuda][:slots]:
            return host
        if self._spent == self._arrived:
            self.over_at = now
            return []
        self._spent = self._arrived
        return [waiting[0]]

    def _keep(self, unit: Unit) -> None:
        with suppress(OSError):  # then there is nothing to look at, which is told
            self.keep.unlink(missing_ok=True)
            self.keep.hardlink_to(unit.made)
