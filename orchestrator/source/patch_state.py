"""One state of a source, to try patches on: what a stack pins, a reference of its repository, or a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import SourceError, UsageError
from orchestrator.model.lock import LockedSource
from orchestrator.model.pins import Pin, pin_of
from orchestrator.model.recipe import Source
from orchestrator.source.fetch import fetch_source
from orchestrator.source.git import mirror_of
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.refs import ref_commit, tag_commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.model.recipe import Recipe
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.source.patch_format import Patch
    from orchestrator.store.home import Home
    from orchestrator.store.lease import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How sources are fetched; fields as in `fetch_source`. What is used is leased."""

    home: Home
    lease: Lease
    emit: Emit
    offline: bool = False
    mirrors: Mirrors = NO_MIRRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """One state of a source: its pin, a reference of its repository, or a folder."""

    name: str
    source: Source
    version: str
    locked: LockedSource | None = None
    ref: str | None = None
    folder: Path | None = None

    def __str__(self) -> str:
        if self.folder is not None:
            return f"folder {self.folder}"
        commit = self.locked.commit if self.locked is not None else None
        if self.ref in {None, commit}:
            return str(pin_of(self.source, self.locked, version=self.version))
        return self.ref + (f", {Pin(commit=commit)}" if commit is not None else "")

    @property
    def pin(self) -> Pin | None:
        """What the stack pins, where it is that."""
        pinned = self.folder is None and self.ref is None
        return pin_of(self.source, self.locked, version=self.version) if pinned else None

    def read(self, access: Access) -> SourceState:
        """Return it with its commit looked up, where only a name of it is known."""
        url, offline, emit, mirrors = self.source.git, access.offline, access.emit, access.mirrors
        if url is None:
            return self
        if self.ref is not None:
            commit = ref_commit(url, self.ref, offline=offline, emit=emit, mirrors=mirrors)
        elif self.locked is not None and self.locked.unresolved and self.locked.tag is not None:
            commit = tag_commit(url, self.locked.tag, offline=offline, emit=emit, mirrors=mirrors)
        else:
            return self
        return replace(self, locked=LockedSource(commit=commit))

    def tree(self, patches: Sequence[Patch], scratch: Path, access: Access) -> Path:
        """Return its tree; a folder is read where it lies.

        Of a repository submodules are laid out only when a patch reaches into one: they may be gigabytes.
        """
        if self.folder is not None:
            if not self.folder.is_dir():
                raise SourceError(f"there is no folder {self.folder}", hint="the recipe's source names it")
            return self.folder
        if self.source.git is None:
            return self.laid(scratch / "tree", access)
        alone = replace(self, source=msgspec.structs.replace(self.source, submodules=False))
        tree = alone.laid(scratch / "tree", access)
        reach = any(_in_submodule(tree, file.path) for patch in patches for file in patch.files)
        return self.laid(scratch / "whole", access) if self.source.submodules and reach else tree

    def laid(self, dest: Path, access: Access) -> Path:
        """Fetch it, and lay it out as `dest`."""
        if self.source.git is not None:
            access.lease.use("git", [mirror_of(self.source.git, access.home).name])
        elif self.locked is not None and self.locked.file is not None:
            access.lease.use("downloads", [self.locked.file.sha256])
        found = fetch_source(
            name=self.name,
            source=self.source,
            locked=self.locked,
            version=self.version,
            home=access.home,
            offline=access.offline,
            emit=access.emit,
            mirrors=access.mirrors,
        )
        access.lease.use("git", found.repositories)
        found.lay(dest)
        return dest


def upstream(recipe: Recipe, name: str) -> Source:
    """Return the repository in which references of a source are looked up."""
    source = recipe.sources[name]
    if source.git is not None:
        return source
    if name == "main" and recipe.homepage is not None:
        return Source(git=recipe.homepage)
    raise UsageError(
        f"source {name} of {recipe.name} has no repository to look up a reference in",
        hint="name a folder that holds it; or let the recipe's `homepage` be the address of its repository",
    )


def _in_submodule(tree: Path, path: str) -> bool:
    """Whether a file would lie in a submodule that is not laid out: commits hold no other empty folders."""
    for folder in list(Path(path).parents)[:-1]:
        here = tree / folder
        if here.is_dir() and not here.is_symlink():
            return not any(here.iterdir())
    return False
