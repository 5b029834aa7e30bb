"""Events as plain lines on standard error, one each; on a terminal the last one shows what goes on now."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import TextIO

from orchestrator.report.events import Event, Note, Progress, StageFinished, StageStarted
from orchestrator.report.units import show_clock, show_seconds

_QUIET_S = 30.0
"""Between two signs of life of one stage where no terminal listens."""

_LONG = 120
"""Of a compiler's command line, more than this tells nobody anything."""

_STYLES = {"warning": "33", "error": "31"}


class Lines:
    """Writes events to a stream, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begin = time.monotonic()
        self._last_progress = self._begin
        self._terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._color = self._terminal and "NO_COLOR" not in os.environ
        self._open = False
        self._lock = threading.RLock()

    def __call__(self, event: Event) -> None:
        """Write one event."""
        with self._lock:
            self._write(event)

    def _write(self, event: Event) -> None:
        match event:
            case StageStarted(step, stage, log):
                self._last_progress = time.monotonic()
                self._line(step, f"{stage} ..." + (f" log: {log}" if log else ""))
            case StageFinished(step, stage, wall_s):
                self._line(step, f"{stage} done, {show_seconds(wall_s)}")
            case Progress(step, text):
                self._progress(step, text)
            case Note(level, text, step):
                word = "" if level == "info" else f"{level}: "
                self._line(step, self._paint(level, f"{word}{text}"))

    def close(self) -> None:
        """Take the passing line away, so that what follows starts on a clean one."""
        if self._open:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._open = False

    def _paint(self, level: str, text: str) -> str:
        style = _STYLES.get(level)
        return f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text

    def _prefix(self, step: str | None) -> str:
        clock = show_clock(time.monotonic() - self._begin)
        return f"[{clock:>7}] {step}: " if step else f"[{clock:>7}] "

    def _line(self, step: str | None, text: str) -> None:
        self.close()
        self._stream.write(f"{self._prefix(step)}{text}\n")
        self._stream.flush()

    def _progress(self, step: str, text: str) -> None:
        now = time.monotonic()
        if self._terminal:
            from rich.cells import chop_cells

            # By cells, not characters: a wide one takes two, and a line that wraps cannot be taken back.
            width = shutil.get_terminal_size().columns - 1
            shown = chop_cells(f"{self._prefix(step)}{_printable(text)}", width)[0]
            self._stream.write(f"\r\x1b[2K{shown}")
            self._stream.flush()
            self._open = True
        elif now - self._last_progress >= _QUIET_S:
            self._last_progress = now
            self._line(step, _printable(text)[:_LONG])


def _printable(text: str) -> str:
    """Return the text without control characters: a log line must not steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
