"""Runs of a stack with components that are taken as published, which nothing is built with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from faketools import assembler
from purestack import PureStack
from wheelhouse import make_wheel

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """\
schema: sparkbuild.recipe/1
name: compiler
summary: For tests
assemblers: [{file: compiler/ptxas, from: "10.0"}]
"""
WATCH = """\
import sys
starts = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.system", "pty.spawn"}
sys.addaudithook(lambda event, args: event in starts and sys.exit(f"started {event} {args!r}"))
from orchestrator.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


class Stack(PureStack):
    """A published compiler whose wheel pip finds in a folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls = root / "calls"
        self.shelf = root / "shelf"
        self.shelf.mkdir()
        self.arch = "12.1a"
        self.watched = False
        """Whether a run may start no process."""
        (self.recipes / "compiler.yaml").write_text(RECIPE)

    def publish(self, *able: str) -> Path:
        files = {"compiler/ptxas": assembler(*able, calls=str(self.calls))}
        self.published["compiler"], wheel = make_wheel(self.shelf, "compiler", files)
        return wheel

    def environment(self) -> dict[str, str]:
        """Return the environment of a run, in which pip knows of the folder only."""
        return super().environment() | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.shelf)}

    def command(self, *arguments: str) -> list[str]:
        """Return the argument list of a run."""
        command = [self.arch if word == "12.1a" else word for word in super().command(*arguments)]
        if self.watched:
            command[command.index("-m") : command.index("-m") + 2] = ["-c", WATCH]
        return command

    def audits(self) -> list[str]:
        return [json.loads(path.read_text())["coverage"] for path in self.home.glob("audits/*.json")]


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


def test_it_is_fetched_and_audited_once(stack: Stack) -> None:
    wheel = stack.publish("sm_121a")
    ran = stack.run()
    assert (ran.code, ran.actions) == (0, {"compiler": "prebuilt"}), ran.err
    assert stack.audits() == ["host only; ptxas assembles sm_121a"]
    assert list(stack.home.glob(f"downloads/*/{wheel.name}"))
    for path in (wheel, *stack.home.glob("downloads/*/*.whl")):
        path.unlink()  # nothing asks for it again
    stack.watched = True
    again = stack.run()
    assert (again.code, again.actions) == (0, {"compiler": "prebuilt"}), again.err
    assert stack.calls.read_text().split() == ["sm_121a"]


def test_another_arch_asks_again_of_what_was_downloaded(stack: Stack) -> None:
    wheel = stack.publish("sm_121a")
    assert stack.run("compiler").code == 0
    wheel.unlink()
    stack.arch = "9.0a"
    ran = stack.run("compiler")
    assert ran.code == 0, ran.err
    assert sorted(stack.audits()) == ["host only", "host only; ptxas assembles sm_121a"]


def test_one_that_cannot_assemble_is_a_failure_each_time(stack: Stack) -> None:
    stack.project("ours")
    stack.publish("sm_90a", "sm_120a")
    for expected in ("built", "reuse"):
        ran = stack.run()
        assert (ran.code, ran.actions) == (3, {"compiler": "prebuilt", "ours": expected}), ran.err
        assert "compiler as published does not hold what its policy demands" in ran.err
        assert "compiler/ptxas does not assemble sm_121a: ptxas fatal   : Value 'sm_121a'" in ran.err
    assert stack.calls.read_text().split() == ["sm_121a"]


def test_without_network_it_is_told_that_it_was_not_audited(stack: Stack) -> None:
    stack.project("ours")
    stack.publish("sm_121a")
    ran = stack.run("all", "--offline")
    assert (ran.code, ran.actions) == (0, {"compiler": "prebuilt", "ours": "built"}), ran.err
    assert "compiler: warning: not audited: 1 of 1 wheels are not here" in ran.err
    assert stack.audits() == []
    fetching = stack.start("fetch", "all")
    assert '"complete"' in fetching.communicate(timeout=60)[0]
    assert fetching.returncode == 0
    assert stack.run("all", "--offline").code == 0
    assert stack.audits() == ["host only; ptxas assembles sm_121a"]


def test_one_that_cannot_be_had_does_not_stop_the_rest(stack: Stack) -> None:
    stack.project("ours")
    stack.publish("sm_121a").unlink()
    ran = stack.run()
    assert (ran.code, ran.actions) == (5, {"compiler": "prebuilt", "ours": "built"}), ran.err
    assert "no package index has a wheel of compiler==1.0" in ran.err
    assert stack.run("ours").code == 0, "what was not asked for is not fetched"
