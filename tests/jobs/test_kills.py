"""Whoever is killed, nothing stays behind, nothing hangs, and the budget is given back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import alive, survivors, wait_for_count
from workshop import Workshop, finish

import orchestrator

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = Path(__file__).parents[1] / "support/jobs_worker.py"
FOR_EVER = "time.sleep(60)"
ONCE_FOR_EVER = "if first(): time.sleep(60)"


@pytest.fixture(params=[False, True], ids=["plain", "ccache"])
def ccache(request: pytest.FixtureRequest) -> Path | None:
    """Return ccache, and also go without."""
    found: Path | None = request.getfixturevalue("ccache_program") if request.param else None
    return found


@contextmanager
def worker(shop: Workshop, *, slots: int = 4) -> Iterator[subprocess.Popen[str]]:
    """Run a broker in a process of its own; `shop` takes part in it."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), str(shop.folder), str(slots)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(orchestrator.__file__).parents[1])},
    )
    with process:
        assert process.stdout is not None
        shop.env = shop.environ(process.stdout.readline().strip())
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def begun(shop: Workshop, count: int) -> None:
    """Wait until so many units have begun."""
    end = time.monotonic() + 20
    while sum(word == "begin" for word, _, _ in shop.notes()) < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def the(shop: Workshop, what: str) -> int:
    """Return the process of this workshop whose command line holds a text."""
    (found,) = [line for line in alive(str(shop.folder)) if what in line]
    return int(found.split(":")[0])


def test_a_killed_launcher_leaves_nothing_and_gives_the_budget_back(
    tmp_path: Path, ccache: Path | None
) -> None:
    with Workshop(tmp_path, slots=1, ccache=ccache) as shop:
        one = shop.compile("a.c", FOR_EVER)
        begun(shop, 1)
        two = shop.compile("b.c")
        one.kill()
        assert finish(one, two, limit_s=10) == [-9, 0]
        assert survivors(str(tmp_path)) == []
        assert sorted((record.unit.name, record.how) for record in shop.records) == [
            ("a.c", "lost"),
            ("b.c", "ran"),
        ]
        assert not shop.broker.running


def test_a_killed_launcher_whose_unit_waits(tmp_path: Path, ccache: Path | None) -> None:
    with Workshop(tmp_path, slots=1, ccache=ccache) as shop:
        one = shop.compile("a.c", "time.sleep(1)")
        begun(shop, 1)
        two = shop.compile("b.c", FOR_EVER)
        while not any(turn.state == "waiting" for turn in list(shop.broker._turns.values())):
            time.sleep(0.01)
        two.kill()
        three = shop.compile("c.c")
        assert finish(one, two, three, limit_s=10) == [0, -9, 0]
        assert survivors(str(tmp_path)) == []
        assert [unit for word, unit, _ in shop.notes() if word == "begin"] == ["a.c", "c.c"]


def test_a_stopped_launcher_ends_its_compiler(tmp_path: Path, ccache: Path | None) -> None:
    with Workshop(tmp_path, ccache=ccache) as shop:
        one = shop.compile("a.c", FOR_EVER)
        begun(shop, 1)
        one.terminate()
        assert finish(one, limit_s=10) == [143]
        assert survivors(str(tmp_path)) == []
        assert not shop.warnings


def test_a_killed_gate_leaves_nothing_and_its_unit_is_run_again(tmp_path: Path, ccache: Path | None) -> None:
    with Workshop(tmp_path, ccache=ccache) as shop:
        one = shop.compile("a.c", ONCE_FOR_EVER)
        begun(shop, 1)
        os.kill(the(shop, "/sparkbuild-gate "), signal.SIGKILL)
        assert finish(one, limit_s=10) == [0]
        assert survivors(str(tmp_path)) == []
        assert [(record.how, record.tries) for record in shop.records] == [("ran", 2)]


def test_a_killed_gate_that_waits(tmp_path: Path, ccache: Path | None) -> None:
    with Workshop(tmp_path, slots=1, ccache=ccache) as shop:
        one = shop.compile("a.c", "time.sleep(1)")
        begun(shop, 1)
        two = shop.compile("b.c")
        while not any(turn.state == "waiting" for turn in list(shop.broker._turns.values())):
            time.sleep(0.01)
        (gate,) = [turn.gate_pid for turn in list(shop.broker._turns.values()) if turn.state == "waiting"]
        os.kill(gate, signal.SIGKILL)
        assert finish(one, two, limit_s=10) == [0, 0]
        assert [(record.how, record.tries) for record in shop.records] == [("ran", 1), ("ran", 1)]
        assert survivors(str(tmp_path)) == []


def test_a_killed_compiler_is_run_again(tmp_path: Path, ccache: Path | None) -> None:
    with Workshop(tmp_path, ccache=ccache) as shop:
        one = shop.compile("a.c", ONCE_FOR_EVER)
        begun(shop, 1)
        os.kill(the(shop, " -IS "), signal.SIGKILL)
        assert finish(one, limit_s=10) == [0]
        assert [(record.how, record.tries) for record in shop.records] == [("ran", 2)]
        assert survivors(str(tmp_path)) == []


def test_a_killed_ccache_leaves_nothing(tmp_path: Path, ccache_program: Path) -> None:
    with Workshop(tmp_path, ccache=ccache_program) as shop:
        one = shop.compile("a.c", ONCE_FOR_EVER)
        begun(shop, 1)
        os.kill(the(shop, f": {ccache_program} "), signal.SIGKILL)
        assert finish(one, limit_s=10) == [0]
        assert survivors(str(tmp_path)) == []


def test_what_a_compiler_leaves_running_is_ended(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        text = f"os.spawnv(os.P_NOWAIT, '/bin/sleep', ['{tmp_path}', '60'])"
        assert finish(shop.compile("a.c", text)) == [0]
        assert survivors(str(tmp_path)) == []


def test_when_sparkbuild_is_killed_everything_ends(tmp_path: Path, ccache: Path | None) -> None:
    shop = Workshop(tmp_path, ccache=ccache)
    with worker(shop, slots=1) as broker:
        running = shop.compile("a.c", FOR_EVER)
        begun(shop, 1)
        waiting = shop.compile("b.c", FOR_EVER)
        wait_for_count(str(tmp_path), 6)
        broker.kill()
        broker.wait()
        assert survivors(str(tmp_path)) == []
        assert finish(running, waiting, limit_s=2) == [1, 1]
        late = shop.run("cc", "-c", "a.c")
    assert late.returncode == 1
    assert late.stderr == "error: sparkbuild, which this build belongs to, is gone\n"
    assert len(shop.notes()) == 1


def test_two_locks_take_the_place_of_a_broker_that_is_silent(tmp_path: Path, ccache: Path | None) -> None:
    shop = Workshop(tmp_path, silence_s=1.0, ccache=ccache)
    with worker(shop, slots=1) as broker:
        first = shop.compile("first.c", "time.sleep(2)")
        begun(shop, 1)
        waiting = shop.compile("waiting.c", "time.sleep(0.5)")
        wait_for_count(str(tmp_path), 6)
        time.sleep(0.3)  # so that it has asked
        broker.send_signal(signal.SIGSTOP)
        late = [shop.compile(f"{n}.c", "time.sleep(0.5)") for n in range(4)]
        _, told = late[0].communicate(timeout=30)
        assert finish(first, waiting, *late, limit_s=30) == [0] * 6
        assert "warning: sparkbuild does not answer; at most two units run at a time\n" in told
        broker.send_signal(signal.SIGCONT)
        assert finish(shop.compile("after.c"), limit_s=10) == [0]
        assert broker.stdout is not None
        lines = [broker.stdout.readline().split() for _ in range(7)]
    assert {tuple(line) for line in lines} == {
        (f"{name}.c", "ran") for name in ("first", "waiting", "after", *"0123")
    }
    count = most = 0
    for word, unit, _ in shop.notes():
        if unit != "first.c":  # it had a turn
            count += 1 if word == "begin" else -1
            most = max(most, count)
    assert most == 2


def test_without_a_broker_the_scripts_are_the_compiler(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.env = {key: value for key, value in shop.environ("").items() if key != "SPARKBUILD_BROKER"}
    assert finish(shop.compile("a.c")) == [0]
    assert len(shop.notes()) == 2
