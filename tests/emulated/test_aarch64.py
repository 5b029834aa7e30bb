"""sparkbuild itself on an emulated aarch64 Debian: the tiny CUDA project through every stage.

Emulated are the machine's programs, among them nvcc and ptxas of the aarch64 wheels; there is no GPU.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from debiantree import run
from emulatedinstall import PLACE, SPARKBUILD, install
from emulation import Emulation, obstacle
from filelock import FileLock
from tinyproject import Ran, TinyProject

from orchestrator.model.platform import Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.emulated, pytest.mark.network]

EM_AARCH64 = 183
_LIMIT_S = 3600
LOAD = """\
import ctypes, pathlib, platform, sys
import tiny_cuda
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(str(pathlib.Path(tiny_cuda.__file__).with_name("_C.so")))
assert library.tiny_launch_scale and library.tiny_launch_shift
print(platform.machine(), tiny_cuda.__version__, tiny_cuda.__file__)
"""


@dataclass(frozen=True)
class Spark:
    """The emulated machine, the tiny project on it, and how its first build went."""

    machine: Emulation
    project: TinyProject
    built: Ran

    def run(self, *argv: str | Path) -> str:
        """Run a command there, which must go well."""
        folders = (self.project.root, self.project.shared)
        return run(*self.machine.command(*argv, cwd=self.project.root, shared=folders))


@pytest.fixture(scope="module")
def spark(shared_layers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Return a machine on which sparkbuild has built the tiny project from its git repository."""
    if reason := obstacle():
        pytest.skip(f"no emulation of aarch64: {reason}")
    cache = shared_layers / "aarch64"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "lock", timeout=_LIMIT_S):
        yield from build(cache, tmp_path_factory.mktemp("spark"))


def build(cache: Path, root: Path) -> Iterator[Spark]:
    """Make the machine and the project, build it, and clean up."""
    machine = Emulation.make(cache)
    if reason := machine.obstacle():
        pytest.skip(f"no emulation of aarch64: {reason}")
    install(machine, cache / "sparkbuild")
    project = TinyProject.make(root / "t", cache / "state", Target("linux-aarch64", machine.python))
    folders = (project.root, project.shared)
    state = {"SPARKBUILD_HOME": str(project.home)}
    project.sparkbuild = tuple(machine.command(SPARKBUILD, cwd=project.root, shared=folders, env=state))
    project.limit_s = _LIMIT_S
    yield Spark(machine, project, project.run("all", "--stack", "tiny"))
    for path in project.home.glob("work/**/*"):  # read-only in part; pytest could not remove them
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def images(report: str) -> dict[str, object]:
    """Return the images of the one library of an audit's JSON."""
    (spec,) = json.loads(report)["specs"]
    (module,) = [module for module in spec["modules"] if module["path"].endswith(".so")]
    assert (spec["verdict"], module["verdict"]) == ("pass", "native")
    found: dict[str, object] = module["images"]
    return found


def test_every_stage_ends_in_a_wheel_for_aarch64(spark: Spark) -> None:
    assert spark.built.code == 0, spark.built.err
    assert "linux-aarch64" in spark.built.err + spark.built.out
    assert "sm_121a 3/3" in spark.built.out
    python = f"cp{spark.machine.python.replace('.', '')}"
    name = f"tiny_cuda-1.0+cu130.sm121a-{python}-{python}-linux_aarch64.whl"
    assert spark.project.wheel.name == name
    with zipfile.ZipFile(spark.project.wheel) as wheel:
        library = wheel.read("tiny_cuda/_C.so")
    assert library[:4] == b"\x7fELF"
    assert int.from_bytes(library[18:20], "little") == EM_AARCH64


def test_its_audit_says_the_same_there_and_on_this_machine(spark: Spark) -> None:
    arguments = ("audit", "--json", str(spark.project.wheel))
    there = spark.project.run(*arguments)
    here = TinyProject(spark.project.root, spark.project.shared).run(*arguments)
    assert (there.code, here.code) == (0, 0), there.err + here.err
    assert images(there.out) == {"sass": {"sm_121a": 3}}
    assert json.loads(there.out) == json.loads(here.out)


def test_plain_pip_installs_it_there_and_it_loads(spark: Spark) -> None:
    python = spark.project.root / "user" / "bin" / "python"
    spark.run("/usr/bin/python3", "-m", "venv", "--without-pip", python.parents[1])
    pip = (PLACE / "bin" / "pip", "--python", python, "install", "-q", "--isolated")
    spark.run(*pip, "--index-url", (spark.project.dist / "simple").as_uri(), "tiny-cuda")
    (runtime,) = spark.project.shared.glob("layers/*/site/nvidia/cu13/lib/libcudart.so.13")
    said = spark.run(python, "-c", LOAD, runtime)
    assert said.startswith("aarch64 1.0 ")
    assert str(python.parents[1]) in said


def test_the_same_again_does_nothing(spark: Spark) -> None:
    before = {path: path.stat().st_mtime_ns for path in spark.project.dist.rglob("*")}
    again = spark.project.run("all", "--stack", "tiny")
    assert again.code == 0, again.err
    assert "nothing to do" in again.out
    assert {path: path.stat().st_mtime_ns for path in spark.project.dist.rglob("*")} == before


def test_the_quickstart_is_planned_from_the_lock_for_aarch64(spark: Spark) -> None:
    planned = spark.project.run("plan", "all", "--stack", "quickstart", "--json")
    assert planned.code == 0, planned.err
    steps = {step["name"]: step for step in json.loads(planned.out)["steps"]}
    assert steps["pytorch"]["action"] == "prebuilt"
    own = steps["causal-conv1d"]
    assert (own["action"], own["effective_arches"]) == ("build", ["12.1a"])


def test_a_program_that_is_killed_leaves_none_behind(spark: Spark) -> None:
    command = spark.machine.command("/bin/sh", "-c", "sleep 120 & echo begun; wait")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        started.kill()
        # The pipe ends when the last that could write to it is gone.
        assert started.communicate(timeout=30)[0] == ""


def test_without_a_handler_the_reason_is_told(spark: Spark, tmp_path: Path) -> None:
    handler = tmp_path / "handler"
    handler.write_text(spark.machine.handler.read_text().replace(r"\xb7", r"\xf3"))  # programs for RISC-V
    told = replace(spark.machine, handler=handler).obstacle()
    assert "programs for aarch64 do not run" in told
    assert "Exec format error" in told
