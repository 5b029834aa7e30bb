"""Ctrl-C, SIGTERM, SIGHUP and kill -9 of a program that runs commands: nothing survives."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from processes import alive, survivors, wait_for_count

from orchestrator.build import interrupt
from orchestrator.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What stands for sparkbuild: two commands in worker threads, one in the main thread, each a stubborn tree.
PROGRAM = """
import sys, threading
from pathlib import Path
from orchestrator.build import supervisor
from orchestrator.build.interrupt import interruptible
from orchestrator.errors import SparkbuildError

folder, tag = Path(sys.argv[1]), sys.argv[2]
TREE = '''
trap "" TERM HUP INT
(setsid sh -c 'trap "" TERM; sleep 600 & sleep 601' &)
(setsid setsid sh -c '(sleep 602) & sleep 603' & exit)
while :; do (setsid sleep 604 &); sleep 0.1; done
'''

def work(name):
    try:
        supervisor.run(["sh", "-c", TREE], cwd=folder, env={"PATH": "/usr/bin:/bin", "MARK": tag},
                       log=folder / f"{name}.log")
    except SparkbuildError as error:
        (folder / f"{name}.end").write_text(f"{type(error).__name__} {error.exit_code}")
        raise

def quietly(name):
    try:
        work(name)
    except SparkbuildError:
        pass

try:
    with interruptible():
        threads = [threading.Thread(target=quietly, args=(f"worker{n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        if sys.argv[3] == "main":
            work("main")
        else:
            threads[0].join()
            work("never")
except SparkbuildError as error:
    for thread in threads:
        thread.join()
    print(type(error).__name__, flush=True)
    sys.exit(error.exit_code)
"""


class Program:
    """The program above, running; its trees are up when `count` processes are."""

    def __init__(
        self, bench: Any, mode: str, prefix: tuple[str, ...] = (), stdin: int | None = None, count: int = 14
    ) -> None:
        self.bench = bench
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", PROGRAM, str(bench.folder), bench.tag, mode],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            start_new_session=not prefix,
        )
        try:
            # Each tree has at least six; the program carries the tag in its arguments.
            wait_for_count(bench.tag, count)
        except BaseException:
            self.close()
            raise

    def end(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=10)
        return self.process.returncode, out.decode().strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["main", "worker"])
def program(bench: Any, request: pytest.FixtureRequest) -> Iterator[Program]:
    running = Program(bench, request.param)
    yield running
    running.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_its_code(program: Program, number: signal.Signals) -> None:
    os.kill(program.process.pid, number)
    assert program.end() == (128 + number, "InterruptedRunError")
    assert not alive(program.bench.tag)
    ends = {file.stem: file.read_text() for file in program.bench.folder.glob("*.end")}
    assert "never" not in ends
    assert ends["worker1"] == f"InterruptedRunError {128 + number}"


def test_kill_9_leaves_nothing_after_two_seconds(program: Program) -> None:
    program.process.kill()
    assert survivors(program.bench.tag, limit_s=2.0) == []


def test_kill_9_of_its_whole_group_too(program: Program) -> None:
    os.killpg(program.process.pid, signal.SIGKILL)
    assert survivors(program.bench.tag, limit_s=2.0) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05, 0.1])
def test_kill_9_while_commands_are_being_started(bench: Any, delay_s: float) -> None:
    running = Program(bench, "main", count=2)  # itself, and the first of all
    time.sleep(delay_s)
    running.close()
    assert survivors(bench.tag, limit_s=2.0) == []


def test_ctrl_c_at_a_terminal(bench: Any) -> None:
    ours, theirs = pty.openpty()
    try:
        running = Program(bench, "main", prefix=("setsid", "--ctty"), stdin=theirs)
        try:
            os.write(ours, b"\x03")
            assert running.end() == (130, "InterruptedRunError")
            assert not alive(bench.tag)
        finally:
            running.close()
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_second_signal_hurries(bench: Any) -> None:
    running = Program(bench, "main")
    try:
        os.kill(running.process.pid, signal.SIGINT)
        time.sleep(0.1)
        os.kill(running.process.pid, signal.SIGINT)
        assert running.end() == (130, "InterruptedRunError")
        assert not alive(bench.tag)
    finally:
        running.close()


def test_under_nohup_a_hang_up_is_not_heard(bench: Any) -> None:
    running = Program(bench, "main", prefix=("nohup",))
    try:
        os.kill(running.process.pid, signal.SIGHUP)
        time.sleep(0.3)
        assert running.process.poll() is None
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.end() == (143, "InterruptedRunError")
    finally:
        running.close()


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in interrupt.SIGNALS]
    with interrupt.interruptible():
        during = [signal.getsignal(number) for number in interrupt.SIGNALS]
        with interrupt.interruptible():  # nested: the outer one rules
            assert [signal.getsignal(number) for number in interrupt.SIGNALS] == during
        assert [signal.getsignal(number) for number in interrupt.SIGNALS] == during
    assert during != before
    assert [signal.getsignal(number) for number in interrupt.SIGNALS] == before


def test_nothing_starts_after_a_signal(bench: Any) -> None:
    from orchestrator.errors import InterruptedRunError

    def signal_and_go_on() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except InterruptedRunError:
            bench.run("true")

    with pytest.raises(InterruptedRunError) as caught, interrupt.interruptible():
        signal_and_go_on()
    assert caught.value.exit_code == 143
    assert not bench.log.exists()
    with pytest.raises(InterruptedRunError):
        bench.run("true")  # a thread that was left behind
    with interrupt.interruptible():
        assert bench.run("true").returncode == 0


def test_outside_the_main_thread_it_does_nothing() -> None:
    seen = []

    def work() -> None:
        with interrupt.interruptible():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_a_deadline_ends_the_block_and_its_timer() -> None:
    with pytest.raises(DeadlineError) as caught, interrupt.interruptible(0.05):
        time.sleep(5)
    assert caught.value.exit_code == 6
    with interrupt.interruptible(0.1):
        pass
    time.sleep(0.2)  # the timer of a block that was left in time must not strike
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
