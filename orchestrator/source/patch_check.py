"""Which patches of a recipe apply: to what the stack pins of their sources, or to another upstream state."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.errors import SourceError, ToolMissingError
from orchestrator.model.pins import unverified
from orchestrator.model.when import holds, main_kind
from orchestrator.source.patch import judge
from orchestrator.source.patch_state import SourceState, upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.errors import SparkbuildError
    from orchestrator.model.lock import LockedComponent
    from orchestrator.model.recipe import PatchRef, Recipe
    from orchestrator.source.patch import Judged
    from orchestrator.source.patch_format import Patch
    from orchestrator.source.patch_state import Access

_VERSION = re.compile(r"v?(\d+(?:\.\d+)+[\w.+-]*)")


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

    def to_json(self) -> dict[str, Any]:
        """Return it without its source."""
        judged = self.judged
        return {
            "patch": self.patch,
            "state": self.state,
            "reason": (judged.reason or None) if judged else None,
            "where": judged.where if judged else None,
            "moved": [
                {"file": moved.file, "hunk": moved.hunk, "lines": moved.lines}
                for moved in (judged.moved if judged else ())
            ],
            "unverified_at_pin": self.unverified,
        }


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

    def to_json(self) -> list[dict[str, Any]]:
        """Return the patches as `sparkbuild patch check --json` shows them."""
        about = {"recipe": self.recipe, "source": self.source, "at": self.at}
        return [{**about, **row.to_json()} for row in self.rows]

    def missing(self) -> dict[str, Any] | None:
        """Return the source as `sparkbuild patch check --json` shows it, if it could not be had."""
        error = self.error
        if error is None:
            return None
        told = {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
        return {"recipe": self.recipe, "source": self.source, **told}


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
    state = _state(subject, name)
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
    version = _version(subject)
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


def _version(subject: Subject) -> str:
    """Return the version that conditions are decided for."""
    from packaging.version import InvalidVersion, Version

    at = subject.at.get("main")
    read = _VERSION.fullmatch(at) if isinstance(at, str) else None
    try:
        return str(Version(read[1])) if read else subject.version
    except InvalidVersion:
        return subject.version


def _words(value: Any) -> str:
    return " or ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _state(subject: Subject, name: str) -> SourceState:
    source, place = subject.recipe.sources[name], subject.at.get(name)
    whole = f"{subject.recipe.name}/{name}"
    if isinstance(place, str):
        found = upstream(subject.recipe, name)
        return SourceState(name=whole, source=found, version=subject.version, ref=place)
    if source.local is not None:
        place = place or subject.folder / Path(source.local).expanduser()
    locked = subject.locked.sources.get(name) if subject.locked is not None else None
    return SourceState(name=whole, source=source, locked=locked, version=subject.version, folder=place)
