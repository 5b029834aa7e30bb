"""The process supervisor: every long command runs under it.

A command gets a session of its own, no terminal, /dev/null as input and its log as output. Between it and
sparkbuild stands a guardian (`build.guardian`), which tells the true cost, and leaves nothing running: not
after the command, not after Ctrl-C, and not after a kill -9 of sparkbuild.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.build import interrupt, logfile
from orchestrator.errors import (
    BuildFailedError,
    MachineError,
    NoSpaceError,
    SparkbuildError,
    ToolMissingError,
)
from orchestrator.report.units import show_bytes
from orchestrator.store.atomic import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GUARDIAN = Path(__file__).with_name("guardian.py")
JOIN_LIMIT_S = 12.0
"""A little more than the guardian's own limit."""
STILL_EVERY_S = 1.0
LITTLE = 16 << 20
"""Bytes; on a disk with less, a failed command is taken to have failed for want of space."""
LINE_EVERY_S = 0.2
"""How often `on_line` is called at most."""
LOOK_EVERY_S = 0.5
"""A signal that the kernel gave to another thread does not wake the main thread: it wakes up by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended, and what it cost, with all processes that came from it."""

    returncode: int
    """Exit code, or minus the number of the signal that killed it."""
    wall_s: float
    cpu_s: float
    """User and system time."""
    peak_bytes: int
    """Peak resident size of the largest single process (not the sum); about 10 MB at least."""
    leftovers: tuple[str, ...]
    """Command lines of what still ran when the command had ended; it was killed."""
    stopped: bool
    """It was told to stop."""
    log: Path
    log_start: int
    """Offset in `log` at which this command's part begins."""


class _TimeUpError(Exception):
    """The deadline of a command has come."""


class Running:
    """A command that was started: exactly one thread must call `wait`, any may call `stop`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        name: str | None = None,
    ) -> None:
        interrupt.raise_if_interrupted()
        self._argv = tuple(argv)
        self._name = name
        self._cwd = cwd
        self._log = log
        self._begin = time.monotonic()
        self._unread = b""
        self._newest = ""
        self._told = self._begin
        request = _request(argv, cwd, env)
        self._log_fd = logfile.open_log(log)
        try:
            self._log_start = os.fstat(self._log_fd).st_size
            logfile.write(log, self._log_fd, logfile.head(argv, cwd, env))
            self._seen = os.fstat(self._log_fd).st_size
            self._control, self._guardian = _start_guardian(self._log_fd)
        except BaseException:
            os.close(self._log_fd)
            raise
        try:
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # `wait` finds it dead and says so
                self._control.sendall(request)
            interrupt.register(self)  # not before: its word must not get into the request
        except BaseException:
            self._control.close()
            self._close()
            raise

    def stop(self, *, now: bool = False) -> None:
        """Ask the command and all that came from it to end (SIGTERM, 0.5 s, SIGKILL); return at once."""
        with contextlib.suppress(OSError):  # it is gone already
            self._control.send(b"K" if now else b"T", socket.MSG_DONTWAIT)

    def join(self) -> None:
        """Wait until nothing of the command is alive."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guardian.wait(JOIN_LIMIT_S)

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Finished:
        """Wait for the end of the command.

        Args:
            timeout_s: seconds since its start after which it is stopped.
            on_line: called with the newest whole line of its output, at most five times a second; while
                nothing comes, once a second with the same one, so that a display can show that time goes on.
            check: raise when it fails; otherwise the caller looks at `returncode`.

        Raises:
            BuildFailedError: it failed (with `check`), took too long, or its guardian was killed.
            ToolMissingError: there is no such command.
            NoSpaceError: the log could not be finished.
            InterruptedRunError: a signal stopped it.
        """
        try:
            # What `on_line` raises ends the command too: `_close` stops whatever still runs.
            end = self._follow(None if timeout_s is None else self._begin + timeout_s, on_line)
            wall_s = time.monotonic() - self._begin
            if end is None:
                finished = None
            elif end["event"] == "failed":
                error = self._not_started(str(end["what"]), int(end["errno"]))
                logfile.write(self._log, self._log_fd, [f"not started: {error.message}"])
                raise error
            else:
                finished = self._finished(end, wall_s)
                logfile.write(self._log, self._log_fd, _foot(finished))
        except _TimeUpError:
            logfile.write(self._log, self._log_fd, [f"stopped after {timeout_s:g} s"])
            text = f"{self._shown()} did not end within {timeout_s:g} s and was stopped"
            raise BuildFailedError(text, where=str(self._log), hint="see in the log where it stood") from None
        finally:
            self._close()
        interrupted = finished is None or finished.stopped
        if interrupted:
            interrupt.raise_if_interrupted()
        if finished is None:
            text = f"the process that watched over {self._shown()} was killed"
            raise BuildFailedError(
                text, where=str(self._log), hint="look for the out-of-memory killer in dmesg"
            )
        if check and finished.returncode:
            raise self._failed(finished)
        return finished

    def _follow(self, deadline: float | None, on_line: Callable[[str], None] | None) -> dict[str, Any] | None:
        """Return the guardian's last word, None when it died without one; _TimeUpError after `deadline`."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            step = LINE_EVERY_S if on_line else LOOK_EVERY_S
            if deadline is not None:
                step = min(step, max(0.0, deadline - time.monotonic()))
            ready = poll.poll(step * 1000 + 1)
            if on_line is not None:
                self._tell(on_line)
            if ready:
                data = self._receive()
                if not data:
                    return None
                self._unread += data
                for line_ in self._unread.split(b"\n")[:-1]:
                    word = _parse(line_)
                    if word["event"] != "started":
                        return word
                self._unread = self._unread.rpartition(b"\n")[2]
            elif deadline is not None and time.monotonic() >= deadline:
                raise _TimeUpError

    def _tell(self, on_line: Callable[[str], None]) -> None:
        """Hand on the newest line when there is one, or the last one again after a while."""
        self._seen, line = logfile.newest_line(self._log, self._seen)
        now = time.monotonic()
        if line is not None or now - self._told >= STILL_EVERY_S:
            self._newest = self._newest if line is None else line
            self._told = now
            if self._newest:
                on_line(self._newest)

    def _receive(self) -> bytes:
        try:
            return self._control.recv(65536)
        except ConnectionResetError:
            return b""

    def _close(self) -> None:
        """Stop what still runs, wait until it is gone, and give everything back."""
        self.stop()
        self.join()
        self._control.close()  # not before: a second signal may still ask to hurry
        os.close(self._log_fd)
        interrupt.forget(self)

    def _finished(self, end: dict[str, Any], wall_s: float) -> Finished:
        return Finished(
            # None: killing it did not work (a dead file system), so it counts as killed all the same.
            returncode=-signal.SIGKILL if end["returncode"] is None else int(end["returncode"]),
            wall_s=wall_s,
            cpu_s=end["utime"] + end["stime"],
            peak_bytes=end["peak_bytes"],
            leftovers=tuple(end["leftovers"]),
            stopped=end["stopped"],
            log=self._log,
            log_start=self._log_start,
        )

    def _shown(self) -> str:
        return self._name or shown(self._argv)

    def _not_started(self, what: str, number: int) -> SparkbuildError:
        reason = os.strerror(number)
        tool = self._argv[0]
        if what == "cwd":
            return MachineError(
                f"{self._cwd}: {reason}", where=str(self._log), hint="this folder should be there"
            )
        if number in (errno.ENOENT, errno.ENOTDIR):
            return ToolMissingError(
                f"{tool} is not there, or the interpreter that its first line names",
                where=str(self._log),
                hint=f"install {Path(tool).name}; the log shows the PATH that was searched",
            )
        if number in (errno.EACCES, errno.ENOEXEC):
            return ToolMissingError(
                f"{tool} cannot be run: {reason}", where=str(self._log), hint="check its mode"
            )
        return BuildFailedError(f"{self._shown()} was not started: {reason}", where=str(self._log), hint=None)

    def _failed(self, finished: Finished) -> SparkbuildError:
        from orchestrator.machine.diagnose import diagnose_log

        code = finished.returncode
        how = f"ended with exit code {code}" if code > 0 else f"was killed by {_signal_name(-code)}"
        text = f"{self._shown()} {how}"
        where = str(self._log)
        fault = None
        with contextlib.suppress(OSError):  # the build removed its log
            diagnosis = diagnose_log(self._log, start=finished.log_start, returncode=code)
            fault = next(iter(diagnosis.faults), None)
            if fault and fault.line is not None:
                text, where = f"{text}: {fault.evidence}", f"{where}:{fault.line}"
            elif diagnosis.last_line:
                text = f"{text}; its last line: {diagnosis.last_line}"
        if fault:
            self._conclude([f"{word}: {said}" for word, said in fault.rows()])
        free = free_bytes(self._cwd)
        # Not every compiler says why it could not write; and what it had written it removes when it fails.
        if free is not None and (free < LITTLE or (fault and fault.fault_class == "disk-full")):
            return NoSpaceError(
                f"{text} (little space left: {show_bytes(free)} free in {self._cwd})",
                where=where,
                hint="free some (`sparkbuild store gc`), and run the same again",
            )
        hint = fault.advice if fault else "the log is gone; the command may have removed it"
        return BuildFailedError(text, where=where, hint=hint)

    def _conclude(self, lines: list[str]) -> None:
        """End the log with what is wrong, so that to open it is enough."""
        with contextlib.suppress(SparkbuildError):  # what failed is told all the same
            descriptor = logfile.open_log(self._log)
            try:
                logfile.write(self._log, descriptor, lines)
            finally:
                os.close(descriptor)


def shown(argv: Sequence[str]) -> str:
    """Return how messages call a command: of paths only the end, since the folders are ours, and long."""
    text = shlex.join(Path(word).name if word.startswith("/") else word for word in argv)
    return f"`{text}`" if len(text) <= 100 else f"`{text[:97]}...`"  # noqa: PLR2004 - what fits in a line


def start(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, name: str | None = None
) -> Running:
    """Start `argv` in folder `cwd` with exactly the environment `env`; output is appended to `log`.

    The command is searched on the PATH in `env`. Messages call it by `name`, or by its words.

    Raises:
        NoSpaceError, MachineError: the log cannot be written.
        InterruptedRunError: a signal came before.
    """
    return Running(argv, cwd=cwd, env=env, log=log, name=name)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float | None = None,
    on_line: Callable[[str], None] | None = None,
    check: bool = True,
    name: str | None = None,
) -> Finished:
    """Run `argv` to its end: `start`, then `Running.wait`, which see."""
    running = start(argv, cwd=cwd, env=env, log=log, name=name)
    return running.wait(timeout_s=timeout_s, on_line=on_line, check=check)


def _start_guardian(log_fd: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    script = os.open(GUARDIAN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Not by its path, and with the base interpreter: its command line then holds no word `sparkbuild`,
        # so that `pkill -9 -f sparkbuild` spares the one process that clears up.
        python = getattr(sys, "_base_executable", None) or sys.executable
        guardian = subprocess.Popen(
            [python, "-I", "-S", f"/proc/self/fd/{script}", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            pass_fds=(theirs.fileno(), script),
            start_new_session=True,
            cwd="/",
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )
    except BaseException as error:
        ours.close()
        if isinstance(error, OSError):
            text = f"no process can be started: {error.strerror}"
            raise MachineError(text, hint="check the limits on processes and memory (ulimit -a)") from error
        raise
    finally:
        theirs.close()
        os.close(script)
    return ours, guardian


def _request(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    fields = [str(len(argv)), *argv, str(cwd), *(f"{name}={value}" for name, value in env.items())]
    if any("\0" in field for field in fields):
        raise BuildFailedError(
            f"a NUL character in the arguments or environment of {argv[0]!r}",
            hint="look at the recipe's commands and env",
        )
    body = b"\0".join(os.fsencode(field) for field in fields)
    return b"%d\n%s" % (len(body), body)


def _parse(line: bytes) -> dict[str, Any]:
    import json

    word: dict[str, Any] = json.loads(line)
    return word


def _foot(finished: Finished) -> list[str]:
    code = finished.returncode
    how = f"exit {code}" if code >= 0 else _signal_name(-code)
    lines = [f"left running, and killed: {name}" for name in finished.leftovers]
    peak = f"peak {finished.peak_bytes / 2**20:.0f} MiB"
    told = "stopped, " if finished.stopped else ""
    return [*lines, f"{told}{how}, wall {finished.wall_s:.2f} s, cpu {finished.cpu_s:.2f} s, {peak}"]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
