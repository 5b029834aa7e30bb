"""Less power than a test has: without root's right to read all, and with a limit to what files may hold."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]


def as_anybody(code: str, *arguments: str) -> str:
    """Run Python code for which modes of files hold, even as root; return what it prints."""
    argv = [sys.executable, "-c", code, *arguments]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root reads every file here, as there is no setpriv")
        argv = [setpriv, "--bounding-set", "-dac_override,-dac_read_search", *argv]
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let writes of this process past `size` bytes of a file fail, as by `ulimit -f`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
