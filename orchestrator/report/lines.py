"""Events as plain lines, one each, for pipes, files, and terminals that can do no more."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TextIO

from orchestrator.report.events import Event, Progress, StageStarted, StepStarted
from orchestrator.report.output import Output, Ticker
from orchestrator.report.phrases import LONG, Said, alive, printable, said, stamped
from orchestrator.report.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_S = 30.0
"""Without a line of a step for so long, one tells that it lives."""


class Lines:
    """Writes events to a stream, from any thread."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = Output(stream)
        self._clock = clock
        self._begin = clock()
        self._state = State()
        self._told: dict[str, float] = {}
        """When a step was heard of last, by name; "" stands for what is no step's."""
        self._lock = threading.Lock()
        self._ticker = Ticker(1, self.beat)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        now = self._clock()
        with self._lock:
            self._state.take(event, now)
            what = said(event)
            if what is not None:
                self._line(what, now)
            elif isinstance(event, Progress):
                self._passing(now)
            if isinstance(event, StageStarted | StepStarted):
                self._ticker.start()

    def beat(self) -> None:
        """Write a sign of life of each step that was not heard of for long."""
        now = self._clock()
        with self._lock:
            for work in self._state.running.values():
                if now - self._told.get(work.name, work.began) >= QUIET_S:
                    self._line(Said(work.name, alive(work, now)), now)

    def close(self) -> None:
        """Give no more signs of life."""
        self._ticker.stop()
        with self._lock:
            self._state.running.clear()

    def _passing(self, now: float) -> None:
        """Write, now and then, what does not belong to a step or stage; nobody says when it ends."""
        text = self._state.passing(now)
        if text is not None and now - self._told.get("", self._begin) >= QUIET_S:
            self._line(Said(None, printable(text)[:LONG]), now)

    def _line(self, what: Said, now: float) -> None:
        self._told[what.step or ""] = now
        color = self._out.moves and self._out.wants_color
        self._out.write(f"{stamped(what, now - self._begin, color=color)}\n")
