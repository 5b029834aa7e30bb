"""100,000 damaged fatbins, ELFs, archives and wheels: each is read in short time and little memory.

A seeded loop in a process of its own, so that memory and hangs are seen. `-m mutations` runs it all; a
small part always runs. A failure names seed and number, with which `python test_mutations.py KIND SEED
FIRST COUNT` repeats it.
"""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.audit.stream import Stream

SECONDS_AT_MOST = 5.0
MIB_AT_MOST = 200
SHARES = {"fatbin": 32_000, "elf": 32_000, "cubin": 16_000, "archive": 10_000, "wheel": 10_000}
SAMPLES = {
    "fatbin": ("none.fatbin", "size.fatbin", "speed.fatbin", "ptx.121a.fatbin"),
    "elf": ("hollow121.so", "linked.so", "array.so", "plain.o", "rdc.o", "lto.o"),
    "cubin": ("80.cubin", "90a.cubin", "121a.cubin", "rel.121a.cubin"),
    "archive": ("mixed.a",),
    "wheel": ("hollow.so", "size.fatbin", "121a.cubin", "mixed.a"),
}
ODD = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)


@pytest.mark.parametrize("kind", sorted(SHARES))
def test_a_few_mutations(kind: str) -> None:
    run(kind, SHARES[kind] // 100)


@pytest.mark.mutations
@pytest.mark.parametrize("kind", sorted(SHARES))
def test_all_mutations(kind: str) -> None:
    assert sum(SHARES.values()) == 100_000
    run(kind, SHARES[kind])


def run(kind: str, count: int) -> None:
    """Run the loop of one kind in a process."""
    import orchestrator

    folders = [Path(next(iter(orchestrator.__path__))).parent, Path(__file__).parents[1] / "support"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-P", __file__, kind, "121", "0", str(count)]
    shown = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert shown.returncode == 0, shown.stderr
    told, peak = map(int, shown.stdout.split())
    assert told > count // 20, "hardly any damage was told"
    assert peak < MIB_AT_MOST << 10


def mutated(generator: random.Random, content: bytes) -> bytes:
    """Damage bytes in one to four places, in one of the ways in which files get damaged or forged."""
    found = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        # headers and tables lie at both ends of most files
        reach = generator.choice((128, 2048, len(found)))
        at = min(generator.randrange(reach), len(found) - 1)
        if generator.random() < 0.3:
            at = len(found) - 1 - at
        length = generator.choice((1, 2, 4, 8))
        match generator.randrange(6):
            case 0 | 1:
                found[at] ^= generator.randint(1, 255)
            case 2 | 3:
                value = generator.choice((*ODD, len(found), at, generator.randrange(1 << 16)))
                found[at : at + length] = (value & (1 << 8 * length) - 1).to_bytes(length, "little")
            case 4:
                piece = found[at : at + generator.choice((4, 64, 512))]
                target = generator.randrange(len(found))
                found[target : target + len(piece) * generator.randrange(2)] = piece
            case _:
                del found[at : at + generator.choice((1, 8, 64, len(found) // 2))]
        if not found:
            return b""
    return bytes(found)


def packed(names: tuple[str, ...], read: Callable[[str], bytes]) -> bytes:
    """Return a wheel with these samples."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(f"pkg/{name}", read(name))
        archive.writestr("pkg/plain.so", read("plain.o"), zipfile.ZIP_STORED)
        archive.writestr("pkg/__init__.py", "import os\n" * 200)
    return target.getvalue()


def opened(content: bytes, split: int) -> Stream:
    """Return a stream: mapped, or in chunks of `split`."""
    from orchestrator.audit.stream import ChunkStream, MappedStream

    if not split:
        return MappedStream(content)
    return ChunkStream((content[at : at + split] for at in range(0, len(content), split)), len(content))


def main(kind: str, seed: int, first: int, count: int) -> None:
    """Read mutations; print how many had a finding, and the most memory in KiB."""
    from devicefiles import data

    from orchestrator.audit.question import Question
    from orchestrator.audit.report import judge_spec
    from orchestrator.audit.scan import scan
    from orchestrator.errors import SpecError
    from orchestrator.inspect.wheel import audit_wheels
    from orchestrator.model.archvalues import Device

    question = Question(devices=(Device(12, 1), Device(9, 0)), deep=True)
    contents = [data(name) for name in SAMPLES[kind]]
    if kind == "wheel":
        contents = [packed(SAMPLES[kind], data)]
    told = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder, "pkg-1.0-py3-none-any.whl")
        for number in range(first, first + count):
            generator = random.Random(f"{kind} {seed} {number}")
            content = mutated(generator, generator.choice(contents))
            signal.setitimer(signal.ITIMER_REAL, SECONDS_AT_MOST)
            try:
                if kind == "wheel":
                    wheel.write_bytes(content)
                    report = audit_wheels([wheel], question, spec="x")
                else:
                    facts = scan("x", partial(opened, content, number % 3 * 1000), inside=True)
                    report = judge_spec("x", [facts], question, files=["x"])
                told += report.verdict != "pass" or any(m.findings for m in report.devices[0].modules)
            except SpecError:
                told += 1
            except BaseException:
                sys.stderr.write(f"mutation {kind} {seed} {number}\n")
                raise
            signal.setitimer(signal.ITIMER_REAL, 0)
    # not ru_maxrss: it starts with what the parent had when it forked
    status = Path("/proc/self/status").read_text()
    sys.stdout.write(
        f"{told} {next(line.split()[1] for line in status.splitlines() if line.startswith('VmHWM'))}\n"
    )


def _late(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"more than {SECONDS_AT_MOST} seconds")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _late)
    main(sys.argv[1], *map(int, sys.argv[2:5]))
