"""Fixtures for tests of units."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.jobs.compilercache import find_ccache


@pytest.fixture(scope="session")
def nvcc(shared_layers: Path) -> Path:
    """Return an nvcc, if it is the one that the rules were told from: the PATH's, or what builds left."""
    layers = shared_layers / "layers"
    found = shutil.which("nvcc") or next(map(str, layers.glob("*/site/nvidia/cu13/bin/nvcc")), None)
    if found is None:
        pytest.skip("no nvcc on PATH, and no build of a test has provided one yet")
    said = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout
    if "release 13.0" not in said:
        pytest.skip("the nvcc on PATH is not 13.0")
    return Path(found)


@pytest.fixture(scope="session")
def ccache_program() -> Path:
    """Return the ccache that is installed with us."""
    found = find_ccache()
    assert found is not None
    return found
