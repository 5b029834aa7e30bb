"""The names that sparkbuild gives to what lies in its folders; what is named otherwise is somebody else's.

A folder of the state may be a link to a bigger disk, where other things lie too. So nothing is moved or
removed by its place alone: its name must also be one that only this program gives. Temporaries have
their form from `atomic.temporary_name`.
"""

from __future__ import annotations

import re
from typing import Final

PARTS: Final = ".parts"
"""In `downloads`: the folder of files that are half downloaded, each named by its sha256."""

_PIP: Final = re.compile(r"\.pip-[a-z0-9_]{8}")
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_TREE: Final = re.compile(r"[0-9a-f]{16}")
_RUN: Final = re.compile(r"\d{8}-\d{6}-\d+-[0-9a-f]{4}", re.ASCII)
_QUARANTINED: Final = re.compile(
    r"\d{8}T\d{6}Z\.(artifacts|rejected|downloads|git)\.[^/]{1,100}\.[0-9a-f]{6}(\.why)?",
    re.ASCII | re.DOTALL,
)


def is_pip_temporary(name: str) -> bool:
    """Tell whether this is a folder in `downloads` into which pip downloads wheels."""
    return _PIP.fullmatch(name) is not None


def is_key(name: str) -> bool:
    """Tell whether this is a build key or a sha256, as artifacts, layers, wheels and downloads are named."""
    return _KEY.fullmatch(name) is not None


def is_tree(name: str) -> bool:
    """Tell whether this is the start of a build key, as build trees in `work` are named."""
    return _TREE.fullmatch(name) is not None


def is_mirror(name: str) -> bool:
    """Tell whether this names a bare mirror of a repository, by the sha256 of its address."""
    return _KEY.fullmatch(name.removesuffix(".git")) is not None and name.endswith(".git")


def is_run(name: str) -> bool:
    """Tell whether this names a run, as leases and folders of work and logs are named."""
    return _RUN.fullmatch(name) is not None


def is_quarantined(name: str) -> bool:
    """Tell whether something in quarantine, or the `.why` beside it, was put there by this program."""
    return _QUARANTINED.fullmatch(name) is not None
