"""Events as lines: each is one; a step that says nothing for long is told of."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
from events_help import EVENTS, Clock

from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
)
from orchestrator.report.lines import Lines
from orchestrator.report.units import show_bytes, show_clock, show_seconds


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO, *events: Event) -> str:
    lines = Lines(stream)
    for event in events:
        lines(event)
    lines.close()
    return stream.getvalue()


def test_events_are_one_line_each() -> None:
    text = written(
        io.StringIO(),
        StepStarted("kernels", 111, 720.0),
        StageStarted("kernels", "build", "/logs/kernels.log"),
        StageFinished("kernels", "build", 75.2),
        Note("warning", "holds sm_80 as well", "kernels"),
        StepEnded("kernels", "built", 192.0),
        Note("info", "your own recipes come first"),
    )
    assert text.splitlines() == [
        "[   0:00] kernels: starts (expects about 12 min, 111 units)",
        "[   0:00] kernels: build ... log: /logs/kernels.log",
        "[   0:00] kernels: build done, 1 min 15 s",
        "[   0:00] kernels: warning: holds sm_80 as well",
        "[   0:00] kernels: built in 3 min 12 s",
        "[   0:00] your own recipes come first",
    ]


def test_each_step_that_is_silent_for_long_is_told_of() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock=clock)
    lines(StepStarted("kernels", 111, 720.0))
    lines(StageStarted("sources", "fetch"))
    for second in range(96):
        clock.now = 100.0 + second
        lines(UnitEnded("kernels", "a.cu", "ran", 1.0, 1))
        lines(Progress("kernels", f"unit {second}"))
        if second == 40:
            lines(Note("info", "something", "sources"))
        if second == 80:
            lines(StepEnded("kernels", "built", 80.0))
        lines.beat()
    lines.close()
    assert stream.getvalue().splitlines()[2:] == [
        "[   0:30] kernels: 31/111 units, 30 s, about 12 min left: unit 30",
        "[   0:30] sources: fetch, 30 s",
        "[   0:40] sources: something",
        "[   1:00] kernels: 61/111 units, 1 min 00 s, about 11 min left: unit 60",
        "[   1:10] sources: fetch, 1 min 10 s",
        "[   1:20] kernels: built in 1 min 20 s",
    ]
    clock.now = 900.0
    lines.beat()
    lines(Note("info", "after the end"))
    assert stream.getvalue().splitlines()[8:] == ["[  13:20] after the end"]


def test_signs_of_life_need_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.report.lines.QUIET_S", 0.0)
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream, os.fdopen(read) as other:
        lines = Lines(stream)
        lines(StageStarted("kernels", "link"))
        assert other.readline().endswith("kernels: link ...\n")
        assert other.readline().startswith("[   0:01] kernels: link, 1.")
        lines.close()


def test_what_belongs_to_no_step_is_told_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock=clock)
    for second in range(95):
        clock.now = 100.0 + second
        lines(Progress("lock", f"package {second} " + "x" * 200))
    told = stream.getvalue().splitlines()
    assert [line[:23] for line in told] == [f"[   {at}] lock: package" for at in ("0:30", "1:00", "1:30")]
    assert max(map(len, told)) < 140


@pytest.mark.parametrize(
    ("environ", "colored"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_colors(environ: dict[str, str], *, colored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    text = written(Tty(), Note("error", "no \x1b[2J"))
    assert ("\x1b[31merror: no  [2J\x1b[0m" in text) == colored
    assert ("\x1b" in text) == colored


def test_a_stream_that_is_gone_is_no_reason_to_fail() -> None:
    closed = io.StringIO()
    closed.close()
    assert Lines(closed)(EVENTS[0]) is None
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    lines = Lines(stream)
    for event in EVENTS * 200:
        lines(event)
    lines.close()
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk at hand")
def test_nor_is_a_full_disk() -> None:
    stream = Path("/dev/full").open("w")  # noqa: SIM115 (closing it fails)
    lines = Lines(stream)
    for event in EVENTS * 200:
        lines(event)
    lines.close()
    with pytest.raises(OSError, match="No space"):
        stream.close()


def test_lines_of_threads_are_whole() -> None:
    stream = io.StringIO()
    lines = Lines(stream)

    def emit(name: str) -> None:
        for _ in range(300):
            lines(Note("info", "whole", name))

    threads = [threading.Thread(target=emit, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = stream.getvalue().splitlines()
    assert len(told) == 1200
    assert {line.partition("] ")[2] for line in told} == {f"{name}: whole" for name in "abcd"}


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
