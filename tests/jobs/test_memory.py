"""How much memory there is, in machines and in containers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.jobs.memory import (
    Memory,
    children,
    cpu_count,
    oom_kills,
    read_memory,
    stalled,
    tree,
    tree_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path

GB = 1 << 30
MEMINFO = "MemTotal:       134217728 kB\nMemFree:        1048576 kB\nMemAvailable:   67108864 kB\n"


def root(folder: Path, **files: str) -> Path:
    """Make a /proc and /sys."""
    everything = {"proc/meminfo": MEMINFO} | files
    for name, text in everything.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def v2(folder: str, limit: str, used: int, cache: int = 0, high: str = "max") -> dict[str, str]:
    base = f"sys/fs/cgroup/{folder}".rstrip("/")
    return {
        f"{base}/memory.max": f"{limit}\n",
        f"{base}/memory.high": f"{high}\n",
        f"{base}/memory.current": f"{used}\n",
        f"{base}/memory.stat": f"anon 5\ninactive_file {cache}\nactive_file 7\n",
    }


def v1(folder: str, limit: int, used: int, cache: int = 0) -> dict[str, str]:
    base = f"sys/fs/cgroup/memory/{folder}".rstrip("/")
    return {
        f"{base}/memory.limit_in_bytes": f"{limit}\n",
        f"{base}/memory.usage_in_bytes": f"{used}\n",
        f"{base}/memory.stat": f"cache 1\ninactive_file 3\ntotal_inactive_file {cache}\n",
    }


def test_a_machine_without_limits(tmp_path: Path) -> None:
    assert read_memory(root(tmp_path)) == Memory(128 * GB, 64 * GB)


def test_a_kernel_that_does_not_tell_what_is_available(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO.replace("MemAvailable", "Other")}
    assert read_memory(root(tmp_path, **files)) == Memory(128 * GB, GB)


def test_version_2_in_a_container_that_sees_itself_as_the_top(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", **v2("", str(16 * GB), 6 * GB, 2 * GB)}
    assert read_memory(root(tmp_path, **files)) == Memory(16 * GB, 12 * GB, limited=True)


@pytest.mark.parametrize("path", ["/docker/abc", "/../../docker/abc"])
def test_a_path_of_the_outside_means_the_top(tmp_path: Path, path: str) -> None:
    files = {"proc/self/cgroup": f"0::{path}\n", **v2("", str(16 * GB), 6 * GB)}
    assert read_memory(root(tmp_path, **files)).available == 10 * GB


def test_version_2_takes_the_tightest_of_all_above(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/user.slice/run.scope\n",
        **v2("user.slice/run.scope", "max", GB),
        **v2("user.slice", str(8 * GB), 3 * GB),
    }
    assert read_memory(root(tmp_path, **files)) == Memory(8 * GB, 5 * GB, limited=True)


def test_memory_high_is_a_limit_too(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/a\n", **v2("a", "max", GB, high=str(4 * GB))}
    assert read_memory(root(tmp_path, **files)).available == 3 * GB


def test_version_1(tmp_path: Path) -> None:
    lines = "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n"
    files = {
        "proc/self/cgroup": lines,
        **v1("docker/abc", 16 * GB, 9 * GB, GB),
        **v1("", 0x7FFFFFFFFFFFF000, GB),
    }
    assert read_memory(root(tmp_path, **files)) == Memory(16 * GB, 8 * GB, limited=True)


def test_more_used_than_allowed_leaves_nothing(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", **v2("", str(GB), 2 * GB)}
    assert read_memory(root(tmp_path, **files)).available == 0


def test_files_that_are_damaged_or_missing_limit_nothing(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5\n"}
    assert not read_memory(root(tmp_path, **files)).limited


def test_this_machine_tells() -> None:
    memory = read_memory()
    assert 0 < memory.available <= memory.total
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)
    assert 0 <= stalled() <= 100
    assert oom_kills() >= 0


def test_stalls(tmp_path: Path) -> None:
    assert stalled(tmp_path) == 0
    text = (
        "some avg10=12.50 avg60=1.00 avg300=0.00 total=99\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=9\n"
    )
    assert stalled(root(tmp_path, **{"proc/pressure/memory": text})) == 12.5


def test_kills(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0
    assert oom_kills(root(tmp_path, **{"proc/vmstat": "nr_free_pages 1\noom_kill 7\n"})) == 7


@pytest.mark.parametrize(("quota", "count"), [("150000 100000", 2), ("1000 100000", 1), ("max 100000", None)])
def test_a_quota_of_cpus(tmp_path: Path, quota: str, count: int | None) -> None:
    free = len(os.sched_getaffinity(0))
    found = cpu_count(root(tmp_path, **{"sys/fs/cgroup/cpu.max": quota}))
    assert found == (free if count is None else min(count, free))


def test_a_tree_of_processes_is_measured_whole() -> None:
    flags = "mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS|mmap.MAP_POPULATE"
    take = f"import mmap,sys; m=mmap.mmap(-1,40_000_000,flags={flags})"
    inner = f"{take}; print('ready', flush=True); sys.stdin.read()"
    outer = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    command = [sys.executable, "-c", outer]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        below = children()
        assert len(tree(process.pid, below)) == 2
        assert 40_000_000 < tree_bytes(process.pid, below) < 100_000_000
        assert process.pid in tree(os.getpid(), below)
        process.stdin.close()
    assert tree_bytes(process.pid, {}) == 0
