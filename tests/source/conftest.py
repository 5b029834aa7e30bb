"""Fixtures: a state folder, and a package index on disk that pip is told of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from source_help import DiskIndex

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
    yield _only_index(tmp_path, monkeypatch)
    index_config.cache_clear()


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskIndex]:
    """The same for all tests of a module, so that pip is asked once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield _only_index(tmp_path_factory.mktemp("shared"), monkeypatch)
    index_config.cache_clear()


def _only_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> DiskIndex:
    index = DiskIndex(root / "index")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    index_config.cache_clear()
    return index
