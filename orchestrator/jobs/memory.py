"""How much memory there is, and how much a tree of processes takes.

Facts: proc(5) for /proc/meminfo, smaps_rollup and pressure; the kernel's cgroup-v2.rst and
cgroup-v1/memory.rst for limits. A container sees the machine's MemAvailable, so its own limit counts too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_KIB = 1024
_LEAST_RESERVE, _MOST_RESERVE = 1 << 29, 8 << 30
_RESERVED = 16
"""One part in so many of all memory is left to everything else."""
_UNLIMITED = 1 << 60
"""cgroup v1 says "no limit" with a number near 2**63."""
_Files = tuple[tuple[str, ...], str, str]
"""Names: limits, use, and in memory.stat the part of it that is given back first."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the machine, or of the container that we are in."""

    total: int
    """Bytes."""
    available: int
    """Bytes that new processes can have without swapping."""
    limited: bool = False
    """Whether a cgroup, not the machine, sets these figures."""


def read_memory(root: Path = Path("/")) -> Memory:
    """Return what there is now: the machine's figures, or the tightest limit of a cgroup that we are in.

    Args:
        root: where /proc and /sys are; for tests.
    """
    values = {}
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable", "MemFree"):
            values[name] = int(rest.split()[0]) * _KIB
    total = values["MemTotal"]
    memory = Memory(total, values.get("MemAvailable", values.get("MemFree", total)))
    for limit, used in _limits(root):
        left = max(0, limit - used)
        if limit < memory.total or left < memory.available:
            memory = Memory(min(limit, memory.total), min(left, memory.available), limited=True)
    return memory


def reserve(root: Path = Path("/")) -> int:
    """Return the bytes of memory that builds leave to everything else."""
    return min(max(read_memory(root).total // _RESERVED, _LEAST_RESERVE), _MOST_RESERVE)


def _limits(root: Path) -> Iterable[tuple[int, int]]:
    """Yield limit and use, in bytes, of each cgroup from our own up to the top."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = root / "sys/fs/cgroup"
            names: tuple[tuple[str, ...], str, str] = (
                ("memory.max", "memory.high"),
                "memory.current",
                "inactive_file",
            )
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = base / path.lstrip("/")
        if ".." in folder.parts or not folder.is_dir():  # a container sees its own cgroup as the top
            folder = base
        while True:
            found = _limit(folder, *names)
            if found is not None:
                yield found
            if folder == base:
                break
            folder = folder.parent


def _limit(folder: Path, limits: Iterable[str], used_name: str, cache: str) -> tuple[int, int] | None:
    found = []
    for name in limits:
        try:
            found.append(int((folder / name).read_text()))
        except (OSError, ValueError):  # "max", or an older kernel
            continue
    limit = min(found, default=_UNLIMITED)
    if limit >= _UNLIMITED:
        return None
    try:
        used = int((folder / used_name).read_text())
        stat = (folder / "memory.stat").read_text()
    except (OSError, ValueError):
        return None
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name == cache:  # file pages that the kernel gives back first
            used -= int(value)
    return limit, max(0, used)


def cpu_count(root: Path = Path("/")) -> int:
    """Return the CPUs that we may use: affinity, and a cgroup's quota, rounded up."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return count


def stalled(root: Path = Path("/")) -> float:
    """Return the share of the last ten seconds in which somebody waited for memory: 0 to 100.

    0 where the kernel does not tell (no PSI).
    """
    try:
        line = (root / "proc/pressure/memory").read_text().splitlines()[0]
        return float(line.split("avg10=")[1].split()[0])
    except (OSError, IndexError, ValueError):
        return 0.0


def children() -> dict[int, list[int]]:
    """Return parent -> children of all processes, from one pass over /proc."""
    below: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - two times a second, a thousand entries
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123 - the same
                    # the name, in parentheses, may hold anything; what follows its last `)` is regular
                    parent = int(file.read().rpartition(b")")[2].split(None, 2)[1])
            except (OSError, IndexError):
                continue
            below.setdefault(parent, []).append(int(entry))
    return below


def tree(root: int, below: dict[int, list[int]]) -> list[int]:
    """Return `root` and all processes below it."""
    found = [root]
    for pid in found:
        found.extend(below.get(pid, ()))
    return found


def tree_bytes(root: int, below: dict[int, list[int]]) -> int:
    """Return what a tree of processes takes: the sum of proportional set sizes (PSS).

    Shared pages count once, split among those that share them. A process of which the kernel does not
    tell counts with its resident size.
    """
    return sum(_process_bytes(pid) for pid in tree(root, below))


def _process_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 - often
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * _KIB
    except OSError:
        pass
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - often
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def oom_kills(root: Path = Path("/")) -> int:
    """Return how many processes the kernel has killed since it started because memory ran out.

    Those of other containers count too. 0 where the kernel does not tell (before 4.13).
    """
    try:
        for line in (root / "proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0
