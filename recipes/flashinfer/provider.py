# ruff: noqa: INP001 - becomes the module of a wheel
"""FlashInfer's kernels, compiled ahead of time for the GPUs that this module is named after.

Written for sparkbuild. The name is all that differs between wheels: `flashinfer_jit_cache_sm121a` holds
modules for sm_121a, `flashinfer_jit_cache_sm90a_sm121a` such for both.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TypedDict


class Provider(TypedDict):
    """What `flashinfer_jit_cache` asks for."""

    schema_version: int
    distribution: str
    version: str
    jit_cache_dir: str
    cuda_architectures: list[str]
    modules: list[str]


def get_provider() -> Provider:
    """Return where the modules lie, what they are called, and what they are compiled for."""
    distribution = __name__.replace("_", "-")
    folder = Path(__file__).parent / "jit_cache"
    return {
        "schema_version": 1,
        "distribution": distribution,
        "version": version(distribution),
        "jit_cache_dir": str(folder),
        "cuda_architectures": __name__.removeprefix("flashinfer_jit_cache_").split("_"),
        "modules": sorted(path.stem for path in folder.glob("*/*.so")),
    }
