"""What builds may use of this machine."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from orchestrator.build.foresee import foreseen, this_machine
from orchestrator.jobs.memory import cpu_count, read_memory
from orchestrator.plan.steps import Plan
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_cpus_memory_and_the_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    machine = this_machine(Home(tmp_path / "a" / "b"))
    assert machine.cpus == cpu_count()
    assert read_memory().total * 0.7 < machine.memory < read_memory().total
    assert machine.disk is not None
    assert 0 < machine.disk <= shutil.disk_usage(tmp_path).total


def test_a_plan_without_builds_has_no_forecast(tmp_path: Path) -> None:
    assert foreseen(Plan("demo", "12.1a", "here", ()), Home(tmp_path)) is None
