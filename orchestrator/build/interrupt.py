"""Ctrl-C, SIGTERM, SIGHUP, and a deadline: running commands are stopped, then the run ends.

It ends as `InterruptedRunError`; a deadline, which comes as SIGALRM, as `DeadlineError`.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from orchestrator.errors import DeadlineError, InterruptedRunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


class Stoppable(Protocol):
    """A running command."""

    def stop(self, *, now: bool = False) -> None:
        """Ask it to end; return at once. `now`: without the grace between SIGTERM and SIGKILL."""

    def join(self) -> None:
        """Wait until nothing of it is left."""


class _State:
    """What is running, and whether a signal came. One per process, as signals are."""

    def __init__(self) -> None:
        self.signum: int | None = None
        # A dict: a signal handler must take no lock, and this one's operations and list() are atomic.
        self.running: dict[int, Stoppable] = {}

    def reset(self) -> None:
        """Forget a former signal."""
        self.signum = None


_STATE = _State()


def register(command: Stoppable) -> None:
    """Have `command` stopped when a signal comes."""
    _STATE.running[id(command)] = command
    if _STATE.signum is not None:  # it came between the caller's check and now
        command.stop()


def forget(command: Stoppable) -> None:
    """Take note that `command` is gone."""
    _STATE.running.pop(id(command), None)


def interrupted() -> bool:
    """Say whether a signal came."""
    return _STATE.signum is not None


def raise_if_interrupted() -> None:
    """Raise `InterruptedRunError` when a signal came: nothing new starts after that."""
    if _STATE.signum is not None:
        raise _error(_STATE.signum)


def _handle(signum: int, _frame: FrameType | None) -> None:
    first = _STATE.signum is None
    if first:
        _STATE.signum = signum
    for command in list(_STATE.running.values()):
        command.stop(now=not first)
    if first:
        raise _error(signum)


def _error(signum: int) -> InterruptedRunError:
    return DeadlineError() if signum == signal.SIGALRM else InterruptedRunError(signum)


@contextmanager
def interruptible(deadline_s: float | None = None) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP inside the block into `InterruptedRunError` in the main thread.

    Running commands are told to stop at once, in whichever thread they run, and the block is left only when
    nothing of them is alive. A second signal cuts their grace short. A signal that was ignored when the block
    was entered (nohup, a background job) stays ignored. After a signal nothing can be started any more, by
    whatever thread is left, until another block is entered. Outside the main thread, or nested, the block
    does nothing.

    Args:
        deadline_s: seconds after which the block is left in the same way; None: never.

    Raises:
        InterruptedRunError: a signal came; the exit code is 128 + its number.
        DeadlineError: the seconds are over.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is _handle
    ):
        yield
        return
    former = {}
    _STATE.reset()
    try:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                former[number] = signal.signal(number, _handle)
        if deadline_s is not None:
            signal.setitimer(signal.ITIMER_REAL, deadline_s)
        yield
    finally:
        if deadline_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if _STATE.signum is not None:
            for command in list(_STATE.running.values()):
                command.join()
        for number, handler in former.items():
            signal.signal(number, handler)
