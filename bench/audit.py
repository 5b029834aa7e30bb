"""What the audit costs: `python bench/audit.py --wheels DIR [--cuobjdump PATH] [--runs N]`.

Each figure is the CPU time of a process of its own, and the most memory that it had. Beside each wheel
stands, measured in turn with it, what inflating the same members alone takes with zlib, without checksum.
Limits are those that the project set itself. Exits with 1 when one is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = 1 << 18
_MAGICS = (b"\x7fELF", b"!<arch>\n", b"\x50\xed\x55\xba")
_RATIO = 1.25
_MAPPED_CPU = 0.3


@dataclass(frozen=True)
class Cost:
    """CPU seconds and MiB of one process."""

    cpu: float
    peak: float


def inflate(path: Path) -> None:
    """Inflate what a list names, and nothing else: the wheel, then start and size of each member."""
    wheel, *places = path.read_text().splitlines()
    with Path(wheel).open("rb") as file:
        for place in places:
            start, left = map(int, place.split())
            file.seek(start)
            stream = zlib.decompressobj(-15)
            while left:
                data = file.read(min(_STEP, left))
                left -= len(data)
                while data:
                    stream.decompress(data, _STEP)
                    data = stream.unconsumed_tail


def list_members(wheel: Path, out: Path) -> None:
    """Write for `inflate` which members begin like device code, or what holds it."""
    lines = [str(wheel)]
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as file:
        for info in archive.infolist():
            with archive.open(info) as member:
                if not member.read(8).startswith(_MAGICS) or info.compress_type != zipfile.ZIP_DEFLATED:
                    continue
            file.seek(info.header_offset + 26)
            names = file.read(4)
            start = (
                info.header_offset + 30 + sum(int.from_bytes(names[at : at + 2], "little") for at in (0, 2))
            )
            lines.append(f"{start} {info.compress_size}")
    out.write_text("\n".join(lines))


def header_audit(path: Path, *, inside: bool = False) -> None:
    """Audit a wheel as the command does."""
    from orchestrator.audit.question import Question
    from orchestrator.inspect.wheel import audit_wheels
    from orchestrator.model.archvalues import Device

    audit_wheels([path], Question(devices=(Device(12, 1),), deep=inside), spec=path.name)


def deep_audit(path: Path) -> None:
    """Audit a wheel and list its kernels."""
    header_audit(path, inside=True)


def file_audit(path: Path) -> None:
    """Audit a library on disk."""
    import mmap

    from orchestrator.audit.scan import scan
    from orchestrator.audit.stream import MappedStream

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        scan(path.name, lambda: MappedStream(mapped))


_JOBS: dict[str, Callable[[Path], None]] = {
    "inflate": inflate,
    "header": header_audit,
    "deep": deep_audit,
    "file": file_audit,
}


def child(job: str, path: Path) -> None:
    """Do one job and say how much memory it took. Not ru_maxrss: that begins with what the parent had."""
    _JOBS[job](path)
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def cost(*command: str) -> Cost:
    """Run one process and return what it took."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed")
        out.seek(0)
        said = out.read().split()
    peak = int(said[-1]) if len(said) == 1 else usage.ru_maxrss
    return Cost(usage.ru_utime + usage.ru_stime, peak / 1024)


def least(runs: int, *jobs: tuple[str, ...]) -> list[Cost]:
    """Run jobs in turn, several times, and return the least that each took."""
    found: list[list[Cost]] = [[] for _ in jobs]
    for _ in range(runs):
        for costs, job in zip(found, jobs, strict=True):
            costs.append(cost(*job))
    return [Cost(min(each.cpu for each in costs), max(each.peak for each in costs)) for costs in found]


def job(name: str, path: Path) -> tuple[str, ...]:
    """Return the command that does one job."""
    return (sys.executable, __file__, "--child", name, str(path))


def row(what: str, found: Cost, cpu: float | None, peak: float | None = None, note: str = "") -> bool:
    """Print a line, and return whether the limits are kept."""
    kept = (cpu is None or found.cpu <= cpu) and (peak is None or found.peak <= peak)
    limits = f"{'' if cpu is None else f'{cpu:7.2f}':>7} {'' if peak is None else f'{peak:5.0f}':>5}"
    word = "" if cpu is None else "ok" if kept else "TOO MUCH"
    print(f"{what:48} {found.cpu:7.2f} {found.peak:6.0f}  {limits}  {word:8} {note}", flush=True)
    return kept


def main() -> int:
    """Run all that the wheels in the folder allow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--cuobjdump")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return 0
    if options.wheels is None:
        parser.error("--wheels is missing")
    print(f"{'least of ' + str(options.runs):48} {'CPU s':>7} {'MiB':>6}  {'limit':>7} {'MiB':>5}")
    kept = [True]
    for name, peak in (("vllm-", 80), ("torch-", 80), ("flashinfer_cubin-", 80)):
        for path in sorted(options.wheels.glob(f"{name}*.whl"))[:1]:
            with tempfile.TemporaryDirectory() as folder:
                members = Path(folder, "members")
                list_members(path, members)
                bare, audit = least(options.runs, job("inflate", members), job("header", path))
            row(f"{path.name[:30]}: inflate alone", bare, None)
            note = f"{audit.cpu / bare.cpu:.2f} x inflate"
            kept.append(row(f"{path.name[:30]}: audit", audit, _RATIO * bare.cpu, peak, note))
    for path in sorted(options.wheels.glob("vllm-*.whl"))[:1]:
        (deep,) = least(options.runs, job("deep", path))
        kept.append(row(f"{path.name[:30]}: audit --deep", deep, 6, 150))
    found = sorted(options.wheels.glob("torch-*.whl"))[:1]
    kept += [_on_disk(path, options.runs, options.cuobjdump) for path in found]
    return 0 if all(kept) else 1


def _on_disk(wheel: Path, runs: int, cuobjdump: str | None) -> bool:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        library = Path(archive.extract("torch/lib/libtorch_cuda.so", folder))
        (audit,) = least(runs, job("file", library))
        kept = row("libtorch_cuda.so on disk: audit", audit, _MAPPED_CPU)
        if cuobjdump:
            row("libtorch_cuda.so on disk: cuobjdump", cost(cuobjdump, "-lelf", "-lptx", str(library)), None)
    return kept


if __name__ == "__main__":
    sys.exit(main())
