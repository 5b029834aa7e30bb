"""The broker with real launchers, gates and a stand-in compiler."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from workshop import MB, Workshop, finish

from orchestrator.jobs.broker import Broker
from orchestrator.jobs.history import Cost
from orchestrator.jobs.units import Unit

if TYPE_CHECKING:
    from pathlib import Path


def overlapping(shop: Workshop) -> int:
    """Return how many units ran at a time, at most."""
    count = most = 0
    for word, _, _ in shop.notes():
        count += 1 if word == "begin" else -1
        most = max(most, count)
    return most


def test_a_unit_is_compiled_and_recorded(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        assert finish(shop.compile("a.c", "take(60); time.sleep(0.7)")) == [0]
    assert (tmp_path / "a.c.o").read_text() == "object of a.c"
    (record,) = shop.records
    assert (record.unit.name, record.how, record.code, record.tries) == ("a.c", "ran", 0, 1)
    assert record.unit.output == "a.c.o"
    assert record.unit.folder == str(tmp_path)
    assert 60 * MB < record.peak_bytes < 100 * MB
    assert 60 * MB < shop.broker.peak < 100 * MB
    assert record.wall_s > 0.7
    assert 0 < record.cpu_s < 0.7
    assert shop.history.expected(record.unit, ()).memory == record.peak_bytes


def test_the_compilers_output_and_exit_code_come_through(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.write("a.c", "print('out'); sys.stderr.write('a.c:1: error\\n'); sys.exit(3)")
        done = shop.run("cc", "-c", "a.c")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "a.c:1: error\n")
    assert [(record.how, record.code, record.tries) for record in shop.records] == [("failed", 3, 1)]
    assert not shop.warnings


def test_no_more_run_at_a_time_than_there_are_slots(tmp_path: Path) -> None:
    with Workshop(tmp_path, slots=2) as shop:
        assert not any(finish(*(shop.compile(f"{n}.c", "time.sleep(0.5)") for n in range(5))))
    assert overlapping(shop) == 2


def test_no_more_run_at_a_time_than_the_budget_holds(tmp_path: Path) -> None:
    with Workshop(tmp_path, budget=150 * MB) as shop:
        assert not any(finish(*(shop.compile(f"{n}.c", "time.sleep(0.5)") for n in range(5))))
    assert overlapping(shop) == 3  # by the recipe's figure of 50 MB a unit


def test_what_was_learned_counts_and_not_the_recipes_figure(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, budget=150 * MB)
    for n in range(4):
        unit = Unit(0, "step", str(tmp_path), "compile", "gcc", ("-c", f"{n}.c"))
        shop.history.learn(unit, (), Cost(140 * MB, 1.0))
    with shop:
        assert not any(finish(*(shop.compile(f"{n}.c", "time.sleep(0.1)") for n in range(4))))
    assert overlapping(shop) == 1


def test_a_unit_larger_than_everything_still_runs_alone(tmp_path: Path) -> None:
    with Workshop(tmp_path, budget=10 * MB, reserve=1 << 50) as shop:
        assert not any(finish(*(shop.compile(f"{n}.c", "time.sleep(0.1)") for n in range(3))))
    assert overlapping(shop) == 1
    assert not shop.warnings


@pytest.mark.parametrize("ending", ["end(9)", "end(15)", "sys.exit(9)", "sys.exit(137)", "sys.exit(247)"])
def test_a_unit_that_was_killed_is_run_once_more_and_alone(tmp_path: Path, ending: str) -> None:
    with Workshop(tmp_path) as shop:
        other = shop.compile("other.c", "time.sleep(0.6)")
        while not shop.notes():
            time.sleep(0.01)
        killed = shop.compile("a.c", f"print('try', flush=True)\nif first(): {ending}")
        out, _ = killed.communicate(timeout=20)
        assert finish(other, killed) == [0, 0]
    assert out == "try\ntry\n"
    ends = {(word, unit): at for word, unit, at in shop.notes()}
    assert ends["end", "other.c"] < ends["begin", "a.c"]
    assert [record.tries for record in shop.records if record.unit.name == "a.c"] == [2]
    assert len(shop.warnings) == 1
    assert "a.c: its compiler was killed" in shop.warnings[0]


def test_a_unit_that_is_killed_twice_fails(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        assert finish(shop.compile("a.c", "end(9)")) == [137]
    assert [(record.how, record.code, record.tries) for record in shop.records] == [("failed", 137, 2)]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGILL])
def test_a_crash_is_tried_once_more(tmp_path: Path, number: int) -> None:
    with Workshop(tmp_path) as shop:
        one = shop.compile("a.c", f"if first(): end({int(number)})")
        two = shop.compile("b.c", f"end({int(number)})")
        assert finish(one, two) == [0, 128 + number]
    assert sorted(record.tries for record in shop.records) == [2, 2]
    assert "crashed" in shop.warnings[0]


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        ("gcc: fatal error: Killed signal terminated program cc1plus", "killed"),
        ("a.c:1:2: internal compiler error: Segmentation fault", "crashed"),
    ],
)
def test_a_part_of_a_compiler_that_died_is_known_by_what_gcc_says(
    tmp_path: Path, said: str, warned: str
) -> None:
    with Workshop(tmp_path) as shop:
        one = shop.compile("a.c", f"if first(): print({said!r}, file=sys.stderr); sys.exit(1)")
        _, err = one.communicate(timeout=60)
        assert (one.returncode, err) == (0, f"{said}\n"), "it is handed on"
    assert warned in shop.warnings[0]


@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_any_other_failure_is_not_tried_again(tmp_path: Path, code: int) -> None:
    with Workshop(tmp_path) as shop:
        assert finish(shop.compile("a.c", f"sys.exit({code})")) == [code]
    assert [record.tries for record in shop.records] == [1]


def test_the_newest_is_ended_when_memory_falls_and_run_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestrator.jobs import memory

    left = {"bytes": 1000 * MB}
    monkeypatch.setattr(memory, "read_memory", lambda: memory.Memory(2000 * MB, left["bytes"]))
    with Workshop(tmp_path, reserve=200 * MB) as shop:
        old = shop.compile("old.c", "time.sleep(1.5)")
        while len(shop.notes()) < 1:
            time.sleep(0.01)
        new = shop.compile("new.c", "time.sleep(1.0)")
        while len(shop.notes()) < 2:
            time.sleep(0.01)
        left["bytes"] = 90 * MB  # somebody else takes it
        while not shop.warnings:
            time.sleep(0.01)
        third = shop.compile("third.c", "")
        time.sleep(0.3)
        assert len(shop.notes()) == 2, "under the reserve nothing starts beside another"
        assert finish(old, new, third) == [0, 0, 0]
    ends = {(word, unit): at for word, unit, at in shop.notes()}
    assert ends["end", "old.c"] < ends["begin", "new.c"]
    assert shop.warnings[0] == "memory runs short: new.c is ended, and run again alone"
    assert {record.unit.name: record.tries for record in shop.records} == {
        "old.c": 1,
        "new.c": 2,
        "third.c": 1,
    }


def test_a_unit_that_cannot_serve_is_stopped_before_it_runs(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        seen: list[tuple[str, ...]] = []
        heard: list[str] = []

        def judge(unit: Unit, images: tuple[str, ...]) -> str | None:
            seen.append(images)
            return f"{unit.name} serves nobody" if "sm_75" in images else None

        shop.step.judge = judge
        shop.step.listen = lambda record: heard.append(record.how)
        shop.write("a.cu")
        refused = shop.run("nvcc", "-c", "a.cu", "-o", "a.o")
        served = shop.run("nvcc", "-c", "a.cu", "-o", "a.o", "-gencode", "arch=compute_121a,code=sm_121a")
    assert (refused.returncode, refused.stderr) == (76, "error: sparkbuild: a.cu serves nobody\n")
    assert served.returncode == 0
    assert seen == [("compute_75", "sm_75"), ("sm_121a",)]
    assert heard == ["refused", "ran"]
    assert shop.records[0].why == "a.cu serves nobody"


def test_a_step_that_is_closed_gets_no_turns(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.broker.close(shop.step)
        shop.write("a.c")
        done = shop.run("cc", "-c", "a.c")
    assert done.returncode == 76
    assert "'step' is not being built" in done.stderr
    assert not shop.notes()


def test_what_was_learned_is_kept_even_when_nobody_closes_the_step(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    with Broker(slots=1, reserve=0) as broker:
        broker.open(shop.step)
        shop.env = shop.environ(broker.address)
        assert finish(shop.compile("a.c")) == [0]
    assert "a.c" in (tmp_path / "units.json").read_text()


def test_what_was_learned_is_kept_while_the_step_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed has no end at which to write it down."""
    monkeypatch.setattr("orchestrator.jobs.broker.SAVE_S", 0.1)
    with Workshop(tmp_path) as shop:
        one, two = shop.compile("a.c"), shop.compile("b.c", "time.sleep(3)")
        assert finish(one) == [0]
        end = time.monotonic() + 2.5
        while not (tmp_path / "units.json").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        two.terminate()
        finish(two)


def test_a_unit_of_a_closed_step_is_not_run_again(tmp_path: Path) -> None:
    """What is killed at the end of a run was not killed for want of memory."""
    with Workshop(tmp_path) as shop:
        one = shop.compile("a.c", "time.sleep(0.5); end(9)")
        while not shop.notes():
            time.sleep(0.01)
        shop.broker.close(shop.step)
        assert finish(one) == [137]
        assert [record.tries for record in shop.records] == [1]
        assert not shop.warnings


def test_a_fault_in_the_thread_ends_the_build_and_is_not_swallowed(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    codes = []

    def fail(_record: object) -> None:
        raise RuntimeError("the board is broken")

    def build() -> None:
        with shop:
            finish(shop.compile("a.c"))
            codes.extend(finish(shop.compile("b.c")))

    shop.step.listen = fail
    with pytest.raises(RuntimeError, match="the board is broken"):
        build()
    assert codes == [1]


def test_strangers_on_the_socket_are_turned_away(tmp_path: Path) -> None:
    import socket

    with Workshop(tmp_path) as shop:
        for text in (
            b"hello\n",
            b"turn\0seven\0x\n",
            b"unit\n",
            b"turn\x0099\x001\n",
            b"\xff\xfe\n",
            b"done\n",
        ):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(shop.broker.address)
                link.sendall(text)
        assert finish(shop.compile("a.c")) == [0]
