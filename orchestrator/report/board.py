"""The live board of a terminal: what runs now, in rows that are drawn anew below the lines that stay."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO, cast

from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
)
from orchestrator.report.output import Output, Ticker
from orchestrator.report.phrases import Said, said, stamped
from orchestrator.report.state import State

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_PERIOD_S = 0.25


class Board:
    """Shows events on a terminal, from any thread.

    Steps that ended, and notes, stay as lines; what goes on is seen in the rows below them. Nothing is drawn
    before something has gone on for a moment. `close` takes the rows away; what comes after it is lines only.
    """

    def __init__(self, stream: TextIO) -> None:
        self._out = Output(stream)
        self._is_stderr = stream is sys.stderr
        self._begin = time.monotonic()
        self._state = State()
        self._live: Live | None = None
        self._cells: list[int] = []
        """How long the rows are that the terminal shows."""
        self._closed = False
        # Two locks: who only counts must not wait for a slow terminal. `_drawing` is taken first.
        self._drawing = threading.Lock()
        self._counting = threading.Lock()
        self._ticker = Ticker(_PERIOD_S, self._draw)

    def __call__(self, event: Event) -> None:
        """Take one event in, and write its line when it has one that stays."""
        now = time.monotonic()
        with self._counting:
            staged = isinstance(event, StageFinished) and not self._is_step(event.step)
            self._state.take(event, now)
        what = said(event) if staged or isinstance(event, StepEnded | Note) else None
        if what is not None:
            self._say(what, now)
        if isinstance(event, StepStarted | StageStarted | Progress):
            self._ticker.start()

    def close(self) -> None:
        """Take the rows away, and leave the terminal as it was."""
        self._ticker.stop()
        with self._drawing:
            self._closed = True
            live, self._live = self._live, None
            if live is None:
                return
            try:
                self._fit(live)
                live.stop()
            finally:
                live.console.show_cursor()

    def _is_step(self, name: str) -> bool:
        work = self._state.running.get(name)
        return work is not None and work.is_step

    def _say(self, what: Said, now: float) -> None:
        line = stamped(what, now - self._begin, color=self._out.wants_color)
        with self._drawing:
            if self._live is None:
                self._out.write(f"{line}\n")
                return
            from rich.text import Text

            self._fit(self._live)
            self._live.console.print(Text.from_ansi(line), soft_wrap=True)

    def _draw(self) -> None:
        with self._drawing:
            if self._closed:
                return
            if self._live is None:
                self._live = self._made()
                self._live.start()
            self._fit(self._live)
            self._live.refresh()

    def _made(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=cast("TextIO", self._out), force_terminal=True, highlight=False, emoji=False, markup=False
        )
        # What others say on standard error, such as a warning of Python's, would tear the rows.
        return Live(
            console=console,
            get_renderable=self._rows,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=self._is_stderr,
            vertical_overflow="crop",
        )

    def _rows(self) -> Text:
        from rich.text import Text

        from orchestrator.report.boardrows import board_rows

        if self._live is None:  # it is just being made, and asks what it will draw
            return Text()
        now, size = time.monotonic(), self._live.console.size
        width, height = max(1, size.width - 1), max(1, size.height - 1)
        with self._counting:
            rows = board_rows(self._state, now, now - self._begin, width=width, height=height)
        self._cells = [row.cell_len for row in rows]
        return Text("\n", no_wrap=True, overflow="crop").join(rows)

    def _fit(self, live: Live) -> None:
        """Erase what a terminal that became narrower has made of our rows; rich does not know of it."""
        width = live.console.size.width
        more = sum(max(0, cells - 1) // width for cells in self._cells)
        if more:
            from rich.control import Control
            from rich.segment import ControlType

            codes = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
            live.console.control(Control(*codes * more))
            self._cells = [min(cells, width) for cells in self._cells]
