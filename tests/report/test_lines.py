"""Events as lines: on a pipe each is one, on a terminal the passing one is replaced."""

from __future__ import annotations

import io

import pytest

from orchestrator.report.events import Event, Note, Progress, StageFinished, StageStarted
from orchestrator.report.lines import Lines
from orchestrator.report.units import show_bytes, show_clock, show_seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO, *events: Event) -> str:
    lines = Lines(stream)
    for event in events:
        lines(event)
    lines.close()
    return stream.getvalue()


def test_stages_and_notes_are_one_line_each() -> None:
    text = written(
        io.StringIO(),
        StageStarted("kernels", "build", "/logs/kernels.log"),
        StageFinished("kernels", "build", 75.2),
        Note("warning", "holds sm_80 as well", "kernels"),
        Note("info", "your own recipes come first"),
    )
    assert text.splitlines() == [
        "[   0:00] kernels: build ... log: /logs/kernels.log",
        "[   0:00] kernels: build done, 1 min 15 s",
        "[   0:00] kernels: warning: holds sm_80 as well",
        "[   0:00] your own recipes come first",
    ]


def test_on_a_pipe_progress_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    stream = io.StringIO()
    lines = Lines(stream)
    lines(StageStarted("kernels", "build"))
    for second in range(95):
        now = 100.0 + second
        lines(Progress("kernels", f"unit {second}"))
    assert stream.getvalue().splitlines()[1:] == [
        "[   0:30] kernels: unit 30",
        "[   1:00] kernels: unit 60",
        "[   1:30] kernels: unit 90",
    ]


def test_on_a_terminal_progress_is_replaced_cut_and_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    text = written(Terminal(), Progress("kernels", "\x1b[2Jnvcc " + "x" * 100), Note("error", "no"))
    passing, rest = text.split("\n", 1)[0].split("\r\x1b[2K")[1:3]
    assert "\x1b" not in passing
    assert len(passing) == 39
    assert rest.endswith("\x1b[31merror: no\x1b[0m")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in written(Terminal(), Note("error", "no"))


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "—"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**60, "1048576 TiB"),
    ],
)
def test_bytes(count: int | None, shown: str) -> None:
    assert show_bytes(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "—"),
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_seconds(seconds: float | None, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_clock() -> None:
    assert [show_clock(value) for value in (0, 61.9, 3661)] == ["0:00", "1:01", "1:01:01"]
