"""Source trees on disk: links that lead out, modes and times that do not depend on who laid them."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.errors import ArchiveRefusedError
from orchestrator.source.archive_judge import Entry, judge


def refuse_links_out(root: Path, *, where: str) -> None:
    """Judge every symbolic link of a tree.

    Raises:
        ArchiveRefusedError: one leads out of the tree, or in a circle.
    """
    links = [
        Entry(name=path.relative_to(root).as_posix(), kind="symlink", target=str(path.readlink()))
        for path in walk(root)
        if path.is_symlink()
    ]
    try:
        judge(links, strip_top=False)
    except ArchiveRefusedError as error:
        raise ArchiveRefusedError(
            f"refused: {error.message}",
            where=where,
            hint="a build could read or write outside its tree by it",
        ) from error


def settle(root: Path, *, mtime: int) -> None:
    """Give files mode 644 or 755, folders 755, and all one time (seconds since 1970)."""
    for path in walk(root):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (mtime, mtime), follow_symlinks=False)
    root.chmod(0o755)
    os.utime(root, (mtime, mtime))


def walk(root: Path) -> list[Path]:
    """Return all below a folder, sorted, what a folder holds before the folder; links are not followed."""
    found: list[Path] = []
    for folder, folders, files in os.walk(root, topdown=False):
        found += (Path(folder, name) for name in sorted([*folders, *files]))
    return found
