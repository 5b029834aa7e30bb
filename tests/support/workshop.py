"""A broker, its tools and a stand-in compiler, all real: units are started as a build starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from orchestrator.jobs.broker import Broker
from orchestrator.jobs.history import Cost, History
from orchestrator.jobs.tools import variables, write_tools
from orchestrator.jobs.turns import StepJobs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.jobs.units import Record

MB = 1_000_000

COMPILER = """\
#!{python} -IS
# A unit's source is what this does with it.
import mmap, os, signal, sys, time
source = next(word for word in sys.argv if word.endswith((".c", ".cu")))
begun = time.monotonic()

if "-E" in sys.argv:  # ccache asks
    with open(source) as file:
        text = file.read()
    if "-o" in sys.argv:
        with open(sys.argv[sys.argv.index("-o") + 1], "w") as file:
            file.write(text)
    else:
        print(text)
    sys.exit()

def note(word):
    with open({log!r}, "a") as file:
        file.write(f"{{word}} {{os.path.basename(source)}} {{time.monotonic()}}\\n")

def first():
    "Whether this unit is compiled for the first time."
    try:
        open(source + ".seen", "x").close()
    except FileExistsError:
        return False
    return True

def take(megabytes):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    globals().setdefault("held", []).append(mmap.mmap(-1, megabytes * 1_000_000, flags=flags))

def end(number):
    os.kill(os.getpid(), number)

note("begin")
exec(open(source).read())
note("end")
if "-o" in sys.argv:
    with open(sys.argv[sys.argv.index("-o") + 1], "w") as file:
        file.write("object of " + source)
"""


def stand_in(path: Path, log: Path) -> Path:
    """Write the compiler; it notes in `log` when each unit begins and ends."""
    path.write_text(COMPILER.format(python=sys.executable, log=str(log)))
    path.chmod(0o755)
    return path


@dataclass
class Workshop:
    """Use it as a context manager; `env` is known inside."""

    folder: Path
    slots: int = 4
    reserve: int = 0
    budget: int | None = None
    compilers: Mapping[str, Path] | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    """More variables."""
    silence_s: float | None = None
    ccache: Path | None = None
    warnings: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.tools = self.folder / "tools"
        self.log = self.folder / "log"
        if self.compilers is None:
            (self.folder / "real").mkdir()
            names = {"cc": "gcc", "nvcc": "nvcc"}
            self.compilers = {
                name: stand_in(self.folder / "real" / real, self.log) for name, real in names.items()
            }
        write_tools(self.tools, self.compilers)
        default = Cost(50 * MB, 1.0)
        self.history = History(self.folder / "units.json", root=self.folder, default=default)
        self.step = StepJobs("step", self.history)

    def __enter__(self) -> Self:
        self.broker = Broker(
            slots=self.slots,
            reserve=self.reserve,
            budget=self.budget,
            warn=lambda _, text: self.warnings.append(text),
        )
        self.broker.__enter__()
        self.broker.open(self.step)
        self.env = self.environ(self.broker.address)
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close(self.step)
        self.broker.__exit__()

    def environ(self, address: str) -> dict[str, str]:
        """Return what a command of the build gets."""
        own = variables(self.tools, broker=address, step="step", ccache=self.ccache, silence_s=self.silence_s)
        return {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            **own,
            **self.more,
        }

    def write(self, name: str, text: str = "") -> None:
        """Write a unit's source."""
        (self.folder / name).write_text(text)

    def start(self, *command: str | bytes, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start a command as a build does."""
        return subprocess.Popen(
            command,
            cwd=cwd or self.folder,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def compile(self, name: str, text: str = "") -> subprocess.Popen[str]:
        """Start a unit; its source is what the stand-in does."""
        self.write(name, text)
        return self.start("cc", "-c", name, "-o", f"{name}.o")

    def run(self, *command: str | bytes, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*command, cwd=cwd)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    @property
    def records(self) -> list[Record]:
        """What became of the units whose commands have ended."""
        self.broker._drain()
        return self.step.records

    def notes(self) -> list[tuple[str, str, float]]:
        """Return what the stand-in noted: word, unit and time, in order."""
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return [(word, unit, float(at)) for word, unit, at in rows]


def finish(*processes: subprocess.Popen[str], limit_s: float = 60) -> list[int]:
    """Wait for commands, and return their exit codes."""
    codes = []
    for process in processes:
        process.communicate(timeout=limit_s)
        codes.append(process.returncode)
    return codes
