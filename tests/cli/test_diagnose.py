"""`sparkbuild diagnose`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.diagnose import command
from orchestrator.errors import ArchError, UsageError

FAULTS = Path(__file__).parents[1] / "data/faults"


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


def test_text_fits_and_says_it_all() -> None:
    result = run(str(FAULTS / "oom.ninja.log"))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "oom"
    assert "  fault    oom, line 5" in lines
    assert "  evidence Killed" in lines
    assert "  retry    once, alone" in lines
    assert max(map(len, lines)) <= 80


def test_json_of_standard_input() -> None:
    result = run("-", "--json", stdin=(FAULTS / "wrong-suffix.fp4.log").read_bytes())
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["schema"] == "sparkbuild.diagnose/1"
    assert [(fault["class"], fault["retry"]) for fault in answer["faults"]] == [("wrong-suffix", False)]
    assert run(stdin=b"Killed\n").stdout.startswith("oom\n"), "piped input needs no -"


def test_the_device() -> None:
    listing = str(FAULTS / "wrong-arch-image.sibling.txt")
    assert json.loads(run(listing, "--json").stdout)["faults"][0]["class"] == "wrong-arch-image"
    result = run(listing, "--json", "--device", "12.0")
    assert json.loads(result.stdout) == {
        "schema": "sparkbuild.diagnose/1",
        "faults": [],
        "summary": "no fault found: exact for 12.0 through sm_120a",
    }
    assert isinstance(run(listing, "--device", "GB10").exception, ArchError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("/nowhere/build.log",), "/nowhere/build.log cannot be read: No such file"),
        ((str(FAULTS),), "cannot be read: Is a directory"),
        (("-",), "standard input is empty"),
        ((), "standard input is empty"),
    ],
)
def test_what_cannot_be_judged(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError)
    assert words in result.exception.message
    assert "sparkbuild diagnose build.log" in (result.exception.hint or "")
    assert result.stdout == ""


def test_a_terminal_is_not_waited_for_without_a_dash() -> None:
    import os
    import pty
    import subprocess
    import sys

    ours, theirs = pty.openpty()
    code = "import sys; from orchestrator.cli.main import run; sys.exit(run(['diagnose']))"
    ended = subprocess.run(
        [sys.executable, "-c", code], stdin=theirs, capture_output=True, text=True, timeout=60, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert ended.returncode == 2
    assert "there is nothing to diagnose" in ended.stderr


def test_a_good_log() -> None:
    result = run(str(FAULTS / "none.quiet.log"))
    assert (result.exit_code, result.stdout) == (0, "no fault found\n")
