"""Builds that are cut off or fail go on in their build trees; several go on at a time."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from csteps import MAKE, unit
from processes import alive, survivors
from purestack import PureStack, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UNITS = 4
ON = "goes on in the build tree of run"


class Made:
    """A project of a few C units, in a stack of its own; `flag` lies outside of its tree and its key."""

    def __init__(self, root: Path, *, after: str = "", size: int = 1) -> None:
        root.mkdir(exist_ok=True)
        self.stack = PureStack(root)
        self.flag = root / "flag"
        self.stack.project("made", code=MAKE)
        folder = self.stack.recipes / "projects" / "made"
        for number in range(UNITS):
            (folder / f"u{number}.c").write_text(unit(number, size=size))
        (folder / "after.py").write_text(after.replace("FLAG", repr(str(self.flag))))

    def compiled(self) -> list[list[str]]:
        """Return the sources that each run has compiled, oldest run first."""
        logs = sorted(self.stack.home.glob("logs/*/made.log"))
        return [
            [
                line.split()[1]
                for line in log.read_text(errors="replace").splitlines()
                if line[:8] == "compile "
            ]
            for log in logs
        ]

    def wait_for(self, count: int) -> None:
        """Wait until the newest run has begun so many units."""
        end = time.monotonic() + 60
        while not (runs := self.compiled()) or len(runs[-1]) < count:
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.01)

    @property
    def wheel(self) -> bytes:
        """The wheel that is served."""
        (path,) = self.stack.dist.glob("made-*.whl")
        return path.read_bytes()


@pytest.fixture(scope="module")
def clean_wheel(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return what a build makes that nobody cuts off."""
    made = Made(tmp_path_factory.mktemp("clean") / "one", size=30)
    assert made.stack.run().code == 0
    return made.wheel


ALL = [f"u{number}.c" for number in range(UNITS)]
NOT_YET = "assert os.path.exists(FLAG), 'not yet'\n"


def test_after_a_failure_what_was_compiled_is_not_compiled_again(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", after=NOT_YET)
    ran = made.stack.run()
    assert ran.code == 1
    assert "not yet" in ran.err
    made.flag.touch()
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err
    assert made.compiled() == [ALL, []]
    assert not list(made.stack.home.glob("work/*/made")), "trees go after success"
    clean = Made(tmp_path / "two")
    assert clean.stack.run().code == 0
    assert made.wheel == clean.wheel


def test_another_key_starts_clean(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", after=NOT_YET)
    made.stack.run()
    made.flag.touch()
    (made.stack.recipes / "projects/made/u1.c").write_text(unit(9))
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON not in ran.err
    assert made.compiled() == [ALL, ALL]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
)
def test_a_run_that_is_cut_off_goes_on(
    tmp_path: Path, clean_wheel: bytes, number: signal.Signals, code: int
) -> None:
    made = Made(tmp_path / "one", size=30)
    process = made.stack.start()
    made.wait_for(3)
    process.send_signal(number)
    cut = finish(process)
    assert cut.code == code, cut.err
    assert not survivors(str(made.stack.home), limit_s=2)
    if number != signal.SIGKILL:
        assert cut.actions == {"made": "stopped"}
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err
    first, second = made.compiled()
    assert not {"u0.c", "u1.c"}.intersection(second), "they were done"
    assert "u3.c" in second
    assert len(first) + len(second) <= UNITS + 1
    assert made.wheel == clean_wheel


def test_kill_after_kill_it_comes_to_the_same_wheel(tmp_path: Path, clean_wheel: bytes) -> None:
    made = Made(tmp_path / "one", size=30)
    for begun in (1, 2, 2):
        process = made.stack.start()
        made.wait_for(begun)
        process.kill()
        finish(process)
        assert not survivors(str(made.stack.home), limit_s=2)
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err
    assert made.wheel == clean_wheel


def test_what_a_killed_compiler_half_wrote_is_made_anew(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", size=30)
    process = made.stack.start()
    made.wait_for(2)
    end = time.monotonic() + 20
    while not any("u1.o" in path.read_text() for path in made.stack.home.glob("work/*/open/*")):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    finish(process)
    assert not survivors(str(made.stack.home), limit_s=2)
    (half,) = made.stack.home.glob("work/*/made/src/u1.c")
    half = half.with_suffix(".o")
    half.write_bytes(b"\x7fELF half")  # newer than its source: time stamps call it done
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert "cut off are made anew" in ran.err
    assert made.compiled()[1][0] == "u1.c"


def test_a_tree_in_which_going_on_fails_is_left_for_a_clean_one(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", after="open('stale', 'x').close()\n" + NOT_YET)
    made.stack.run()
    made.flag.touch()
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err
    assert "built again from clean sources" in ran.err
    assert made.compiled() == [ALL, ALL]


def test_a_compiler_that_fails_again_is_told_at_once_and_the_next_run_starts_clean(tmp_path: Path) -> None:
    made = Made(tmp_path / "one")
    (made.stack.recipes / "projects/made/u2.c").write_text("int broken = no_such_name;")
    for _ in range(3):
        ran = made.stack.run()
        assert ran.code == 1
        assert "no_such_name" in ran.err
    assert made.compiled() == [["u0.c", "u1.c", "u2.c"], ["u2.c"], ["u0.c", "u1.c", "u2.c"]]


def test_a_launcher_that_is_killed_fails_its_build_and_no_more(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", size=30)
    made.stack.project("alone")
    process = made.stack.start()
    made.wait_for(2)
    os.kill(launcher(str(made.stack.home)), signal.SIGKILL)
    ran = finish(process)
    assert ran.code == 1
    assert ran.actions == {"made": "failed", "alone": "built"}
    assert not survivors(str(made.stack.home), limit_s=2)
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err


def test_a_compiler_that_is_killed_runs_once_more(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", size=30)
    process = made.stack.start()
    made.wait_for(2)
    os.kill(find(str(made.stack.home), compiles), signal.SIGKILL)
    ran = finish(process)
    assert ran.code == 0, ran.err
    assert "run once more, alone" in ran.err
    assert made.compiled() == [ALL]


def compiles(command: str) -> bool:
    """Tell gcc's own compiler from the preprocessor that ccache runs before."""
    return "/cc1 " in command and " -E " not in command


def test_a_terminal_that_is_closed_stops_the_run(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", size=30)
    made.stack.write()
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [shutil.which("setsid") or "", "--ctty", "--wait", *made.stack.command()],
        cwd=made.stack.root,
        env=made.stack.environment() | {"TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with draining(ours):
        made.wait_for(2)
    os.close(ours)
    process.wait(20)
    assert not survivors(str(made.stack.home), limit_s=2)
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON in ran.err


@contextmanager
def draining(terminal: int) -> Iterator[None]:
    """Read what a terminal is told; afterwards nobody reads, so that closing it closes it."""
    over = threading.Event()

    def drain() -> None:
        while not over.is_set():
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 4096)

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()


def launcher(tag: str) -> int:
    """Return the process of a launcher, which its script's name tells."""
    return find(tag, lambda command: "/tools/" in command and "-gate" not in command and " -c u" in command)


def find(tag: str, fits: Callable[[str], bool]) -> int:
    """Return a process of a run by its command."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for line in alive(tag):
            pid, _, command = line.partition(": ")
            if fits(command):
                return int(pid)
    raise AssertionError("no such process")


WAITS = """\
import time, os
open({own!r}, "w").close()
end = time.monotonic() + 20
while not os.path.exists({other!r}):
    assert time.monotonic() < end, "the other one was not there"
    time.sleep(0.02)
"""


def pair(stack: PureStack) -> None:
    paths = [str(stack.root / name) for name in ("left", "right")]
    stack.project("left", code=WAITS.format(own=paths[0], other=paths[1]))
    stack.project("right", code=WAITS.format(own=paths[1], other=paths[0]))


def test_what_does_not_depend_on_each_other_builds_at_a_time(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    pair(stack)
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert ran.actions == {"left": "built", "right": "built"}


def test_fail_fast_starts_nothing_more_and_keep_going_does(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("first", code="raise SystemExit('cannot be built')")
    stack.project("second")
    ran = stack.run("all", "--fail-fast", "--steps", "1")
    assert ran.code == 1
    assert ran.actions == {"first": "failed", "second": "skipped"}
    ran = stack.run("all", "--keep-going", "--steps", "1")
    assert ran.code == 1
    assert ran.actions == {"first": "failed", "second": "built"}


SLEEPS = "import time; time.sleep(60)"


def test_a_deadline_serves_what_is_finished_and_tells_the_rest(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("a")
    stack.project("b", code=SLEEPS)
    stack.project("c", "b")
    begun = time.monotonic()
    ran = stack.run("all", "--deadline", "6s")
    assert time.monotonic() - begun < 15
    assert ran.code == 6
    assert ran.actions == {"a": "built", "b": "stopped", "c": "not started"}
    assert [path.name for path in stack.dist.glob("*.whl")] == ["a-1.0-py3-none-any.whl"]
    stack.project("b")
    assert stack.run().actions == {"a": "reuse", "b": "built", "c": "built"}


def test_a_run_that_waits_for_another_can_be_stopped(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("slow", code=SLEEPS)
    first = stack.start()
    logs = stack.home / "logs"
    end = time.monotonic() + 60
    while not list(logs.glob("*/slow.log")):
        assert time.monotonic() < end
        time.sleep(0.02)
    second = stack.start("all", "--dist", "second")
    assert second.stderr is not None
    while "another run is building slow" not in (second.stderr.readline() or "x"):
        assert second.poll() is None
    second.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert second.wait(20) == 130
    assert time.monotonic() - sent < 3
    second.communicate()
    first.send_signal(signal.SIGTERM)
    assert finish(first).code == 143


@pytest.mark.parametrize("part", ["env", "src", "env/bin/python"])
def test_a_tree_of_which_a_part_is_gone_starts_clean(tmp_path: Path, part: str) -> None:
    made = Made(tmp_path / "one", after=NOT_YET)
    made.stack.run()
    made.flag.touch()
    (tree,) = made.stack.home.glob("work/*/made")
    gone = tree / part
    gone.unlink() if gone.is_symlink() or gone.is_file() else shutil.rmtree(gone)
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON not in ran.err


def test_a_tree_that_leads_elsewhere_is_not_gone_on_in(tmp_path: Path) -> None:
    made = Made(tmp_path / "one", after=NOT_YET)
    made.stack.run()
    made.flag.touch()
    (source,) = made.stack.home.glob("work/*/made/src")
    elsewhere = tmp_path / "elsewhere"
    source.rename(elsewhere)
    source.symlink_to(elsewhere)
    before = {path.name: path.stat().st_mtime_ns for path in elsewhere.iterdir()}
    ran = made.stack.run()
    assert ran.code == 0, ran.err
    assert ON not in ran.err
    assert {path.name: path.stat().st_mtime_ns for path in elsewhere.iterdir()} == before


def test_what_was_not_started_is_served_as_before(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    slow = "import time; time.sleep(1); sum(range(10_000_000)); "  # so it is the more urgent one
    stack.project("first", code=slow)
    stack.project("second")
    stack.project("third", "first", code=slow)
    assert stack.run().code == 0
    stack.project("first", code="raise SystemExit('cannot be built')")
    stack.project("second", code="says += ['new']")
    ran = stack.run("all", "--fail-fast", "--steps", "1")
    assert ran.actions == {"first": "failed", "second": "skipped", "third": "skipped"}
    assert [path.name.split("-")[0] for path in stack.dist.glob("*.whl")] == ["second"]


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&1 >/dev/null | head -n 1", "2>&-"])
def test_a_run_is_worth_more_than_what_is_said_of_it(tmp_path: Path, redirection: str) -> None:
    stack = PureStack(tmp_path)
    stack.project("alone")
    stack.write()
    shell = ["/bin/bash", "-c", f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}', "bash", *stack.command()]
    ran = subprocess.run(shell, cwd=stack.root, env=stack.environment(), capture_output=True, check=False)
    assert ran.returncode == 0
    assert list(stack.dist.glob("alone-*.whl"))


def test_folders_that_cannot_be_written_are_told_by_their_own_option(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("alone")
    ran = stack.run("all", "--dist", "/proc/no")
    assert ran.code == 4
    assert "--dist" in ran.err
    assert "SPARKBUILD_HOME" not in ran.err
