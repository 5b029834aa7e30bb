"""A source from a local folder: keyed by its content, copied file by file.

In a git work tree the files are those that git tracks or would (`.gitignore` holds); elsewhere all but
`.git` and `__pycache__`. Empty folders do not count.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import SourceError, ToolMissingError
from orchestrator.source import disk
from orchestrator.source.git import git
from orchestrator.source.tree import refuse_links_out, settle
from orchestrator.store.atomic import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKIPPED = frozenset({".git", "__pycache__"})
# 1980-01-01, the first day that a zip, and so a wheel, can name.
_MTIME = 315_532_800


def tree_digest(folder: Path) -> str:
    """Return the sha256 of a folder's files: paths, which of them may be run, link targets, bytes.

    Raises:
        SourceError: no such folder, git refuses it, or it holds something that is no file or link.
    """
    return _digest(folder, files_of(folder))


def lay_local(folder: Path, dest: Path, *, digest: str | None = None) -> None:
    """Copy exactly the files that the digest covers; modes are 644 or 755, times all one.

    Args:
        folder: the source.
        dest: appears complete, or not at all.
        digest: what the folder's digest was when the plan was made.

    Raises:
        ArchiveRefusedError: a symbolic link leads out of the folder.
        SourceError: `dest` exists, or the folder changed since it was hashed.
        NoSpaceError: the disk is full.
    """
    if os.path.lexists(dest):
        raise SourceError(f"{dest} exists already", hint="remove it, or lay the source elsewhere")
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as temporary:
        root = Path(temporary) / "tree"
        root.mkdir()
        names = files_of(folder)
        with disk.telling_full(dest.parent):
            for name in names:
                target = root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / name, target, follow_symlinks=False)
        refuse_links_out(root, where=str(folder))
        settle(root, mtime=_MTIME)
        if digest is not None and _digest(root, names) != digest:
            raise SourceError(
                f"{folder} changed while it was copied",
                where=str(folder),
                hint="run it again when it is at rest",
            )
        root.rename(dest)


def files_of(folder: Path) -> list[str]:
    """Return the paths of a folder's files and links, sorted, relative to it.

    Raises:
        SourceError: there is no such folder, it is empty, or git refuses it.
    """
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder}", hint="--source takes NAME=DIR")
    found = _tracked(folder)
    if not found:  # no git, or a folder that its repository ignores
        found = list(_all(folder))
    if not found:
        raise SourceError(f"{folder} holds no files", hint="--source takes the folder of a source tree")
    return sorted(set(found))


def _digest(root: Path, names: list[str]) -> str:
    total = hashlib.sha256()
    for name in names:
        path = root / name
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            kind, content = b"link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif stat.S_ISREG(mode):
            kind, content = b"run" if mode & stat.S_IXUSR else b"file", sha256_file(path)
        else:
            raise SourceError(
                f"{name} is no file, folder or link",
                where=str(root),
                hint="remove it, or let .gitignore name it",
            )
        total.update(b"\0".join((kind, content.encode(), os.fsencode(name))) + b"\0\0")
    return total.hexdigest()


def _tracked(folder: Path) -> list[str]:
    """Return what git tracks or would, with the submodules' and nested repositories'; empty without git."""
    try:
        # The user's own configuration holds: it may call the folder safe, and name what to ignore.
        listed = git("-C", str(folder), "ls-files", "-z", "-co", "--exclude-standard", plain=False)
    except ToolMissingError:
        return []
    if listed.returncode != 0:
        if "not a git repository" in listed.stderr:
            return []
        raise SourceError(
            f"git refuses the folder: {listed.stderr.strip().splitlines()[0]}",
            where=str(folder),
            hint="see git",
        )
    found: list[str] = []
    for record in listed.stdout.split(b"\0"):
        name = os.fsdecode(record).rstrip("/")
        if not name or not os.path.lexists(folder / name):  # tracked, and deleted
            continue
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            inner = _tracked(folder / name) if (folder / name / ".git").exists() else []
            found += (f"{name}/{path}" for path in inner)
        else:
            found.append(name)
    return found


def _all(folder: Path) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        linked = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = [name for name in folders if name not in _SKIPPED and name not in linked]
        for name in (*files, *linked):
            if name not in _SKIPPED:
                yield Path(here, name).relative_to(folder).as_posix()
