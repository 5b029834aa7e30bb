"""Fixtures: a state folder, and a package index on disk that pip is told of."""

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
    """An index that is the only one that pip knows."""
    yield only_index(tmp_path, monkeypatch)
    index_config.cache_clear()


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskIndex]:
    """The same for all tests of a module, so that pip is asked once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield only_index(tmp_path_factory.mktemp("shared"), monkeypatch)
    index_config.cache_clear()
