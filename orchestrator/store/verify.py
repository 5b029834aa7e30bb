"""Verification: hash every artifact and download; what does not fit goes to quarantine."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.report.events import Note, Progress, silent
from orchestrator.store import atomic, files, names
from orchestrator.store import manifest as manifests
from orchestrator.store.locks import guard
from orchestrator.store.manifest import BadManifestError
from orchestrator.store.quarantine import quarantine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class Bad:
    """One thing whose bytes are wrong."""

    kind: str
    """`artifacts`, `rejected` or `downloads`."""
    name: str
    """Its key, or sha256."""
    problem: str
    moved_to: Path | None
    """Where it lies in quarantine; None when it was kept."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found."""

    ok: int
    """Artifacts and downloads whose bytes are right."""
    bad: tuple[Bad, ...]
    bytes: int
    """Bytes of those that are right."""


def verify(home: Home, emit: Emit = silent, *, keep: bool = False) -> Verified:
    """Hash all that is stored.

    Args:
        home: what to verify.
        emit: hears of progress, and notes on files that do not belong there.
        keep: leave what is wrong where it is.

    Raises:
        StoreError, NoSpaceError: something wrong could not be moved, or a folder of the home not be read.
    """
    ok = 0
    size = 0
    bad: list[Bad] = []
    for kind, folder in _folders(home, emit):
        try:
            inode = folder.lstat().st_ino
        except OSError:
            continue  # gone since it was listed
        emit(Progress("store", f"verifying {kind}/{folder.name[:12]}"))
        problem, count = _download(folder) if kind == "downloads" else _artifact(folder)
        if problem is None:
            ok += 1 if count is not None else 0
            size += count or 0
            continue
        with nullcontext() if keep else guard(home):
            if not os.path.lexists(folder) or folder.lstat().st_ino != inode:
                continue  # it moved while it was read
            moved = None if keep else quarantine(home, folder, problem)
        bad.append(Bad(kind, folder.name, problem, moved))
    return Verified(ok, tuple(bad), size)


def _folders(home: Home, emit: Emit) -> Iterator[tuple[str, Path]]:
    for parent in (home.artifacts, home.rejected, home.downloads):
        for folder in atomic.listed(parent):
            if folder.name.startswith("."):
                continue
            if not atomic.is_folder(folder) or not names.is_key(folder.name):
                emit(Note("info", f"{folder}: not part of the store, ignored"))
                continue
            yield parent.name, folder


def _artifact(folder: Path) -> tuple[str | None, int | None]:
    """Return (the problem, None) or (None, bytes)."""
    try:
        manifest = manifests.read(folder)
    except BadManifestError as error:
        return str(error), None
    problem = files.problems(folder, manifest.files)
    return problem, None if problem else sum(file.size for file in manifest.files)


def _download(folder: Path) -> tuple[str | None, int | None]:
    """Return (the problem, None), (None, bytes), or (None, None) for a folder without a file yet."""
    total: int | None = None
    try:
        for path in sorted(folder.iterdir()):
            if path.name.startswith("."):
                continue
            found = atomic.sha256_file(path)
            if found != folder.name:
                return f"{path.name} has sha256 {found[:16]}, expected {folder.name[:16]}", None
            total = (total or 0) + path.stat().st_size
    except OSError as error:
        return f"cannot be read: {error}", None
    return None, total
