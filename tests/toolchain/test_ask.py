"""Short questions to real processes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import faketools
import pytest

from orchestrator.errors import MachineError, ToolMissingError
from orchestrator.toolchain.ask import Answer, ask

if TYPE_CHECKING:
    from pathlib import Path


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    tool = faketools.script(tmp_path / "tool", "echo; echo out; echo err >&2; pwd; exit 3")
    answer = ask([tool], cwd=tmp_path)
    assert answer == Answer(3, f"\nout\nerr\n{tmp_path}\n")
    assert answer.first_line == "out"


def test_variables_that_change_answers_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-arch=sm_50")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    code = "import os; print('NVCC_APPEND_FLAGS' in os.environ, os.environ.get('LANG'), os.environ['LC_ALL'])"
    assert ask([sys.executable, "-c", code]).first_line == "False None C"


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    tool = faketools.script(tmp_path / "tool", r"printf '\377\376ok\n'")
    assert ask([tool]).first_line.endswith("ok")


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match="no such program") as caught:
        ask([tmp_path / "none"])
    assert caught.value.exit_code == 4
    (tmp_path / "data").write_text("no program")
    with pytest.raises(ToolMissingError):
        ask([tmp_path / "data"])


def test_a_tool_that_hangs() -> None:
    with pytest.raises(MachineError, match=r"no answer within 0\.3 s"):
        ask([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("In file included from a.h:\n  b.h:1: error: no\nmore", "b.h:1: error: no"),
        ("nvcc fatal   : Unsupported gpu architecture", "nvcc fatal   : Unsupported gpu architecture"),
        ("\nhello\nterror\n", "hello"),
        ("", ""),
    ],
)
def test_the_telling_line(text: str, line: str) -> None:
    assert Answer(1, text).telling_line == line
