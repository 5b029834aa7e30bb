"""Which patches of a recipe apply: to what the stack pins of their sources, or to another upstream state."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.errors import SourceError, ToolMissingError, UsageError
from orchestrator.model.lock import LockedSource
from orchestrator.model.pins import Pin, pin_of, unverified
from orchestrator.model.recipe import Source
from orchestrator.model.when import holds, main_kind
from orchestrator.source.fetch import fetch_source
from orchestrator.source.git import mirror_of
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.patch import judge
from orchestrator.source.refs import ref_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.errors import SparkbuildError
    from orchestrator.model.lock import LockedComponent
    from orchestrator.model.recipe import PatchRef, Recipe
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.source.patch import Judged
    from orchestrator.source.patch_format import Patch
    from orchestrator.store.home import Home
    from orchestrator.store.lease import Lease

_VERSION = re.compile(r"v?(\d+(?:\.\d+)+[\w.+-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How sources are fetched; fields as in `fetch_source`. What is used is leased."""

    home: Home
    lease: Lease
    emit: Emit
    offline: bool = False
    mirrors: Mirrors = NO_MIRRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A recipe whose patches are judged.

    Attributes:
        recipe: with the stack's own sources in it.
        version: the stack's.
        folder: of the recipe's file, for local sources.
        patches: by name, at least those of the recipe.
        locked: what the lock holds; None when all is judged elsewhere.
        arches: the effective ones, for conditions; None for any.
        at: source -> a folder, or a reference of its repository, in place of the pin.
    """

    recipe: Recipe
    version: str
    folder: Path
    patches: Mapping[str, Patch]
    locked: LockedComponent | None = None
    arches: tuple[str, ...] | None = None
    at: Mapping[str, Path | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One patch; `judged` is None where its source could not be had."""

    patch: str
    judged: Judged | None
    unverified: str | None = None
    """Why it is `unverified-at-pin`; None elsewhere, and of one that is not applied."""

    @property
    def state(self) -> str | None:
        """What was found; None when nothing could be."""
        return None if self.judged is None else self.judged.state


@dataclass(frozen=True, slots=True)
class Checked:
    """The patches of one source."""

    recipe: str
    source: str
    at: str
    """Where they were judged, or should have been, in words."""
    rows: tuple[Row, ...]
    error: SparkbuildError | None = None
    """Why the source could not be had."""


def check(subject: Subject, access: Access) -> tuple[Checked, ...]:
    """Judge all patches of a recipe, source by source, main first. Nothing is written beside the store.

    Conditions (`when`) are decided for the subject's version, or the one that the main source's reference
    reads as (`v0.34.0`), and for every platform.

    Raises:
        LockError: the lock holds nothing of a source.
        UsageError: a reference, and a source without a repository.
        NoSpaceError: the disk is full.
    """
    named = {patch.source for patch in subject.recipe.patches}
    return tuple(_checked(subject, name, access) for name in sorted(named, key=lambda n: (n != "main", n)))


def _checked(subject: Subject, name: str, access: Access) -> Checked:
    refs = [ref for ref in subject.recipe.patches if ref.source == name]
    patches = [subject.patches[ref.name] for ref in refs]
    left_out = {ref.name: why for ref in refs if (why := _left_out(subject, ref)) is not None}
    needed = [patch for patch in patches if patch.name not in left_out]
    state = _State.of(subject, name)
    judged: list[Judged] = []
    error: SparkbuildError | None = None
    try:
        with tempfile.TemporaryDirectory(prefix="sparkbuild-patch-") as scratch:
            tree = Path(scratch)
            if needed:  # a tree that no patch is for need not be had
                state = state.read(access)
                tree = state.tree(needed, tree, access)
            judged = judge(tree, patches, left_out=left_out)
    except (SourceError, ToolMissingError) as failed:
        error = failed
        judged = judge(Path(), [patch for patch in patches if patch.name in left_out], left_out=left_out)
    found = {each.name: each for each in judged}
    rows = tuple(
        Row(
            patch.name,
            found.get(patch.name),
            unverified(state.pin, patch.seen_at) if patch in needed else None,
        )
        for patch in patches
    )
    return Checked(subject.recipe.name, name, str(state), rows, error)


def _left_out(subject: Subject, ref: PatchRef) -> str | None:
    """Return why a recipe leaves a patch, or the source that it is for, out; None when it does not."""
    version = subject.version
    if isinstance(at := subject.at.get("main"), str) and (read := _VERSION.fullmatch(at)):
        version = read[1]
    for when in (ref.when, subject.recipe.sources[ref.source].when):
        if when is not None and not holds(
            when,
            version=version,
            arches=subject.arches,
            platform=when.platform or "",
            source=main_kind(subject.recipe),
        ):
            given = msgspec.to_builtins(when, str_keys=True).items()
            told = ", ".join(f"{key} {_words(value)}" for key, value in given if value)
            return f"its `when` does not hold for {version}: {told}"
    return None


def _words(value: Any) -> str:
    return " or ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _upstream(recipe: Recipe, name: str) -> Source:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """One state of a source: its pin, a reference of its repository, or a folder."""

    name: str
    source: Source
    locked: LockedSource | None
    version: str
    ref: str | None = None
    folder: Path | None = None

    @classmethod
    def of(cls, subject: Subject, name: str) -> _State:
        source, place = subject.recipe.sources[name], subject.at.get(name)
        whole = f"{subject.recipe.name}/{name}"
        if isinstance(place, str):
            found = _upstream(subject.recipe, name)
            return cls(name=whole, source=found, locked=None, version=subject.version, ref=place)
        if source.local is not None:
            place = place or subject.folder / Path(source.local).expanduser()
        locked = subject.locked.sources.get(name) if subject.locked is not None else None
        return cls(name=whole, source=source, locked=locked, version=subject.version, folder=place)

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

    def read(self, access: Access) -> _State:
        """Return it with its commit looked up, where only a name of it is known."""
        url, ref = self.source.git, self.ref
        if ref is None and self.locked is not None and self.locked.unresolved:
            ref = f"refs/tags/{self.locked.tag}"
        if ref is None or url is None:
            return self
        commit = ref_commit(url, ref, offline=access.offline, emit=access.emit, mirrors=access.mirrors)
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


def _in_submodule(tree: Path, path: str) -> bool:
    """Whether a file would lie in a submodule that is not laid out: commits hold no other empty folders."""
    for folder in list(Path(path).parents)[:-1]:
        here = tree / folder
        if here.is_dir() and not here.is_symlink():
            return not any(here.iterdir())
    return False
