"""Runs pip and git as children that do not outlive this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# PR_SET_PDEATHSIG survives exec: the tool gets SIGKILL when the thread that started it is gone.
_BOOT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"{sys.argv[2]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
"""
_KEPT_LINES = 4000


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended: its status (negative for a signal), stdout as bytes, stderr as text."""

    returncode: int
    stdout: bytes
    stderr: str


def run_child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a command without terminal or input; kill it when anything is raised here, or this process dies.

    Args:
        argv: the command; 127 is returned when it does not exist.
        env: all of its environment.
        cwd: where it runs; this process's own folder when None.
        on_line: called with each line of stdout as it comes (stdout is then not returned).
    """
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, str(os.getpid()), *argv],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            if on_line is None:
                out, err = process.communicate()
                return Finished(process.returncode, out, err.decode(errors="replace"))
            return _followed(process, on_line)
        except BaseException:
            process.kill()
            raise


def _followed(process: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> Finished:
    if process.stdout is None or process.stderr is None:  # both were asked for
        raise RuntimeError("no pipes")
    tail: deque[str] = deque(maxlen=_KEPT_LINES)
    stderr = process.stderr

    def drain() -> None:
        tail.extend(line.decode(errors="replace") for line in stderr)

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    for line in process.stdout:
        on_line(line.decode(errors="replace").rstrip("\n"))
    reader.join()
    return Finished(process.wait(), b"", "".join(tail))
