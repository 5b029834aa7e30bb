"""The locks of the store. All are held by the kernel (flock): a killed process holds none.

Lock files stay where they are: removing one would let two processes hold "the same" lock.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from orchestrator.report.events import Note, silent
from orchestrator.store.atomic import disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filelock import BaseFileLock

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


_CHECK_S = 0.5
"""How often one who waits looks whether he still wants to."""


@contextmanager
def guard(home: Home) -> Iterator[None]:
    """Hold the one lock under which the store changes shape; for milliseconds, never nested.

    Renames into place, rewritten manifests, taken leases and gc's removals happen under it. Reading does not.

    Raises:
        StoreError, NoSpaceError: the lock file cannot be made.
    """
    from filelock import FileLock

    path = home.locks / "store.lock"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def key_lock(
    home: Home,
    key: str,
    *,
    what: str | None = None,
    emit: Emit = silent,
    check: Callable[[], None] = lambda: None,
) -> Iterator[bool]:
    """Hold the right to build `key`; who has to wait is told so, and should look into the store again.

    Args:
        home: where the lock lies.
        key: a build key, or another name fit for a file.
        what: how a person calls it; the start of the key by default.
        emit: hears a note when another run holds the lock.
        check: called now and then while it waits; what it raises ends the wait.

    Yields:
        Whether it had to wait: then the other run may have made what this one wants.

    Raises:
        StoreError, NoSpaceError: the lock file cannot be made.
    """
    from filelock import FileLock, Timeout

    path = home.locks / "keys" / f"{key}.lock"
    waited = False
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waited = True
            emit(Note("info", f"another run is building {what or key[:12]}, waiting"))
            _wait(lock, check)
    try:
        yield waited
    finally:
        lock.release()


def _wait(lock: BaseFileLock, check: Callable[[], None]) -> None:
    from filelock import Timeout

    while True:
        check()
        try:
            lock.acquire(timeout=_CHECK_S)
        except Timeout:
            continue
        return
