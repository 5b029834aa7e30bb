"""Fixtures for the tools that build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.store.facts import Facts
from orchestrator.toolchain.compiler import Compiler, host_compiler

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """Return an empty cache of facts."""
    return Facts(tmp_path / "facts.json")


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Return this machine's compiler."""
    return host_compiler(Facts(tmp_path_factory.mktemp("compiler") / "facts.json"))
