"""One connection of a launcher or a gate, as the broker sees it; `jobs.wrapper` has the messages."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PIECE = 1 << 20
PREFIX = "sb-"
"""Of the folder that a broker's socket lies in."""
SOCKET = "s"
_FRESH_S = 60.0


def sweep(folder: Path) -> None:
    """Remove the sockets of brokers that were killed, of this user, from a folder for temporary files."""
    for place in folder.glob(f"{PREFIX}*/{SOCKET}"):
        with suppress(OSError):
            facts = place.parent.lstat()
            if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < _FRESH_S:
                continue
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(1)
                if link.connect_ex(str(place)) == errno.ECONNREFUSED:
                    place.unlink()
                    place.parent.rmdir()


class Link:
    """A connection, and the process group that the other side runs."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connection."""
        self.sock = sock
        self.number = 0
        """The unit's, once it is known."""
        self.pid = 0
        self.is_gate = False
        self.group = 0
        """What it runs now; 0 when nothing."""
        self._got = b""

    def messages(self) -> list[list[str]] | None:
        """Return the messages that have come; None when the other side is gone."""
        try:
            piece = self.sock.recv(_PIECE)
        except OSError:
            return None
        if not piece:
            return None
        *lines, self._got = (self._got + piece).split(b"\n")
        return [line.decode("utf-8", "surrogateescape").split("\0") for line in lines]

    def has_more(self) -> bool:
        """Say whether something has come that was not yet read."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def say(self, *fields: object) -> None:
        """Send one message; one that does not get through is told by the end of the connection."""
        text = "\0".join(str(field).replace("\n", " ") for field in fields) + "\n"
        with suppress(OSError):
            self.sock.sendall(text.encode("utf-8", "surrogateescape"))

    def kill(self) -> None:
        """End what it runs at once."""
        if self.group:
            with suppress(OSError):
                os.killpg(self.group, signal.SIGKILL)
        self.group = 0
