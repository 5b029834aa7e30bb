"""Real commands under the supervisor: output, ends, cost, limits, mistakes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from processes import alive, survivors, wait_for_count

from orchestrator.build import supervisor
from orchestrator.errors import BuildFailedError, MachineError, NoSpaceError, ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Callable

# A tree that is hard to kill: deaf to SIGTERM, in sessions of its own, orphaned, and growing while it dies.
STUBBORN = """
trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM; sleep 600 & sleep 601' &)
(setsid setsid sh -c '(trap "" TERM; sleep 602) & sleep 603' & exit)
sh -c 'trap "sleep 604 & sleep 605 & sleep 606" TERM; sleep 607 & wait' &
while :; do (setsid sleep 608 &); sleep 0.05; done
"""


class TestOutput:
    def test_it_goes_into_the_log_between_head_and_foot(self, bench: Any) -> None:
        finished = bench.shell("echo out; echo err >&2")
        lines = bench.log.read_text().splitlines()
        assert lines[0] == "[sparkbuild] $ /bin/sh -c 'echo out; echo err >&2'"
        assert lines[1] == f"[sparkbuild] in {bench.folder}"
        assert f"[sparkbuild] env MARK={bench.tag}" in lines
        assert lines[-3:-1] == ["out", "err"]
        assert lines[-1].startswith("[sparkbuild] exit 0, wall ")
        assert finished.returncode == 0
        assert not finished.stopped

    def test_it_is_kept_byte_for_byte(self, bench: Any) -> None:
        (bench.folder / "bytes").write_bytes(bytes(range(256)) * 100)
        bench.run("cat", "bytes")
        assert bytes(range(256)) * 100 in bench.log.read_bytes()

    def test_much_of_it_is_no_problem(self, bench: Any) -> None:
        bench.shell("yes 0123456789abcdef | head -c 30000000")
        assert bench.log.stat().st_size > 30_000_000

    def test_the_foot_begins_on_a_line_of_its_own(self, bench: Any) -> None:
        bench.shell("printf unfinished")
        assert bench.output() == "unfinished\n"

    def test_several_commands_share_a_log(self, bench: Any) -> None:
        first = bench.shell("echo one")
        second = bench.shell("echo two")
        assert bench.output() == "one\ntwo\n"
        assert first.log_start == 0
        assert bench.log.read_bytes()[second.log_start :].startswith(b"[sparkbuild] $ ")

    def test_it_is_there_while_the_command_runs(self, bench: Any) -> None:
        running = supervisor.start(
            ["sh", "-c", "echo early; sleep 60"], cwd=bench.folder, env=bench.env, log=bench.log
        )
        end = time.monotonic() + 5
        while "early" not in bench.output() and time.monotonic() < end:
            time.sleep(0.01)
        assert bench.output() == "early\n"
        running.stop()
        finished = running.wait(check=False)
        assert finished.stopped
        assert finished.returncode == -signal.SIGTERM

    def test_newest_lines_are_told_now_and_then(self, bench: Any) -> None:
        told: list[str] = []
        script = (
            "for i in $(seq 40); do printf '\\033[1mline %s\\033[0m\\n' $i; sleep 0.02; done; printf half"
        )
        supervisor.run(
            ["sh", "-c", script], cwd=bench.folder, env=bench.env, log=bench.log, on_line=told.append
        )
        assert 2 <= len(told) <= 10
        assert told == sorted(set(told), key=lambda line: int(line.split()[1]))
        assert told[-1] == "line 40"

    def test_a_silent_command_shows_that_time_goes_on(self, bench: Any) -> None:
        told: list[str] = []
        script = "echo begun; sleep 2.6"
        supervisor.run(
            ["sh", "-c", script], cwd=bench.folder, env=bench.env, log=bench.log, on_line=told.append
        )
        assert set(told) == {"begun"}
        assert 2 <= len(told) <= 4

    def test_what_a_listener_raises_ends_the_command(self, bench: Any) -> None:
        def refuse(line: str) -> None:
            raise LookupError(line)

        with pytest.raises(LookupError, match="hello"):
            supervisor.run(
                ["sh", "-c", "echo hello; sleep 600"],
                cwd=bench.folder,
                env=bench.env,
                log=bench.log,
                on_line=refuse,
            )
        assert not alive(bench.tag)


class TestSurroundings:
    def test_the_environment_is_exactly_the_given_one(self, bench: Any) -> None:
        bench.env |= {"ODD": "a=b\nc", "EMPTY": ""}
        bench.run("/usr/bin/env", "-0")
        assert dict(item.split("=", 1) for item in bench.output().strip("\0\n").split("\0")) == bench.env

    def test_neither_terminal_nor_input(self, bench: Any) -> None:
        bench.shell(
            "cat; test -t 0 || test -t 1 || test -t 2 || echo none; (: >/dev/tty) 2>&1 || echo no tty"
        )
        assert "none\n" in bench.output()
        assert "no tty\n" in bench.output()

    def test_a_session_of_its_own_and_default_signals(self, bench: Any) -> None:
        code = (
            "import os; print(os.getsid(0) == os.getpid() != os.getppid(), os.umask(0));"
            "s = open('/proc/self/status').read(); print('SigIgn:', s.split('SigIgn:')[1].split()[0])"
        )
        old = os.umask(0o077)
        try:
            bench.run("sh", "-c", f'{sys.executable} -I -c "{code}"; grep SigIgn /proc/self/status; umask')
        finally:
            os.umask(old)
        assert "SigIgn:\t0000000000000000" in bench.output()
        assert "0022" in bench.output()

    def test_no_descriptor_leaks_in(self, bench: Any) -> None:
        bench.run("ls", "/proc/self/fd")
        assert bench.output().split() == ["0", "1", "2", "3"]  # 3: the folder that ls reads

    def test_none_leaks_here(self, bench: Any) -> None:
        bench.run("true")
        before = sorted(Path("/proc/self/fd").iterdir())
        for _ in range(3):
            bench.run("true")
            with pytest.raises(ToolMissingError):
                bench.run("no-such-tool")
        assert sorted(Path("/proc/self/fd").iterdir()) == before


class TestEnds:
    @pytest.mark.parametrize(
        ("script", "code"),
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", -9), ("kill -SEGV $$", -11)],
    )
    def test_the_exit_code_is_told(self, bench: Any, script: str, code: int) -> None:
        assert bench.shell(script, check=False).returncode == code

    def test_a_failure_names_command_error_log_and_line(self, bench: Any) -> None:
        bench.shell("echo 'a.c:1:1: error: of the command before'")
        with pytest.raises(BuildFailedError) as caught:
            bench.shell("echo; echo 'b.c:7:3: error: too bad'; exit 2")
        assert "ended with exit code 2: b.c:7:3: error: too bad" in caught.value.message
        number = bench.log.read_text().splitlines().index("b.c:7:3: error: too bad") + 1
        assert caught.value.where == f"{bench.log}:{number}"
        assert caught.value.exit_code == 1

    def test_a_death_names_the_signal(self, bench: Any) -> None:
        with pytest.raises(BuildFailedError, match="was killed by SIGKILL"):
            bench.shell("kill -9 $$")

    def test_a_missing_tool(self, bench: Any) -> None:
        with pytest.raises(ToolMissingError, match="no-such-tool is not there") as caught:
            bench.run("no-such-tool", "--version")
        assert caught.value.exit_code == 4
        assert "not started" in bench.log.read_text()

    def test_the_path_of_the_command_is_searched(self, bench: Any) -> None:
        bench.env["PATH"] = "/nowhere"
        with pytest.raises(ToolMissingError):
            bench.run("ls")

    def test_a_missing_interpreter(self, bench: Any) -> None:
        script = bench.folder / "script"
        script.write_text("#!/nowhere/python\n")
        script.chmod(0o755)
        with pytest.raises(ToolMissingError, match="or the interpreter"):
            bench.run(str(script))

    def test_a_tool_that_is_not_executable(self, bench: Any) -> None:
        (bench.folder / "plain").write_text("x")
        with pytest.raises(ToolMissingError, match="cannot be run"):
            bench.run(str(bench.folder / "plain"))

    def test_a_missing_folder(self, bench: Any) -> None:
        with pytest.raises(MachineError, match="No such file"):
            supervisor.run(["true"], cwd=bench.folder / "gone", env=bench.env, log=bench.log)

    def test_too_long_an_argument(self, bench: Any) -> None:
        with pytest.raises(BuildFailedError, match="Argument list too long"):
            bench.run("true", "x" * 200_000)

    def test_a_nul_in_an_argument(self, bench: Any) -> None:
        with pytest.raises(BuildFailedError, match="NUL"):
            bench.run("echo", "a\0b")
        assert not alive(bench.tag)


class TestLogTrouble:
    def test_a_full_disk(self, bench: Any) -> None:
        bench.log = Path("/dev/full")
        with pytest.raises(NoSpaceError, match="no space left for the log"):
            bench.run("true")

    def test_a_log_that_cannot_be(self, bench: Any) -> None:
        (bench.folder / "file").write_text("")
        bench.log = bench.folder / "file" / "log"
        with pytest.raises(MachineError, match="log cannot be written") as caught:
            bench.run("true")
        assert caught.value.hint


class TestLimits:
    def test_a_timeout_stops_the_whole_tree(self, bench: Any) -> None:
        begin = time.monotonic()
        with pytest.raises(BuildFailedError, match=r"did not end within 0\.5 s"):
            bench.shell(STUBBORN, timeout_s=0.5)
        assert time.monotonic() - begin < 2.5
        assert not alive(bench.tag)
        assert "stopped after 0.5 s" in bench.log.read_text()

    def test_a_gentle_command_may_clear_up(self, bench: Any) -> None:
        with pytest.raises(BuildFailedError):
            bench.shell("trap 'echo cleared; exit 0' TERM; while :; do sleep 0.05; done", timeout_s=0.3)
        assert "cleared" in bench.output()

    def test_what_is_left_running_is_killed_and_told(self, bench: Any) -> None:
        finished = bench.shell("(setsid sleep 611 &); sleep 612 & exit 0")
        assert sorted(finished.leftovers) == ["sleep 611", "sleep 612"]
        assert finished.returncode == 0
        assert not alive(bench.tag)
        assert "left running, and killed: sleep 611" in bench.log.read_text()

    def test_what_just_ends_is_not_told(self, bench: Any) -> None:
        finished = bench.shell("(sleep 0.05; echo late) & exit 0")
        assert finished.leftovers == ()
        assert "late" in bench.output()

    def test_a_stopped_process_dies_too(self, bench: Any) -> None:
        bench.shell("(sleep 613 & kill -STOP $!); exit 0")
        assert not alive(bench.tag)


class TestCost:
    def test_time_and_memory_of_the_whole_tree(self, bench: Any) -> None:
        python = f"{sys.executable} -S -c"
        burn = "import time\nwhile time.process_time() < {}: pass"
        # One child that is waited for, one grandchild that detached itself, one with memory.
        script = (
            f"{python} '{burn.format(0.4)}'; (setsid {python} '{burn.format(0.3)}' &);"
            f"{python} 'x = b\"x\" * 200_000_000'; sleep 0.5"
        )
        finished = bench.shell(script)
        assert 0.65 < finished.cpu_s < 1.6
        assert 200_000_000 < finished.peak_bytes < 260_000_000
        assert finished.wall_s >= 0.9

    def test_a_sleeper_costs_next_to_nothing(self, bench: Any) -> None:
        finished = bench.run("sleep", "0.3")
        assert finished.cpu_s < 0.1
        assert 0.3 <= finished.wall_s < 2
        assert finished.peak_bytes < 40_000_000


class TestThreads:
    def test_a_starting_thread_may_end(self, bench: Any) -> None:
        started: list[supervisor.Running] = []

        def begin() -> None:
            started.append(
                supervisor.start(
                    ["sh", "-c", "sleep 0.5; echo done"], cwd=bench.folder, env=bench.env, log=bench.log
                )
            )

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        finished = started[0].wait()
        assert not finished.stopped
        assert bench.output() == "done\n"

    def test_many_at_once(self, bench: Any) -> None:
        ends: dict[int, int] = {}

        def one(number: int) -> Callable[[], None]:
            def work() -> None:
                finished = supervisor.run(
                    ["sh", "-c", f"sleep 0.1; exit {number}"],
                    cwd=bench.folder,
                    env=bench.env,
                    log=bench.folder / f"{number}.log",
                    check=False,
                )
                ends[number] = finished.returncode

            return work

        threads = [threading.Thread(target=one(number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ends == {number: number for number in range(8)}


class TestGuardian:
    def test_a_stop_right_after_the_start_is_heard(self, bench: Any) -> None:
        running = supervisor.start(["sleep", "617"], cwd=bench.folder, env=bench.env, log=bench.log)
        running.stop()  # lies in the socket behind the request
        assert running.wait(check=False).stopped
        assert not alive(bench.tag)

    def test_when_it_is_killed_the_command_dies_and_that_is_told(self, bench: Any) -> None:
        running = supervisor.start(["sleep", "614"], cwd=bench.folder, env=bench.env, log=bench.log)
        wait_for_count(bench.tag, 1)
        os.kill(running._guardian.pid, signal.SIGKILL)
        with pytest.raises(BuildFailedError, match="watched over"):
            running.wait()
        assert not survivors(bench.tag)

    def test_a_signal_to_it_stops_the_command(self, bench: Any) -> None:
        running = supervisor.start(["sh", "-c", STUBBORN], cwd=bench.folder, env=bench.env, log=bench.log)
        wait_for_count(bench.tag, 8)
        os.kill(running._guardian.pid, signal.SIGTERM)
        finished = running.wait(check=False)
        assert finished.stopped
        assert not alive(bench.tag)

    def test_now_means_without_grace(self, bench: Any) -> None:
        running = supervisor.start(
            ["sh", "-c", "trap '' TERM; sleep 615; sleep 616"], cwd=bench.folder, env=bench.env, log=bench.log
        )
        wait_for_count(bench.tag, 2)
        begin = time.monotonic()
        running.stop(now=True)
        assert running.wait(check=False).returncode == -signal.SIGKILL
        assert time.monotonic() - begin < 0.4
