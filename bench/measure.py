"""Whole-process figures: CPU seconds of a command and of all that it started and waited for."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPARKBUILD = (sys.executable, "-P", "-m", "orchestrator")


def cpu_seconds(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> float:
    """Run a command, which must succeed, and return its user and system time with its children's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        check=True,
        env=os.environ | dict(env or {}),
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def report(name: str, figures: Sequence[float], limit: float) -> bool:
    """Print minimum, median and maximum against a limit, and return whether the median keeps it."""
    median = statistics.median(figures)
    kept = median <= limit
    word = "ok" if kept else "TOO MUCH"
    print(f"{name:44} {min(figures):7.3f} {median:7.3f} {max(figures):7.3f}  limit {limit:6.2f}  {word}")
    return kept
