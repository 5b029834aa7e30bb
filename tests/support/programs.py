"""Programs that tests run: those of packages beside this Python, else the PATH's."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def find_program(name: str) -> str | None:
    """Return the path of a program such as `ninja`; None when there is none."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def find_cmake() -> str:
    """Return CMake, which package `cmake` brings."""
    found = find_program("cmake")
    assert found, "these tests need CMake: pip install cmake"
    return found
