"""Helpers of the store's tests: homes with things in them, and real child processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.report.events import Note
from orchestrator.store.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.report.events import Event
    from orchestrator.store.artifacts import Artifact, Store
    from orchestrator.store.home import Home

WORKER = Path(__file__).with_name("store_worker.py")
KEY = "ab" * 32
RUN = "20260102-030405-678-9abc"


class Heard:
    """An emit that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def notes(self, level: str) -> list[str]:
        """Texts of the notes of one level."""
        return [event.text for event in self.events if isinstance(event, Note) and event.level == level]


def content(key: str, size: int = 60_000) -> bytes:
    """Bytes that belong to a key, so that any process can tell whether it was given the right ones."""
    return (key.encode() * (size // len(key) + 1))[:size]


def write_wheel(folder: Path, key: str = KEY, name: str = "x-1.0-py3-none-any.whl") -> Path:
    """Write the file that belongs to a key."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content(key))
    return path


def draft(name: str = "x", **fields: Any) -> Manifest:
    """A manifest as a build makes it."""
    return Manifest(name=name, version="1.0", ingredients={"arch": "12.1a"}, **fields)


def put(store: Store, folder: Path, key: str = KEY) -> Artifact:
    """Store the file that belongs to a key."""
    return store.put(key, [write_wheel(folder, key)], draft())


def age(path: Path, days: float) -> None:
    """Make a thing, and its stamp if there is one, look unused for so long."""
    then = time.time() - days * 86400
    for place in (path / ".used", path):
        if place.exists():
            os.utime(place, (then, then))


def start(action: str, home: Home, *words: str, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a worker in its own process; it prints `ready` when it is at work."""
    return subprocess.Popen(
        [*prefix, sys.executable, str(WORKER), action, str(home.root), *words],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": _import_path()},
    )


def restrained() -> list[str]:
    """Return what to put before a command so that permissions bind it, even when we are root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    words = [setpriv or "", "--bounding-set", "-dac_override,-dac_read_search"]
    if setpriv is None or subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("permissions do not bind root here, and setpriv cannot change that")
    return words


def wait_ready(child: subprocess.Popen[str]) -> None:
    """Wait until a worker is at work."""
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"


def stop(child: subprocess.Popen[str]) -> None:
    """Kill a worker with SIGKILL and reap it."""
    child.kill()
    child.communicate()


def everything(root: Path) -> Sequence[str]:
    """All paths below a folder, to compare before and after."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def _import_path() -> str:
    """What this process can import, a child can too."""
    return os.pathsep.join(path for path in sys.path if path)
