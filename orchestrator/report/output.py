"""What renderers write to, and what wakes them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable


class Output:
    """A stream that may go away: a run is worth more than what is said about it, so writing never fails.

    It is tried anew each time, for a disk has room again, and a slow reader reads on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        """Write, and flush: what was said is seen."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed
            pass
        return len(text)

    def flush(self) -> None:
        """Do nothing: it is flushed already."""

    def isatty(self) -> bool:
        """Say whether it is a terminal."""
        try:
            return self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        """How it writes letters."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def moves(self) -> bool:
        """Whether it is a terminal whose cursor can be moved."""
        return self.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")

    @property
    def wants_color(self) -> bool:
        """Whether colours are welcome where they can be shown (no-color.org)."""
        return not os.environ.get("NO_COLOR")


class Ticker:
    """Calls something again and again, in a thread of its own, from `start` to `stop`."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self._seconds = seconds
        self._call = call
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it has begun or is over."""
        if self._thread is None and not self._over.is_set():
            self._thread = threading.Thread(target=self._run, name="report", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End. A call that goes on just now is not waited for."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self._call()
