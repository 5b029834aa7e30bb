"""Fixtures: a state folder, and a package index on disk that is the only one pip knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from source_help import DiskIndex, only_index

from orchestrator.source.index import index_config
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def disk_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskIndex]:
    yield only_index(tmp_path, monkeypatch)
    index_config.cache_clear()
