"""What killed brokers leave behind is swept up."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from orchestrator.jobs.link import PREFIX, SOCKET, sweep


def test_only_old_sockets_that_nobody_listens_to_are_removed() -> None:
    with (
        tempfile.TemporaryDirectory() as temporary,
        socket.socket(socket.AF_UNIX) as dead,
        socket.socket(socket.AF_UNIX) as fresh,
        socket.socket(socket.AF_UNIX) as alive,
    ):
        root = Path(temporary)
        for name, link in (("dead", dead), ("fresh", fresh), ("alive", alive)):
            (root / f"{PREFIX}{name}").mkdir()
            link.bind(str(root / f"{PREFIX}{name}" / SOCKET))
        alive.listen()
        (root / f"{PREFIX}other").mkdir()
        (root / f"{PREFIX}file" / SOCKET).parent.mkdir()
        (root / f"{PREFIX}file" / SOCKET).write_text("no socket, but as dead")
        for name in ("dead", "alive", "other"):
            os.utime(root / f"{PREFIX}{name}", (1, 1))
        dead.close()
        fresh.close()
        sweep(root)
        left = sorted(path.name for path in root.iterdir())
    assert left == [f"{PREFIX}{name}" for name in ("alive", "file", "fresh", "other")]
