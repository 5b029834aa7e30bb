"""Homes, full disks and unwritable folders for the store's tests; real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from store_help import Heard

from orchestrator.store.artifacts import Store
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path / "home")


@pytest.fixture
def heard() -> Heard:
    """What the store said."""
    return Heard()


@pytest.fixture
def store(home: Home, heard: Heard) -> Store:
    """A store in the empty home."""
    return Store(home, heard)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    yield from _mounted(tmp_path / "small", "size=2m")


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """A folder that this user cannot write into."""
    folder = tmp_path / "unwritable"
    if os.geteuid() == 0:  # permissions do not bind root
        yield from _mounted(folder, "ro,size=1m")
        return
    folder.mkdir(mode=0o555)
    yield folder
    folder.chmod(0o755)


def _mounted(folder: Path, options: str) -> Iterator[Path]:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    folder.mkdir()
    if mount is None or umount is None:
        pytest.skip("no mount command")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run([umount, str(folder)], check=True)
