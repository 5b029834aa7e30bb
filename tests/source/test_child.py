"""Children: their output, their ends, and that none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from processes import survivors, wait_for_count

from orchestrator.source.child import run_child

if TYPE_CHECKING:
    from pathlib import Path

ENV = {"PATH": os.environ["PATH"]}


def test_output_status_folder_and_environment(tmp_path: Path) -> None:
    script = (
        "import os, sys; print(os.getcwd(), len(os.environ)); print('told', file=sys.stderr); sys.exit(7)"
    )
    done = run_child([sys.executable, "-I", "-c", script], env={"A": "1"}, cwd=tmp_path)
    assert done.returncode == 7
    assert done.stdout.decode().split()[0] == str(tmp_path)
    assert int(done.stdout.split()[1]) <= 2  # Python itself may set LC_CTYPE
    assert done.stderr == "told\n"


def test_no_such_command_and_a_signal() -> None:
    done = run_child(["no-such-command-here"], env=ENV)
    assert (done.returncode, done.stderr) == (127, "no-such-command-here: No such file or directory\n")
    assert run_child(["sh", "-c", "kill -9 $$"], env=ENV).returncode == -9


def test_lines_as_they_come_while_stderr_is_long() -> None:
    lines: list[str] = []
    loop = "i=0; while [ $i -lt 3000 ]; do {}; i=$((i+1)); done"
    script = loop.format("echo out$i; echo an error line of some length $i >&2")
    done = run_child(["sh", "-c", script], env=ENV, on_line=lines.append)
    assert (len(lines), lines[-1]) == (3000, "out2999")
    assert done.stderr.count("\n") == 3000


def test_input_is_empty() -> None:
    assert run_child(["cat"], env=ENV).stdout == b""


def test_what_is_raised_here_ends_the_child(tmp_path: Path) -> None:
    tag = f"tag-{tmp_path}"

    def stop(line: str) -> None:
        raise KeyError(line)

    with pytest.raises(KeyError, match="begun"):
        run_child(["sh", "-c", "echo begun; exec sleep 60", tag], env={**ENV, "TAG": tag}, on_line=stop)
    assert survivors(tag) == []


def test_a_killed_parent_leaves_no_child(tmp_path: Path) -> None:
    tag = f"tag-{tmp_path}"
    imports = "import os\nfrom orchestrator.source.child import run_child\n"
    script = f"{imports}run_child(['sleep', '60'], env=os.environ)"
    with subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TAG": tag}) as parent:
        wait_for_count(tag, 2)
        parent.send_signal(signal.SIGKILL)
    assert survivors(tag) == []
