"""The tree of a commit with its submodules: found through the gitlinks, compared with the lock, laid out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from orchestrator.errors import MismatchError, SourceError
from orchestrator.report.events import Note, silent
from orchestrator.source import disk
from orchestrator.source.archive_judge import DEEPEST
from orchestrator.source.git import asked, fetch_commit, git
from orchestrator.source.git_heal import DamagedMirrorError, healed
from orchestrator.source.index import redacted
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.tree import refuse_links_out, settle

if TYPE_CHECKING:
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home

Submodules: TypeAlias = Mapping[str, str] | Literal["any"] | None
"""Path in the whole tree -> commit, of every submodule; `any`: as the commit's gitlinks say; None: none."""

_LFS = b"version https://git-lfs"
_LFS_SIZES = range(100, 1024)


@dataclass(frozen=True, slots=True)
class GitPart:
    """One repository of a tree, fetched.

    Attributes:
        path: where it lies in the tree; empty for the root.
        url: its address.
        commit: 40 hex digits.
        mirror: the bare repository that holds it.
    """

    path: str
    url: str
    commit: str
    mirror: Path


def fetch_git(
    url: str,
    commit: str,
    submodules: Submodules,
    *,
    home: Home,
    offline: bool = False,
    emit: Emit = silent,
    mirrors: Mirrors = NO_MIRRORS,
) -> tuple[GitPart, ...]:
    """Fetch a commit and its locked submodules, nested ones too; parents come before what lies in them.

    Args:
        url: address of the repository.
        commit: 40 hex digits.
        submodules: which are fetched, and must be there.
        home: where mirrors lie.
        offline: no network.
        emit: hears of progress.
        mirrors: other places to fetch from.

    Raises:
        MismatchError: the gitlinks are not the locked ones.
        OfflineError, SourceError, NoSpaceError: as `fetch_commit`.
    """
    top = fetch_commit(url, commit, home=home, offline=offline, emit=emit, mirrors=mirrors)
    root = GitPart("", url, commit, top)
    if submodules is None:
        return (root,)
    locked = None if submodules == "any" else submodules
    parts = _with_submodules(root, locked, home=home, offline=offline, emit=emit, mirrors=mirrors)
    if locked is None:
        return tuple(parts)
    absent = sorted(set(locked) - {part.path for part in parts})
    if absent:
        raise MismatchError(
            f"the lock has submodules that commit {commit} has not: {', '.join(absent)}",
            where=redacted(url),
            hint="make the lock again with `sparkbuild lock`",
        )
    return tuple(parts)


def discover_submodules(
    url: str,
    commit: str,
    home: Home,
    *,
    offline: bool = False,
    emit: Emit = silent,
    mirrors: Mirrors = NO_MIRRORS,
) -> dict[str, str]:
    """Return path -> commit of all submodules of a commit, nested ones too, for a lock.

    Raises:
        OfflineError, SourceError, NoSpaceError: as `fetch_commit`.
    """

    def found() -> tuple[GitPart, ...]:
        return fetch_git(url, commit, "any", home=home, offline=offline, emit=emit, mirrors=mirrors)

    parts = healed(found, home=home, offline=offline, emit=emit)
    return {part.path: part.commit for part in sorted(parts, key=lambda part: part.path) if part.path}


def lay_git(parts: tuple[GitPart, ...], dest: Path, *, emit: Emit = silent) -> None:
    """Lay out a fetched tree, without `.git`: the bytes of a checkout, times those of the commit.

    Attributes such as `eol=crlf` hold; hooks, smudge filters and `export-subst` do not.

    Args:
        parts: as `fetch_git` gives them.
        dest: appears complete, or not at all.
        emit: hears a warning when files are Git LFS pointers instead of content.

    Raises:
        ArchiveRefusedError: a symbolic link leads out of the tree.
        SourceError: `dest` exists, a mirror is damaged, or the tree is deeper than 200 folders.
        NoSpaceError: the disk is full.
    """
    if os.path.lexists(dest):
        raise SourceError(f"{dest} exists already", hint="remove it, or lay the source elsewhere")
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as temporary:
        root = Path(temporary) / "tree"
        with disk.telling_full(dest.parent):
            for part in parts:
                target = root / part.path
                target.mkdir(parents=True, exist_ok=True)
                _check_out(part, target, index=Path(temporary) / "index")
        refuse_links_out(root, where=f"{redacted(parts[0].url)} at {parts[0].commit}")
        time = asked("show", "--no-patch", "--format=%ct", parts[0].commit, repository=parts[0].mirror)
        settle(root, mtime=int(time))
        _tell_pointers(root, parts[0], emit)
        root.rename(dest)


def _check_out(part: GitPart, target: Path, *, index: Path) -> None:
    index.unlink(missing_ok=True)
    own = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(target)}
    asked("read-tree", part.commit, repository=part.mirror, extra=own)
    trees = asked("ls-tree", "-r", "-d", "-z", "--name-only", part.commit, repository=part.mirror)
    if any(name.count(b"/") >= DEEPEST for name in trees.split(b"\0")):
        raise SourceError(
            f"its tree is deeper than {DEEPEST} folders",
            where=f"{redacted(part.url)} at {part.commit}",
            hint="no source needs that; look at what it ships before trusting it",
        )
    asked("checkout-index", "--all", "--quiet", f"--prefix={target}/", repository=part.mirror, extra=own)


def _with_submodules(
    parent: GitPart,
    locked: Mapping[str, str] | None,
    *,
    home: Home,
    offline: bool,
    emit: Emit,
    mirrors: Mirrors,
) -> list[GitPart]:
    """Return the parent and all below it; with `locked`, each gitlink must be the locked one."""
    parts = [parent]
    links = _gitlinks(parent)
    if not links:
        return parts
    urls = _urls(parent)
    for path, commit in links.items():
        whole = f"{parent.path}/{path}" if parent.path else path
        if urls.get(path) == "":
            continue
        if locked is not None and locked.get(whole) != commit:
            raise MismatchError(
                f"submodule {whole}: expected commit {locked.get(whole, 'none')}, found {commit}",
                where=f"{redacted(parent.url)} at {parent.commit}",
                hint="the lock was not made for this commit: make it again with `sparkbuild lock`",
            )
        if path not in urls:
            raise SourceError(
                f"submodule {whole} has no address in .gitmodules",
                where=f"{redacted(parent.url)} at {parent.commit}",
                hint="give it as a source of its own, with `into`, and set `submodules: false`",
            )
        mirror = fetch_commit(urls[path], commit, home=home, offline=offline, emit=emit, mirrors=mirrors)
        child = GitPart(whole, urls[path], commit, mirror)
        parts += _with_submodules(child, locked, home=home, offline=offline, emit=emit, mirrors=mirrors)
    return parts


def _gitlinks(part: GitPart) -> dict[str, str]:
    """Return path -> commit of the gitlinks in a tree."""
    links: dict[str, str] = {}
    for record in asked("ls-tree", "-r", "-z", part.commit, repository=part.mirror).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if head.startswith(b"160000 commit "):
            links[os.fsdecode(path)] = head.rsplit(b" ", 1)[1].decode()
    return links


def _urls(part: GitPart) -> dict[str, str]:
    """Return path -> address from .gitmodules; empty for one that upstream itself leaves out."""
    blob = f"{part.commit}:.gitmodules"
    there = git("cat-file", "-e", blob, repository=part.mirror)
    if "does not exist" in there.stderr:
        return {}
    if there.returncode != 0:
        raise DamagedMirrorError(f"{blob} cannot be read", mirror=part.mirror)
    sections: dict[str, dict[str, str]] = {}
    for record in asked("config", "--blob", blob, "--list", "-z", repository=part.mirror).split(b"\0"):
        key, _, value = os.fsdecode(record).partition("\n")
        section, _, field = key.rpartition(".")
        sections.setdefault(section, {})[field] = value
    return {
        fields["path"].rstrip("/"): ""
        if fields.get("update") == "none"
        else resolved(fields["url"], part.url)
        for section, fields in sections.items()
        if section.startswith("submodule.") and "path" in fields and "url" in fields
    }


def resolved(url: str, parent: str) -> str:
    """Return a submodule's address; one that begins with `./` or `../` is relative to the parent's."""
    if not url.startswith(("./", "../")):
        return url
    base, separator = parent.rstrip("/"), "/"
    while url.startswith(("./", "../")):
        if url.startswith("./"):
            url = url[2:]
            continue
        url = url[3:]
        # `host:path` has a colon before its first folder.
        cut = base.rfind("/") if "/" in base else base.rfind(":")
        separator = base[cut] if cut >= 0 else separator
        base = base[: max(cut, 0)]
    return f"{base}{separator}{url}"


def _tell_pointers(root: Path, part: GitPart, emit: Emit) -> None:
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.lstat().st_size in _LFS_SIZES and not path.is_symlink():
                with path.open("rb") as file:
                    if file.read(len(_LFS)) == _LFS:
                        found.append(path.relative_to(root).as_posix())
    if found:
        text = f"{len(found)} files are Git LFS pointers, not their content, such as {min(found)}"
        emit(Note("warning", f"{redacted(part.url)}: {text}"))
