"""What several commands share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from orchestrator.cli.options import lines, listed, log_format_option, parse_time, refuse_empty
from orchestrator.errors import UsageError
from orchestrator.report.events import StepStarted

if TYPE_CHECKING:
    from orchestrator.report.choose import LogFormat


@pytest.mark.parametrize(
    ("text", "seconds"), [("5h30m", 19800), ("90m", 5400), ("45s", 45), ("1H2M3S", 3723), (" 2h ", 7200)]
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "5", "h", "5h30", "-3m", "1d", "3m2h", "9" * 50 + "s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time") as caught:
        parse_time(text)
    assert caught.value.hint


def test_an_option_without_a_value_is_named() -> None:
    refuse_empty({"--a": None, "--b": "x"})
    with pytest.raises(UsageError, match="--b is empty"):
        refuse_empty({"--a": None, "--b": " "})


@pytest.mark.parametrize(
    ("arguments", "variable", "chosen"),
    [
        ([], None, "Lines"),
        ([], "jsonl", "JsonLines"),
        ([], "", "Lines"),
        (["--log-format", "github"], "jsonl", "Groups"),
    ],
)
def test_how_a_run_is_told(
    arguments: list[str], variable: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)

    @click.command()
    @log_format_option
    def command(log_format: LogFormat) -> None:
        click.echo(type(lines(log_format)).__name__)

    result = CliRunner().invoke(command, arguments, env={"SPARKBUILD_LOG_FORMAT": variable})
    assert result.output == f"{chosen}\n"
    assert CliRunner().invoke(command, ["--log-format", "xml"]).exit_code == 2


def test_what_listens_is_closed_with_its_command() -> None:
    @click.command()
    def command() -> None:
        lines()(StepStarted("kernels"))
        assert "report" in {thread.name for thread in threading.enumerate()}
        raise UsageError("no", hint="no")

    assert isinstance(CliRunner().invoke(command).exception, UsageError)
    for thread in threading.enumerate():
        if thread.name == "report":
            thread.join(10)
            assert not thread.is_alive()


def test_names_with_commas_between_them_each_once() -> None:
    assert listed("--prebuilt", ("pytorch, triton", "pytorch", "vllm")) == ("pytorch", "triton", "vllm")
    assert listed("--prebuilt", ()) == ()
    for given in ("", "a,,b", "a,"):
        with pytest.raises(UsageError, match="--prebuilt is empty"):
            listed("--prebuilt", (given,))
