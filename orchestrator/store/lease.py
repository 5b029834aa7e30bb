"""Leases: what a running process uses, so that gc leaves it alone.

A lease is a file `locks/leases/<run>` that its process keeps locked (flock); each line names one thing as
`<folder>/<name>`. The kernel lets go when the process dies, whatever killed it. Leases are taken and
extended under `locks.guard`, under which gc removes: first lease, then look whether the thing is there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Literal, Self

from orchestrator.errors import StoreError
from orchestrator.store.atomic import disk_errors
from orchestrator.store.locks import guard
from orchestrator.store.names import is_run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from orchestrator.store.home import Home

Kind = Literal["artifacts", "layers", "wheels", "downloads", "git", "work", "logs"]
"""What can be leased; `artifacts` means a key, served or rejected."""


def new_run() -> str:
    """Return a fresh name for a run, sortable by time: it names its lease, work and log folders."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{secrets.token_hex(2)}"


class Lease:
    """A lease of this process. Use as a context manager; its work and log folders belong to it."""

    def __init__(self, home: Home, run: str | None = None) -> None:
        """Take a lease.

        Args:
            home: whose things it names.
            run: name of the run; a fresh one by default.

        Raises:
            StoreError: another live process has a lease of this name, or the file cannot be made.
            NoSpaceError: the disk is full.
        """
        self.home = home
        self.run = run or new_run()
        self._names: set[str] = set()
        self._lock = threading.Lock()
        path = leases_folder(home) / self.run
        with guard(home), disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("ab")
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.close()
                raise StoreError(
                    f"a run named {self.run} is going on", where=str(path), hint="choose another name"
                ) from None
            except BaseException:
                stream.close()
                raise
            stream.truncate(0)  # a dead run of this name: what it used is nobody's now
        self._path = path
        self._stream: IO[bytes] | None = stream

    def use(self, kind: Kind, names: Iterable[str]) -> None:
        """Keep these from gc until the lease ends; one call for many is cheaper. Then look for them.

        Any thread may call it.

        Raises:
            StoreError: the lease has ended, or its file cannot be written.
            NoSpaceError: the disk is full.
        """
        with self._lock:
            fresh = sorted({f"{kind}/{name}" for name in names} - self._names)
            if not fresh:
                return
            if self._stream is None:
                raise StoreError("the lease has ended", where=str(self._path), hint="take a new one")
            with guard(self.home), disk_errors(self._path):
                self._stream.write("".join(f"{name}\n" for name in fresh).encode())
                self._stream.flush()
            self._names.update(fresh)

    def release(self) -> None:
        """End the lease; a second time does nothing."""
        if self._stream is None:
            return
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            self._stream.close()
        self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Leased:
    """What all live leases name, at one moment; read it under `locks.guard`."""

    def __init__(self, runs: frozenset[str], names: frozenset[str]) -> None:
        self.runs = runs
        self._names = names

    def covers(self, kind: str, name: str) -> bool:
        """Tell whether a live run uses `kind`/`name`; its own work and log folders count."""
        if kind == "rejected":
            kind = "artifacts"
        return f"{kind}/{name}" in self._names or (kind in {"work", "logs"} and name in self.runs)


def read_leases(home: Home, *, clean: bool) -> Leased:
    """Read all live leases; `clean` removes the dead ones, which is safe under `locks.guard` only.

    A file whose name is no run's may be anybody's: it is heard when locked, and never removed.

    Raises:
        StoreError: a lease cannot be read; then nothing may be removed.
    """
    runs: set[str] = set()
    names: set[str] = set()
    folder = leases_folder(home)
    with disk_errors(folder):
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in paths:
        with disk_errors(path):
            used = _live_names(path, clean=clean and is_run(path.name))
        if used is not None:
            runs.add(path.name)
            names.update(used)
    return Leased(frozenset(runs), frozenset(names))


def leases_folder(home: Home) -> Path:
    """Return the folder of lease files."""
    return home.locks / "leases"


def _live_names(path: Path, *, clean: bool) -> list[str] | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        stream = path.open("r+b")  # for writing too: network file systems lock only such
    except FileNotFoundError:
        return None  # just released
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return stream.read().decode().splitlines()
        if clean:
            path.unlink(missing_ok=True)
        return None
