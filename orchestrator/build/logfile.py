"""Logs of commands: written by the commands themselves, with a head and a foot of ours around."""

from __future__ import annotations

import errno
import os
import re
import shlex
from typing import TYPE_CHECKING

from orchestrator.errors import MachineError, NoSpaceError, SparkbuildError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MARK = "[sparkbuild] "
"""Begins each line of ours."""
TAIL_BYTES = 8192
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def trouble(log: Path, error: OSError) -> SparkbuildError:
    """Return what to raise when `log` cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(
            f"no space left for the log ({error.strerror})",
            where=str(log),
            hint="free some (`sparkbuild store gc`), then run again",
        )
    return MachineError(
        f"the log cannot be written: {error.strerror}",
        where=str(log),
        hint="make the folder writable, or point SPARKBUILD_HOME elsewhere",
    )


def open_log(log: Path) -> int:
    """Open `log` for appending, made with its folders when missing, and return the descriptor.

    Raises:
        NoSpaceError, MachineError: it cannot be opened.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise trouble(log, error) from error


def write(log: Path, fd: int, lines: Sequence[str]) -> None:
    """Append lines of ours.

    Raises:
        NoSpaceError, MachineError: they cannot be written.
    """
    data = b"".join(
        (MARK + line.replace("\n", "\\n")).encode("utf-8", "surrogateescape") + b"\n" for line in lines
    )
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        while data:
            data = data[os.write(fd, data) :]
    except OSError as error:
        raise trouble(log, error) from error


def head(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Return what is written before a command: enough to run it again by hand."""
    return [
        f"$ {shlex.join(argv)}",
        f"in {cwd}",
        *(f"env {name}={shlex.quote(env[name])}" for name in sorted(env)),
    ]


def newest_line(log: Path, since: int) -> tuple[int, str | None]:
    """Return the log's size and its last complete, non-empty line after offset `since`, without escapes.

    Only the last 8 KiB are looked at. The line is None when there is none; one of ours does not count.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= since:
                return since, None
            file.seek(max(since, size - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except OSError:  # a build can do anything, remove its log too
        return since, None
    # A progress bar ends its states with \r; what follows the last end is not complete yet.
    lines = re.split(rb"[\r\n]+", data)[:-1]
    for raw in reversed(lines):
        line = _ESCAPES.sub("", raw.decode("utf-8", "replace")).strip()
        if line and not line.startswith(MARK.strip()):
            return size, line
    return size, None
