"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tinyproject import TinyProject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.store.home import Home


@pytest.fixture(scope="session")
def shared_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that keeps the toolkit's layer: SPARKBUILD_TEST_CACHE, or this session's own."""
    named = os.environ.get("SPARKBUILD_TEST_CACHE")
    return Path(named).absolute() if named else tmp_path_factory.mktemp("layers")


@pytest.fixture(scope="session")
def wheels_home(shared_layers: Path) -> Home:
    """Return the state folder in which published wheels are kept."""
    from orchestrator.store.home import Home

    return Home(shared_layers / "published")


@pytest.fixture
def tiny(tmp_path: Path, shared_layers: Path) -> Iterator[TinyProject]:
    """Return a fresh tiny project."""
    project = TinyProject.make(tmp_path / "t", shared_layers)
    yield project
    # Layers and build trees are read-only in part; pytest could not remove them.
    for path in project.home.glob("work/**/*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
