"""The platform and Python that locks are made for, and the one that runs this."""

from __future__ import annotations

import platform as _platform
import sys
from dataclasses import dataclass

from orchestrator.errors import UsageError

PLATFORMS = ("linux-x86_64", "linux-aarch64")


@dataclass(frozen=True, slots=True)
class Target:
    """Where wheels are to run: `platform` such as `linux-aarch64`, `python` such as `3.12`."""

    platform: str
    python: str

    @classmethod
    def here(cls) -> Target:
        """Return the running interpreter's target."""
        machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(
            _platform.machine().lower(), _platform.machine().lower()
        )
        return cls(f"{sys.platform}-{machine}", f"{sys.version_info[0]}.{sys.version_info[1]}")

    @classmethod
    def checked(cls, platform: str, python: str) -> Target:
        """Return a target that a lock can be made for.

        Raises:
            UsageError: a platform other than `PLATFORMS`, or a Python that is not `3.N`.
        """
        if platform not in PLATFORMS:
            raise UsageError(f"no platform {platform!r}", hint=f"one of {', '.join(PLATFORMS)}")
        major, _, minor = python.partition(".")
        if major != "3" or not minor.isdigit():
            raise UsageError(f"no Python version {python!r}", hint="such as 3.12")
        return cls(platform, python)

    @property
    def tag(self) -> str:
        """Short form for file names: `linux-aarch64.cp312`."""
        return f"{self.platform}.cp{self.python.replace('.', '')}"
