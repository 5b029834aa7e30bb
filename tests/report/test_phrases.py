"""What is said: short, true, and harmless to a terminal."""

from __future__ import annotations

import pytest

from orchestrator.report.events import Note, RunStarted, StageStarted, StepEnded, StepStarted
from orchestrator.report.phrases import about, alive, printable, said, stamped
from orchestrator.report.state import Work


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.1, "5 s"),
        (42, "40 s"),
        (55, "1 min"),
        (89, "1 min"),
        (91, "2 min"),
        (720, "12 min"),
        (3599, "1 h 00 min"),
        (3840, "1 h 04 min"),
    ],
)
def test_guesses_are_round(seconds: float, shown: str) -> None:
    assert about(seconds) == shown


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (RunStarted("demo", "12.1a", ("a",), "/logs/run"), "1 step to carry out; logs: /logs/run"),
        (StepStarted("a", 1111, 720.0), "starts (expects about 12 min, 1,111 units)"),
        (StepStarted("a", 1), "starts (expects 1 unit)"),
        (StepStarted("a", None, 30.0), "starts (expects about 30 s)"),
        (StepStarted("a", 0), "starts"),
        (StepEnded("a", "built", 192.0), "built in 3 min 12 s"),
        (StepEnded("a", "reuse", 90.0), "reused, which took 1 min 30 s"),
        (StepEnded("a", "failed", 9.0, "no\nroom"), "failed after 9.0 s: no room"),
        (StepEnded("a", "rejected", 60.0, "none"), "rejected by its audit after 1 min 00 s: none"),
        (StepEnded("a", "skipped", 0.0, "needs b, which failed"), "skipped: needs b, which failed"),
        (StepEnded("a", "stopped", 60.0), "stopped after 1 min 00 s"),
        (StageStarted("a", "build"), "build ..."),
    ],
)
def test_lines(event: RunStarted | StepStarted | StepEnded | StageStarted, text: str) -> None:
    line = said(event)
    assert line is not None
    assert line.text == text


def test_what_is_as_it_was_is_not_worth_a_line() -> None:
    assert said(StepEnded("a", "reuse", 0.1)) is None


def test_signs_of_life() -> None:
    work = Work("a", 100.0, is_step=True, expected_units=111, expected_s=720.0)
    assert alive(work, 101.0) == "0/111 units, 1.0 s, about 12 min left"
    work.stage, work.units = "build", 37
    work.wrote("[37/222] nvcc \x1b[2J" + "x" * 200)
    line = alive(work, 292.0)
    assert line.startswith("build, 37/111 units, 3 min 12 s, about 9 min left: nvcc  [2Jxx")
    assert len(line) < 200
    assert alive(work, 900.0, last=False) == "build, 37/111 units, 13 min 20 s"


def test_nothing_steers_a_terminal() -> None:
    assert printable("a\x1b[2J\r\n\t\u202eb\x9b1A日本") == "a [2J    b 1A日本"
    line = said(Note("warning", "a\x1b[2J\nb", "x\x1b"))
    assert line is not None
    assert stamped(line, 61, color=False) == "[   1:01] x : warning: a [2J b"
    assert stamped(line, 61, color=True) == "[   1:01] x : \x1b[33mwarning: a [2J b\x1b[0m"
