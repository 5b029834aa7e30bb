# ruff: noqa: INP001 - becomes the module of a wheel
"""Finds the wheels that hold FlashInfer's kernels compiled ahead of time, each for its own GPUs.

FlashInfer 0.7 and later ask this module for them when they are imported. Written for sparkbuild, since the
source distribution of FlashInfer brings none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from pathlib import Path

logger = logging.getLogger(__name__)

__version__ = version("flashinfer-jit-cache")

GROUP = "flashinfer.jit_cache.providers"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class JitCacheProvider:
    """One installed wheel of kernels."""

    provider_id: str
    distribution: str
    version: str
    jit_cache_dir: Path
    """Holds `<module>/<module>.so`."""
    cuda_architectures: tuple[str, ...]
    """Such as `sm121a`."""
    modules: tuple[str, ...]


def get_jit_cache_providers() -> tuple[JitCacheProvider, ...]:
    """Return every installed provider, in the order of their names.

    One that speaks another version of this interface is told of in the log and left out: FlashInfer then
    compiles when it needs a kernel.
    """
    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        told = entry.load()()
        if told["schema_version"] != SCHEMA_VERSION:
            spoken = told["schema_version"]
            logger.warning("%s speaks version %s, not %s", entry.value, spoken, SCHEMA_VERSION)
            continue
        found.append(
            JitCacheProvider(
                provider_id=entry.name,
                distribution=told["distribution"],
                version=told["version"],
                jit_cache_dir=Path(told["jit_cache_dir"]),
                cuda_architectures=tuple(told["cuda_architectures"]),
                modules=tuple(told["modules"]),
            )
        )
    return tuple(found)
