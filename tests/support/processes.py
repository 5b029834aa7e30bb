"""Find processes by a tag in their arguments or environment, and wait until they are gone."""

from __future__ import annotations

import os
import time
from pathlib import Path


def alive(tag: str) -> list[str]:
    """Return the command lines of living processes, other than this one, that carry `tag`."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
            line = (folder / "cmdline").read_bytes()
            if state not in b"ZX" and tag.encode() in line + (folder / "environ").read_bytes():
                found.append(f"{folder.name}: {line.replace(bytes(1), b' ').decode(errors='replace')}")
        except OSError:
            continue
    return found


def wait_for_count(tag: str, count: int, *, limit_s: float = 10.0) -> None:
    """Wait until at least `count` processes carry `tag`; AssertionError when they do not come."""
    end = time.monotonic() + limit_s
    while len(alive(tag)) < count:
        assert time.monotonic() < end, f"only {alive(tag)}"
        time.sleep(0.02)


def survivors(tag: str, *, limit_s: float = 2.0) -> list[str]:
    """Return what still carries `tag` after `limit_s`, or at once when nothing does."""
    end = time.monotonic() + limit_s
    while (found := alive(tag)) and time.monotonic() < end:
        time.sleep(0.02)
    return found
