"""The board on a real terminal, as a person sees it, and its rows for any width."""

from __future__ import annotations

import io
import signal
import threading

import events_help
import pytest
from events_help import EVENTS, STEPS
from rich.cells import cell_len
from terminal import Terminal

from orchestrator.report.board import Board
from orchestrator.report.boardrows import board_rows
from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    RunStarted,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
    Usage,
)
from orchestrator.report.state import State

SCRIPT = events_help.__file__


def played(lines: list[str]) -> bool:
    """Say whether all has come that comes before the wait."""
    text = "\n".join(lines)
    return "steps 1/4" in text and text.count("37/111") == 3 and "somebody" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_what_a_person_sees(columns: int) -> None:
    with Terminal([SCRIPT], columns=columns) as terminal:
        lines = terminal.wait(played)
        assert terminal.cursor_is_hidden()
        rows, foot = lines[-4:-1], lines[-1]
        assert sorted(row.split()[0] for row in rows) == sorted(STEPS[1:])
        for row in rows:
            assert row.split()[1:4] == ["build", "37/111", "12"]
            assert "12 min left" in row
            assert "Building CUDA object" in row
            assert cell_len(row) < columns
        assert foot.split("  ")[-4:] == ["steps 1/4", "compilers 18/20", "41.0/96.0 GiB", "cached 76/148"]
        above = " ".join(lines[:-4])
        assert "kernels: built in 3 min 12 s" in above
        assert "UserWarning: somebody else speaks" in above
        assert "\x1b" not in above
        terminal.type("\n")
        after = terminal.finish()
        assert not terminal.cursor_is_hidden()
    assert [line[-13:] for line in after[-2:]] == ["after the end", "the result"]
    assert not [line for line in after if "37/111" in line or "steps 1/4" in line]
    assert [line for line in after if "kernels: built" in line]


@pytest.mark.parametrize(("argument", "signum"), [("--raise", None), ("--log-format=board", signal.SIGINT)])
def test_the_terminal_is_clean_whatever_happens(argument: str, signum: signal.Signals | None) -> None:
    with Terminal([SCRIPT, argument], columns=80) as terminal:
        if signum is not None:
            terminal.wait(played)
            terminal.process.send_signal(signum)
        after = "\n".join(terminal.finish())
        assert not terminal.cursor_is_hidden()
    assert "37/111" not in after
    assert ("RuntimeError: boom" in after) == (signum is None)
    assert "the result" not in after


def test_the_board_survives_a_terminal_that_changes() -> None:
    with Terminal([SCRIPT], columns=120) as terminal:
        terminal.wait(played)
        terminal.resize(20, 5)
        terminal.wait(lambda lines: {line[:5] for line in lines[-4:-1]} == {"atten", "quant", "engin"})
        terminal.resize(80, 24)
        terminal.wait(lambda lines: "12 min left" in lines[-2] and "steps 1/4" in lines[-1])
        terminal.type("\n")
        assert terminal.finish()[-1] == "the result"


def test_a_narrow_terminal_keeps_what_was_above() -> None:
    with Terminal([SCRIPT], columns=40) as terminal:
        lines = terminal.wait(lambda lines: "steps 1/4" in "".join(lines[-1:]))
        assert lines[:2] == ["before", "[   0:00] sources: fetch done, 0.1 s"]
        terminal.type("\n")
        after = terminal.finish()
    assert after[:2] == lines[:2]
    assert after[-1] == "the result"
    assert "x" * 90 in "".join(after)
    assert "kernels: built in 3 min 12 s" in "".join(after)


def test_a_run_that_does_nothing_draws_nothing() -> None:
    with Terminal([SCRIPT, "--quick"], columns=80) as terminal:
        lines = terminal.finish()
    assert lines == ["before", "[   0:00] sources: fetch done, 0.0 s", "[   0:00] after the end"]
    assert "\x1b" not in terminal.raw


def state(*events: Event, now: float = 0.0) -> State:
    found = State()
    for event in events:
        found.take(event, now)
    return found


def shown(found: State, now: float = 60.0, *, width: int = 79, height: int = 23) -> list[str]:
    return [row.plain for row in board_rows(found, now, now, width=width, height=height)]


def test_rows_say_what_is_known_and_nothing_else() -> None:
    found = state(
        RunStarted("demo", "12.1a", ("a", "b", "c"), "/logs"),
        StepStarted("a", 1, 30.0),
        StepStarted("b"),
        StageStarted("b", "build"),
        Progress("b", "plain words"),
        StepStarted("c", None, 3700.0),
        StageStarted("c", "build"),
        Progress("c", "[9/12] nvcc"),
    )
    assert shown(found, width=40) == [
        "a          0/1",
        "b  build",
        "c  build  9/12  1 h 01 min left",
        "[   1:00]  steps 0/3",
    ]
    assert shown(found)[1:3] == [
        "b  build                         plain words",
        "c  build  9/12  1 h 01 min left  nvcc",
    ]


def test_never_more_units_are_done_than_there_are() -> None:
    ended = UnitEnded("a", "x.cu", "ran", 1.0, 1)
    found = state(RunStarted("demo", "12.1a", ("a",), ""), StepStarted("a", 2), ended, ended)
    assert "2/2" in shown(found)[0]
    found.take(ended, 1)
    assert shown(found)[0].split() == ["a", "3", "units"]
    found.take(Progress("a", "[4/3] strange"), 1)
    assert shown(found)[0].split() == ["a", "3", "units", "[4/3]", "strange"]
    found.take(Progress("a", "[4/9] nvcc"), 1)
    assert shown(found)[0].split() == ["a", "4/9", "nvcc"]


def test_usage_is_true_only_while_it_comes() -> None:
    found = state(StepStarted("a"), Usage(18, 20, 700 * 2**20, 96 * 2**30))
    assert shown(found, 1)[-1] == "[   0:01]  steps 0  compilers 18/20  700 MiB/96.0 GiB"
    assert shown(found, 60)[-1] == "[   1:00]  steps 0  compilers 0/20  0 B/96.0 GiB"


def test_failures_are_counted() -> None:
    found = state(
        RunStarted("demo", "12.1a", ("a", "b"), ""),
        StepStarted("b"),
        StepEnded("a", "failed", 1.0, "no"),
        StepEnded("other", "reuse", 0.0),
    )
    assert shown(found)[-1] == "[   1:00]  steps 1/2 (1 failed)"


@pytest.mark.parametrize("width", [1, 2, 7, 19, 33, 79, 119, 500])
@pytest.mark.parametrize("height", [1, 2, 3, 30])
def test_rows_keep_to_the_terminal(width: int, height: int) -> None:
    found = state(*EVENTS[:-2], Progress("elsewhere", "日本語" * 60))
    for name in STEPS[1:]:
        found.take(StepStarted("日本語" * 9 + name, 10**6, 10**6), 0.0)
    rows = shown(found, 1.0, width=width, height=height)
    assert len(rows) <= height
    assert max(cell_len(row) for row in rows) <= width
    assert "\x1b" not in "".join(rows)
    if (width, height) == (79, 3):
        assert rows[0] == "... and 4 more"


def test_small_commands_have_a_passing_line_and_no_sum() -> None:
    found = state(Progress("lock", "linux-x86_64: torch"))
    assert shown(found) == ["lock: linux-x86_64: torch"]
    found.take(StageStarted("sources", "fetch"), 0.0)
    found.take(Progress("git", "fetching it"), 0.0)
    assert shown(found, 20.0) == ["sources  fetch  git: fetching it"]
    found.take(StageStarted("layers", "provide"), 30.0)
    found.take(Progress("git", "again"), 30.0)
    assert shown(found, 31.0)[-1] == "git: again"
    assert shown(found, 41.0)[-1] == "layers   provide"


def test_events_from_threads_and_after_the_end_and_to_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    board = Board(stream)

    def emit() -> None:
        for event in EVENTS * 50:
            board(event)

    threads = [threading.Thread(target=emit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        board._draw()
    for thread in threads:
        thread.join()
    board.close()
    board(Note("info", "after"))
    board._draw()
    board.close()
    assert board._state.units == 200
