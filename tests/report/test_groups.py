"""Groups in the logs of CI services, in the form that each of them reads."""

from __future__ import annotations

import io
import re
import threading

import pytest
from events_help import EVENTS, Clock

from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    RunStarted,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
)
from orchestrator.report.groups import Groups, Host

RUN: tuple[Event, ...] = (
    RunStarted("demo", "12.1a", ("a", "b"), "/logs"),
    StepStarted("a", 3),
    StepStarted("b"),
    StageStarted("a", "build", "/logs/a.log"),
    StageStarted("b", "build"),
    Progress("a", "[1/3] nvcc"),
    StageFinished("b", "build", 2.0),
    Note("warning", "old", "b"),
    Note("info", "for all"),
    StepEnded("b", "built", 3.0),
    StepEnded("a", "failed", 60.0, "100% wrong:\r\nno, a\x1b[2J"),
    StepEnded("c", "skipped", 0.0, "needs a, which failed"),
)


def written(host: Host, *events: Event) -> str:
    stream = io.StringIO()
    groups = Groups(stream, host)
    for event in events:
        groups(event)
    groups.close()
    return stream.getvalue()


def test_github_gets_a_group_a_step_and_errors_outside() -> None:
    assert written("github", *RUN).split("\n") == [
        "[   0:00] 2 steps to carry out; logs: /logs",
        "[   0:00] a: starts (expects 3 units)",
        "[   0:00] b: starts",
        "[   0:00] for all",
        "::group::b: built in 3.0 s",
        "[   0:00] b: build ...",
        "[   0:00] b: build done, 2.0 s",
        "[   0:00] b: warning: old",
        "::endgroup::",
        "::group::a: failed after 1 min 00 s",
        "[   0:00] a: build ... log: /logs/a.log",
        "[   0:00] a: failed after 1 min 00 s: 100% wrong:  no, a [2J",
        "::endgroup::",
        "::error title=a failed::100%25 wrong:%0Ano, a [2J",
        "[   0:00] c: skipped: needs a, which failed",
        "",
    ]


def test_gitlab_gets_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = written("gitlab", *RUN)
    found = re.findall(
        r"^\x1b\[0Ksection_start:(\d+):(\w+)\[collapsed=true\]\r\x1b\[0K(.+)\n((?:\[.*\n)*)"
        r"\x1b\[0Ksection_end:(\d+):\2\r\x1b\[0K\n",
        text,
        re.MULTILINE,
    )
    assert [(name, title, inside.count("\n")) for _, name, title, inside, _ in found] == [
        ("b", "b: built in 3.0 s", 3),
        ("a", "a: failed after 1 min 00 s", 2),
    ]
    assert all(0 <= int(end) - int(start) <= 1 for start, _, _, _, end in found)
    assert text.count("\x1b[0K") == 8
    assert "\n[   0:00] \x1b[31merror: a failed: 100% wrong:  no, a [2J\x1b[0m\n" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in written("gitlab", *RUN)


def test_a_section_lasts_as_long_as_its_step() -> None:
    clock, stream = Clock(), io.StringIO()
    groups = Groups(stream, "gitlab", clock=clock)
    groups(StepStarted("a/b [x]"))
    clock.now += 600
    groups(StepEnded("a/b [x]", "built", 600.0))
    groups.close()
    start, end = (int(at) for at in re.findall(r"section_\w+:(\d+):a_b__x_[\[\r]", stream.getvalue()))
    assert end - start == 600


def test_the_log_lives_by_one_line_a_minute() -> None:
    clock, stream = Clock(), io.StringIO()
    groups = Groups(stream, "github", clock=clock)
    for name, units in (("a", 100), ("b", None)):
        groups(StepStarted(name, units, 1200.0 if units else None))
    for second in range(1, 150):
        clock.now = 100.0 + second
        groups(UnitEnded("a", "x.cu", "ran", 1.0, 1))
        groups(Progress("a", "nvcc"))
        groups.beat()
    told = stream.getvalue().splitlines()[2:]
    assert told == [
        "[   1:00] a: 60/100 units, 1 min 00 s, about 19 min left; b: 1 min 00 s",
        "[   2:00] a: 120 units, 2 min 00 s, about 18 min left; b: 2 min 00 s",
    ]
    groups.close()


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_what_did_not_end_is_not_lost(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = written(host, StepStarted("a"), StageStarted("a", "build"), Note("warning", "old", "a"))
    assert "a: not ended\n[   0:00] a: build ...\n[   0:00] a: warning: old\n" in text


def test_no_step_can_command_the_runner() -> None:
    evil = "::error::a%0A\n::set-env name=a::b ##[add-path]c"
    text = written(
        "github",
        StepStarted(evil),
        Note("error", evil, "a"),
        Note("info", evil),
        StepEnded(evil, "failed", 1.0, evil),
    )
    commands = [
        line.partition("::")[2].split("::")[0] for line in text.splitlines() if line.lstrip().startswith("::")
    ]
    assert commands == [
        "error title=a",
        "group",
        "endgroup",
        "error title=%3A%3Aerror%3A%3Aa%250A%0A%3A%3Aset-env name=a%3A%3Ab ##[add-path]c failed",
    ]


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_groups_do_not_interleave(host: Host) -> None:
    stream = io.StringIO()
    groups = Groups(stream, host)

    def step(name: str) -> None:
        for number in range(50):
            groups(StepStarted(f"{name}{number}"))
            groups(StageStarted(f"{name}{number}", "build"))
            groups(StepEnded(f"{name}{number}", "built", 1.0))

    threads = [threading.Thread(target=step, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    groups.close()
    start, end = ("::group::", "::endgroup::") if host == "github" else ("section_start", "section_end")
    inside = re.findall(rf"{start}.*\n(.*)\n.*{end}", stream.getvalue())
    assert len(inside) == 200
    assert all(line.endswith("build ...") for line in inside)


def test_a_stream_that_is_gone_and_events_after_the_end() -> None:
    stream = io.StringIO()
    groups = Groups(stream, "github")
    stream.close()
    for event in EVENTS:
        groups(event)
    groups.close()
    for event in EVENTS:
        groups(event)
    groups.close()
