"""Writes what patches made of a tree, all or none."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.source import disk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Blob:
    """A file: its bytes, and whether it may be run."""

    data: bytes
    executable: bool = False


def write_files(tree: Path, files: Mapping[str, Blob | None]) -> None:
    """Write files of a tree, all or none: to temporary ones first; only renames and removals follow.

    Args:
        tree: the folder.
        files: path -> content; None removes it. A file keeps its time, a new one has that of the tree.

    Raises:
        NoSpaceError: the disk is full; the tree is untouched.
    """
    staged: dict[Path, Path] = {}
    try:
        with disk.telling_full(tree):
            for path, blob in files.items():
                if blob is not None:
                    staged[tree / path] = _staged(tree, tree / path, blob)
    except BaseException:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        raise
    for place, temporary in staged.items():
        temporary.replace(place)
    for path, blob in files.items():
        # A folder stands there if a patch made a file, one deleted it, and one made files below the name.
        if blob is None and not (tree / path).is_dir():
            (tree / path).unlink(missing_ok=True)


def _staged(tree: Path, place: Path, blob: Blob) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    time = (place if place.exists() else tree).stat().st_mtime_ns
    # Short, as the file's own name may be as long as names can be; random, so that it is nobody's.
    temporary = place.with_name(f".sparkbuild-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as sink:
            sink.write(blob.data)
        temporary.chmod(0o755 if blob.executable else 0o644)
        os.utime(temporary, ns=(time, time))
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return temporary
