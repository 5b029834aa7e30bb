"""The Python that builds: its headers, its ABI, and the C library that wheels are made for."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path

from orchestrator.errors import MachineError, ToolMissingError

OLDEST = (3, 11)


def check_python(version: tuple[int, int] | None = None) -> None:
    """Refuse a Python that is too old.

    Args:
        version: major and minor; those of the running one by default.

    Raises:
        MachineError: it is.
    """
    seen = version or (sys.version_info[0], sys.version_info[1])
    if seen < OLDEST:
        raise MachineError(
            f"Python {seen[0]}.{seen[1]} is too old, {OLDEST[0]}.{OLDEST[1]} is the oldest that serves",
            where=sys.executable,
            hint=f"make the environment with `python{OLDEST[0]}.{OLDEST[1] + 1} -m venv`, or with `uv venv`",
        )


def check_python_headers(include: Path | None = None) -> Path:
    """Return the folder that holds Python.h.

    Args:
        include: where to look; the running Python's own folder by default.

    Raises:
        ToolMissingError: it is not there; distributions ship it apart from Python.
    """
    folder = include or Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").is_file():
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise ToolMissingError(
            f"Python.h of Python {version} is missing, so no extension can be compiled",
            where=str(folder),
            hint=f"`apt install python{version}-dev`, `dnf install python{version}-devel`, or uv's Python",
        )
    return folder


def python_abi() -> str:
    """Return the name that extension modules bear, such as `cpython-312-aarch64-linux-gnu`."""
    return sysconfig.get_config_var("SOABI") or f"{sys.implementation.cache_tag}-{platform.machine()}"


def libc_version() -> str:
    """Return the C library and its version, such as `glibc 2.39`; `unknown` where nothing says it."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # musl does not know the name
        said = None
    return said or "unknown"
