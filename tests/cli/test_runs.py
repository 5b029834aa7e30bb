"""Runs that meet trouble: two at once, signals, kill -9 at any moment, a full disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from processes import survivors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tinyproject import TinyProject

pytestmark = pytest.mark.toolkit


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def log_of(tiny: TinyProject) -> str:
    return "".join(path.read_text(errors="replace") for path in tiny.home.glob("logs/*/tiny-cuda.log"))


def test_two_at_once_one_builds_and_the_other_waits_and_reuses(tiny: TinyProject) -> None:
    first = tiny.start("all", "--stack", "tiny", "--dist", "first")
    second = tiny.start("all", "--stack", "tiny", "--dist", "second")
    outcomes = [finish(first), finish(second)]
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    assert sorted("built" in out for _, out, _ in outcomes) == [False, True]
    assert any("another run" in err for _, _, err in outcomes)
    wheels = [next((tiny.root / name / "tiny").glob("*.whl")).read_bytes() for name in ("first", "second")]
    assert wheels[0] == wheels[1]
    assert log_of(tiny).count("csrc/scale.cu -o") == 1, "one of them compiled"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_compilers_and_keeps_the_state(
    tiny: TinyProject, number: signal.Signals, code: int
) -> None:
    tiny.build()  # the toolkit's layer is there, so the signal meets a compiler
    tiny.env = {"SLOWER": "1"}
    tiny.write()
    process = tiny.start("all", "--stack", "tiny")
    wait_for(lambda: log_of(tiny).count("csrc/scale.cu -o") == 2)
    process.send_signal(number)
    sent = time.monotonic()
    got, _, err = finish(process)
    assert time.monotonic() - sent < 2
    assert got == code
    assert "stopped" in err
    assert not survivors(str(tiny.home), limit_s=0)
    assert tiny.run("store", "verify", arch="").code == 0
    assert tiny.build()["rows"][0]["action"] == "built"


def test_kill_minus_nine_leaves_no_process(tiny: TinyProject) -> None:
    tiny.build()
    tiny.env = {"SLOWER": "1"}
    tiny.write()
    process = tiny.start("all", "--stack", "tiny")
    wait_for(lambda: log_of(tiny).count("csrc/scale.cu -o") == 2)
    process.kill()
    process.communicate()
    assert not survivors(str(tiny.home), limit_s=2)


def test_a_deadline_stops_in_time_and_the_next_run_goes_on(tiny: TinyProject) -> None:
    tiny.build()
    tiny.env = {"SLOWER": "1"}
    tiny.write()
    process = tiny.start("all", "--stack", "tiny", "--deadline", "1s")
    code, out, err = finish(process)
    assert code == 6, err
    assert "the deadline is reached" in err
    assert "goes on" in err
    assert "stopped" in out
    assert not survivors(str(tiny.home))
    tiny.env = {}
    tiny.write()
    assert finish(tiny.start("all", "--stack", "tiny", "--deadline", "10m"))[0] == 0


def kill_at_random(tiny: TinyProject, times: int, *, seed: int) -> None:
    """Kill runs at random moments; after each the store must verify, and in the end give the same wheel."""
    tiny.build()
    good = tiny.wheel.read_bytes()
    chance = random.Random(seed)
    begin = time.monotonic()
    tiny.run("all", "--stack", "tiny", "--dist", "measure")
    shortest = time.monotonic() - begin
    for turn in range(times):
        tiny.env = {"TURN": str(turn)}
        tiny.write()
        process = tiny.start("all", "--stack", "tiny")
        time.sleep(chance.uniform(0, 2.5 + shortest))
        process.kill()
        process.communicate()
        verified = tiny.run("store", "verify", arch="")
        assert verified.code == 0, f"turn {turn}: {verified.out}{verified.err}"
    assert not survivors(str(tiny.home), limit_s=2)
    report = tiny.build()
    assert report["rows"][0]["coverage"] == "sm_121a 3/3"
    assert tiny.wheel.read_bytes() == good, "the variable of the last turn does not reach the wheel"
    for tree in tiny.home.glob("work/*"):
        os.utime(tree, (0, 0))
    tiny.run("store", "gc", arch="")
    assert not list(tiny.home.glob("work/*")), "gc takes the trees of killed runs"
    assert tiny.build()["worked"] is False


def test_five_kills_leave_a_store_that_verifies(tiny: TinyProject) -> None:
    kill_at_random(tiny, 5, seed=10)


@pytest.mark.soak
def test_a_hundred_kills_leave_a_store_that_verifies(tiny: TinyProject) -> None:
    kill_at_random(tiny, 100, seed=100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with room for 32 MiB; needs the right to mount."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["/usr/bin/mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can only be mounted by root")
    yield folder
    subprocess.run(["/usr/bin/umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("free", [0.0, 0.6, 2.5])
def test_a_full_disk_is_told_with_what_to_free_and_nothing_is_lost(
    tiny: TinyProject, small_disk: Path, free: float
) -> None:
    for name in ("work", "logs"):
        (small_disk / name).mkdir()
        (tiny.home / name).symlink_to(small_disk / name)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(int((32 - free) * 2**20) - 2**14))
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 4, ran.err
    assert "sparkbuild store gc" in ran.err
    assert "space" in ran.err.lower()
    assert "Traceback" not in ran.err
    filler.unlink()
    assert tiny.run("store", "verify", arch="").code == 0
    assert tiny.build()["rows"][0]["action"] == "built"


def test_gc_during_a_run_takes_nothing_that_it_uses(tiny: TinyProject) -> None:
    for name in ("wheels", "layers", "downloads"):  # its own: gc takes all that nobody leases
        (tiny.home / name).unlink()
        subprocess.run(["/bin/cp", "-al", str(tiny.shared / name), str(tiny.home / name)], check=True)
    process = tiny.start("all", "--stack", "tiny")
    while process.poll() is None:
        collected = tiny.run("store", "gc", "--unused-for", "0d", arch="")
        assert collected.code == 0, collected.err
    code, out, err = finish(process)
    assert code == 0, err
    assert "sm_121a 3/3" in out
