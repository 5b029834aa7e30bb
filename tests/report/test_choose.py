"""The renderer that fits: by what was asked for, the service that runs us, and the stream."""

from __future__ import annotations

import io

import pytest

from orchestrator.report.board import Board
from orchestrator.report.choose import FORMATS, LogFormat, renderer
from orchestrator.report.groups import Groups
from orchestrator.report.jsonl import JsonLines
from orchestrator.report.lines import Lines


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("environ", "on_terminal", "on_pipe"),
    [
        ({}, Board, Lines),
        ({"TERM": "dumb"}, Lines, Lines),
        ({"TERM": ""}, Lines, Lines),
        ({"CI": "true"}, Lines, Lines),
        ({"CI": "false"}, Board, Lines),
        ({"GITHUB_ACTIONS": "true", "CI": "true"}, Groups, Groups),
        ({"GITLAB_CI": "true", "CI": "true"}, Groups, Groups),
    ],
)
def test_by_itself(
    environ: dict[str, str], on_terminal: type, on_pipe: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert type(renderer(Tty())) is on_terminal
    assert type(renderer(io.StringIO())) is on_pipe


@pytest.mark.parametrize(
    ("log_format", "on_terminal", "on_pipe"),
    [
        ("board", Board, Lines),
        ("plain", Lines, Lines),
        ("github", Groups, Groups),
        ("gitlab", Groups, Groups),
        ("jsonl", JsonLines, JsonLines),
    ],
)
def test_as_asked(
    log_format: LogFormat, on_terminal: type, on_pipe: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert type(renderer(Tty(), log_format)) is on_terminal
    assert type(renderer(io.StringIO(), log_format)) is on_pipe


def test_a_closed_stream_is_no_terminal() -> None:
    stream = Tty()
    stream.close()
    for log_format in FORMATS:
        renderer(stream, log_format).close()
