"""A process on a terminal of its own, and what a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

_DEADLINE_S = 30.0


class Terminal:
    """Runs a Python program whose three streams are one terminal, which an emulator reads."""

    def __init__(
        self, argv: Sequence[str], *, columns: int, rows: int = 24, env: Mapping[str, str] | None = None
    ) -> None:
        self.raw = ""
        self._fd, inside = pty.openpty()
        modes = termios.tcgetattr(inside)
        modes[3] &= ~termios.ECHO  # what is typed here is no part of what a program shows
        termios.tcsetattr(inside, termios.TCSANOW, modes)
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(columns, rows)
        plain = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, *argv],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**plain, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
        )
        os.close(inside)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._fd, text.encode())

    def lines(self) -> list[str]:
        """Return what is on the screen, without empty lines and spaces at the ends."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def cursor_is_hidden(self) -> bool:
        """Whether the cursor is."""
        return bool(self._screen.cursor.hidden)

    def wait(self, until: Callable[[list[str]], bool]) -> list[str]:
        """Read until the screen is as it should be, and return it."""
        end = time.monotonic() + _DEADLINE_S
        while not until(self.lines()):
            assert time.monotonic() < end, self.lines()
            assert self._read(0.2) or self.process.poll() is None, self.lines()
        return self.lines()

    def finish(self) -> list[str]:
        """Read until the process has ended, and return what is on the screen then."""
        end = time.monotonic() + _DEADLINE_S
        while self._read(0.2) or self.process.poll() is None:
            assert time.monotonic() < end, self.lines()
        return self.lines()

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: nobody holds the other side
            return False
        self._stream.feed(data)
        self.raw += data.decode("utf-8", "replace")
        return bool(data)
