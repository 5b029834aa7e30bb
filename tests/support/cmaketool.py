"""The CMake that tests run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def find_cmake() -> str:
    """Return the one beside this Python (package cmake), else the PATH's."""
    beside = Path(sys.executable).with_name("cmake")
    found = str(beside) if beside.exists() else shutil.which("cmake")
    assert found, "these tests need CMake: pip install cmake"
    return found
