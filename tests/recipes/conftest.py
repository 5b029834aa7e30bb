"""Where downloads of these tests are kept, and the one real torch that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from upstreams import TorchBox

from orchestrator.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def upstream_home(shared_layers: Path) -> Home:
    """Return the state folder that keeps sdists and layers between sessions."""
    return Home(shared_layers)


@pytest.fixture(scope="session")
def torch_box(upstream_home: Home, tmp_path_factory: pytest.TempPathFactory) -> TorchBox:
    """Return an environment with the published torch; gigabytes when cold."""
    return TorchBox.make(tmp_path_factory.mktemp("torch"), upstream_home)
