"""Fixtures for commands that really run."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.build.supervisor import Finished


class Bench:
    """A folder, a log, and an environment that marks every process that comes from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "logs" / "step.log"
        self.tag = f"tag-{uuid.uuid4().hex}"
        self.env = {"PATH": os.defpath + ":/usr/local/bin", "MARK": self.tag}

    def run(self, *argv: str, check: bool = True, timeout_s: float | None = 30) -> Finished:
        from orchestrator.build import supervisor

        return supervisor.run(
            argv, cwd=self.folder, env=self.env, log=self.log, check=check, timeout_s=timeout_s
        )

    def shell(self, script: str, *, check: bool = True, timeout_s: float | None = 30) -> Finished:
        return self.run("/bin/sh", "-c", script, check=check, timeout_s=timeout_s)

    def output(self) -> str:
        """The log without the lines of ours."""
        lines = self.log.read_text(errors="surrogateescape").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("[sparkbuild] "))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
