"""A source from a local folder: keyed by its content, copied file by file.

In a git work tree the files are those that git tracks or would (`.gitignore` holds); elsewhere all but
`.git` and `__pycache__`. Empty folders do not count.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import SourceError, ToolMissingError, UsageError
from orchestrator.source import disk
from orchestrator.source.archive_judge import DEEPEST
from orchestrator.source.git import git
from orchestrator.source.tree import refuse_links_out, settle
from orchestrator.store.atomic import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator

# What git says, and goes on as if the folder were empty.
_UNOPENED = "could not open directory"
_SKIPPED = frozenset({".git", "__pycache__"})
# 1980-01-01, the first day that a zip, and so a wheel, can name.
_MTIME = 315_532_800


def tree_digest(folder: Path) -> str:
    """Return the sha256 of a folder's files: paths, which of them may be run, link targets, bytes.

    Raises:
        SourceError: no such folder, git refuses it, or it holds something that is no file or link, or
            cannot be read.
    """
    return _digest(folder, files_of(folder))


def refuse_own(folder: Path, home: Path) -> None:
    """Refuse a folder whose files would be the state folder's own: they change while they are copied.

    Args:
        folder: the source.
        home: root of the state folder. It may lie in the source where `.gitignore` leaves it out.

    Raises:
        UsageError: the source lies in it, or takes it in.
        SourceError: as `files_of`.
    """
    with _telling(folder):
        if not folder.is_dir():
            return
        here, own = folder.resolve(), home.resolve()
    hint = "let SPARKBUILD_HOME name a folder outside of the source"
    if here.is_relative_to(own):
        raise UsageError(f"the source {folder} lies in the state folder {home}", hint=hint)
    if not own.is_relative_to(here):
        return
    inside = f"{own.relative_to(here).as_posix()}/"
    if not home.exists() or any(name.startswith(inside) for name in files_of(folder)):
        raise UsageError(
            f"the source {folder} holds the state folder {home}, which changes while it is copied", hint=hint
        )


def lay_local(folder: Path, dest: Path, *, digest: str | None = None) -> None:
    """Copy exactly the files that the digest covers; modes are 644 or 755, times all one.

    Args:
        folder: the source.
        dest: appears complete, or not at all.
        digest: what the folder's digest was when the plan was made.

    Raises:
        ArchiveRefusedError: a symbolic link leads out of the folder.
        SourceError: `dest` exists, something cannot be read, or the folder changed since it was hashed.
        NoSpaceError: the disk is full.
    """
    if os.path.lexists(dest):
        raise SourceError(f"{dest} exists already", hint="remove it, or lay the source elsewhere")
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as temporary:
        root = Path(temporary) / "tree"
        root.mkdir()
        names = files_of(folder)
        with disk.telling_full(dest.parent), _telling(folder):
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
        SourceError: there is no such folder, it is empty, too deep, a part of it cannot be read, or git
            refuses it.
    """
    with _telling(folder):
        if not folder.is_dir():
            raise SourceError(f"there is no folder {folder}", hint="--source takes NAME=DIR")
        found = _tracked(folder)
        if not found:  # no git, or a folder that its repository ignores
            found = list(_all(folder))
    deep = next((name for name in found if name.count("/") > DEEPEST), None)
    if deep is not None:
        raise _too_deep(folder, deep)
    if not found:
        raise SourceError(f"{folder} holds no files", hint="--source takes the folder of a source tree")
    return sorted(set(found))


@contextlib.contextmanager
def _telling(folder: Path) -> Iterator[None]:
    """Turn what the system says of a file that cannot be read into an error that names it."""
    try:
        yield
    except OSError as error:
        if error.errno in disk.FULL or error.errno == errno.EFBIG:  # of the copy, not of the source
            raise
        raise SourceError(
            f"{error.filename or 'a part of it'} cannot be read: {error.strerror or error}",
            where=str(folder),
            hint="all of a source counts: make it readable, remove it, or let .gitignore name it",
        ) from error


def _too_deep(folder: Path, name: str) -> SourceError:
    return SourceError(
        f"{name[:80]}… lies deeper than {DEEPEST} folders",
        where=str(folder),
        hint="is it a loop of mounts, or left by a test? remove it, or let .gitignore name it",
    )


def _digest(root: Path, names: list[str]) -> str:
    with _telling(root):
        return _digested(root, names)


def _digested(root: Path, names: list[str]) -> str:
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
            f"git refuses the folder: {_first(listed.stderr) or f'status {listed.returncode}'}",
            where=str(folder),
            hint=f"try `git -C {folder} ls-files`",
        )
    if _UNOPENED in listed.stderr:
        line = next(line for line in listed.stderr.splitlines() if _UNOPENED in line)
        raise SourceError(
            f"a part of it cannot be read: git says {line.removeprefix('warning: ')!r}",
            where=str(folder),
            hint="all of a source counts: make it readable, remove it, or let .gitignore name it",
        )
    found: list[str] = []
    for record in listed.stdout.split(b"\0"):
        name = os.fsdecode(record).rstrip("/")
        if not name:
            continue
        try:
            mode = (folder / name).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):  # tracked, and deleted
            continue
        if stat.S_ISDIR(mode):
            inner = _tracked(folder / name) if (folder / name / ".git").exists() else []
            found += (f"{name}/{path}" for path in inner)
        else:
            found.append(name)
    return found


def _first(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _all(folder: Path) -> Iterator[str]:
    todo = [""]
    while todo:
        above = todo.pop()
        with os.scandir(folder / above) as entries:
            for entry in entries:
                name = f"{above}{entry.name}"
                if entry.name in _SKIPPED:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    yield name
                elif name.count("/") >= DEEPEST:
                    raise _too_deep(folder, name)
                else:
                    todo.append(f"{name}/")
