"""`sparkbuild plan`: what it foresees before a build, after one, and when there is nothing to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from purestack import PureStack

from orchestrator.jobs.memory import cpu_count

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stack(tmp_path: Path) -> PureStack:
    made = PureStack(tmp_path)
    made.project("upper", "lower", build="{estimate: {cpu: 2h, disk: 1024 TiB}}")
    made.project("lower")
    made.write()
    return made


def plan(stack: PureStack, *arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "orchestrator", "--recipes", str(stack.recipes), "plan", "all"]
    return subprocess.run(
        [*command, "--stack", "pure", "--arch", "12.1a", *arguments],
        cwd=stack.root,
        env=os.environ | {"SPARKBUILD_HOME": str(stack.home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def foreseen(stack: PureStack) -> Any:
    return json.loads(plan(stack, "--json"))["forecast"]


def test_what_was_never_built_is_foreseen_by_its_recipe_or_not_at_all(stack: PureStack) -> None:
    found = foreseen(stack)
    assert found["wall_s"] == pytest.approx(7200 / cpu_count(), abs=0.1)
    assert (found["disk_bytes"], found["guessed"], found["unknown"]) == (2**50, ["upper"], ["lower"])
    (note,) = found["notes"]
    assert note["level"] == "warning"
    assert "SPARKBUILD_HOME" in note["text"]
    told = plan(stack)
    assert "\nforecast  about " in told
    assert "upper: never built here, by its recipe's figure; lower: how long, nobody knows\n" in told
    assert "\nwarning   " in told


def test_what_was_built_is_foreseen_by_that(stack: PureStack) -> None:
    assert stack.run().code == 0
    assert foreseen(stack) is None
    assert "forecast" not in plan(stack)
    stack.project("upper", "lower", build="{env: {NEW: '1'}}")
    stack.write()
    found = foreseen(stack)
    assert 0 < found["wall_s"] < 60
    assert 0 < found["peak_bytes"] < 2**30, "it compiles nothing, so memory_per_unit does not count"
    assert (found["guessed"], found["unknown"], found["notes"]) == ([], [], [])
