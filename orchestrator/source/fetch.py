"""One door for all kinds of sources: fetched and verified first, laid out as a tree when a build begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from orchestrator.errors import LockError, RecipeError
from orchestrator.report.events import silent
from orchestrator.source.mirrors import NO_MIRRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.model.lock import LockedFile, LockedSource
    from orchestrator.model.recipe import Source
    from orchestrator.report.events import Emit
    from orchestrator.source.git_tree import GitPart, Submodules
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class FetchedSource:
    """A source that is here, verified.

    Attributes:
        name: in the recipe (`main`, …).
        digest: sha256 of the sdist or archive, the commit, or the digest of a local folder's content.
        repositories: names of the mirrors in `git` that hold it; what uses them leases them.
    """

    name: str
    digest: str
    _lay: Callable[[Path], None] = field(repr=False, compare=False)
    repositories: tuple[str, ...] = ()

    def lay(self, dest: Path) -> None:
        """Lay the tree out; `dest` appears complete, or not at all.

        Raises:
            ArchiveRefusedError: it reaches outside of `dest`, or becomes too much.
            NoSpaceError: the disk is full.
            SourceError: `dest` exists, or a local folder changed meanwhile.
        """
        self._lay(dest)


def fetch_source(
    *,
    name: str,
    source: Source,
    locked: LockedSource | None,
    version: str,
    home: Home,
    offline: bool = False,
    emit: Emit = silent,
    base: Path | None = None,
    mirrors: Mirrors = NO_MIRRORS,
) -> FetchedSource:
    """Fetch one source and verify it against the lock.

    Args:
        name: of the source in the recipe.
        source: as the recipe has it; `--source NAME=DIR` is a Source with `local`.
        locked: what the lock says of it; a local folder needs none.
        version: the stack's, for an archive's address.
        home: where fetched bytes are kept.
        offline: no network.
        emit: hears of progress.
        base: what a relative `local` is relative to: the recipe file's folder.
        mirrors: other places to fetch from.

    Raises:
        LockError: the lock says nothing of it.
        UsageError: a local folder holds the state folder, or lies in it.
        OfflineError, MismatchError, SourceError, NoSpaceError: as the kinds of sources raise them.
    """
    if source.local is not None:
        return _local(name, (base or Path.cwd()) / Path(source.local).expanduser(), home)
    if locked is None:
        _unlocked(name, "nothing")
    if source.git is not None:
        return _git(name, source, locked, home=home, offline=offline, emit=emit, mirrors=mirrors)
    if source.sdist is None and source.archive is None:
        raise RecipeError(f"source {name} is of no kind", hint="give it sdist, git, archive or local")
    if locked.file is None:
        _unlocked(name, "no file")
    url = source.archive.replace("{version}", version) if source.archive is not None else None
    return _archive(name, locked.file, url, home=home, offline=offline, emit=emit, mirrors=mirrors)


def _archive(
    name: str,
    file: LockedFile,
    url: str | None,
    *,
    home: Home,
    offline: bool,
    emit: Emit,
    mirrors: Mirrors,
) -> FetchedSource:
    from orchestrator.source.archive import unpack
    from orchestrator.source.download import fetch_file

    path = fetch_file(file, home=home, offline=offline, emit=emit, url=url, mirrors=mirrors)
    return FetchedSource(name, file.sha256, lambda dest: unpack(path, dest))


def _git(
    name: str,
    source: Source,
    locked: LockedSource,
    *,
    home: Home,
    offline: bool,
    emit: Emit,
    mirrors: Mirrors,
) -> FetchedSource:
    from orchestrator.source.git_heal import healed
    from orchestrator.source.git_tree import fetch_git, lay_git

    url, commit = source.git, locked.commit
    if commit is None or url is None:
        _unlocked(name, "no commit")
    if locked.unresolved:
        _unlocked(name, f"no commit yet for tag {locked.tag}")
    submodules: Submodules = None
    if source.submodules:
        submodules = "any" if locked.submodules is None else locked.submodules

    def fetched() -> tuple[GitPart, ...]:
        return fetch_git(url, commit, submodules, home=home, offline=offline, emit=emit, mirrors=mirrors)

    parts = healed(fetched, home=home, offline=offline, emit=emit)

    def lay(dest: Path) -> None:
        first = [parts]  # after a repair all is fetched once more
        healed(
            lambda: lay_git(first.pop() if first else fetched(), dest, emit=emit),
            home=home,
            offline=offline,
            emit=emit,
        )

    return FetchedSource(name, commit, lay, tuple(sorted({part.mirror.name for part in parts})))


def _local(name: str, folder: Path, home: Home) -> FetchedSource:
    from orchestrator.source.local import lay_local, refuse_own, tree_digest

    refuse_own(folder, home.root)
    digest = tree_digest(folder)
    return FetchedSource(name, digest, lambda dest: lay_local(folder, dest, digest=digest))


def _unlocked(name: str, what: str) -> NoReturn:
    raise LockError(f"the lock has {what} for source {name}", hint="make it again with `sparkbuild lock`")
