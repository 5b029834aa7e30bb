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


WHEEL = b"PK\x03\x04" + bytes(26) + b"torch/version.py"
RANDOM = bytes((n * n * 31 + n * 7 + (n >> 3)) % 256 for n in range(4000))


@pytest.mark.parametrize("data", [WHEEL, b"\x7fELF\x02\x01\x01", RANDOM, bytes(5000)])
def test_what_is_binary_is_no_log(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "some.whl"
    file.write_bytes(data)
    for result in (run(str(file)), run("-", "--json", stdin=data)):
        assert isinstance(result.exception, UsageError)
        assert result.exception.exit_code == 2
        assert "is no log (it is binary)" in result.exception.message
        assert "sparkbuild audit FILE" in (result.exception.hint or "")
        assert result.stdout == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_other_encodings_with_a_mark(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "log"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    file.write_bytes(f"{mark}Killed\r\n{'fine' * 50_000}\r\na.c:1:1: error: \u00fc\r\n".encode(encoding))
    answer = json.loads(run(str(file), "--json").stdout)
    assert [(fault["evidence"], fault["line"]) for fault in answer["faults"]] == [
        ("Killed", 1),
        ("a.c:1:1: error: \u00fc", 3),
    ]


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_not_waited_for(device: str) -> None:
    result = run(device)
    assert isinstance(result.exception, UsageError)
    assert result.exception.message == f"{device} is a device, and no log"


@pytest.mark.parametrize(("file", "words"), [("/dev/zero", "it is binary"), ("/dev/null", "is empty")])
def test_a_device_as_standard_input(file: str, words: str) -> None:
    import subprocess
    import sys

    code = "import sys; from orchestrator.cli.main import run; sys.exit(run(['diagnose', '/dev/stdin']))"
    with Path(file).open("rb") as stream:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stdin=stream,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2
    assert words in ended.stderr


def test_a_good_log() -> None:
    result = run(stdin=b"all is well\n")
    assert (result.exit_code, result.stdout) == (0, "no fault found\n")
    result = run(str(FAULTS / "none.quiet.log"))
    assert result.exit_code == 0
    assert "warning about compute capability 12.1 is harmless" in result.stdout
