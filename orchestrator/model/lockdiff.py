"""What changed between two locks, package by package. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.model.lock import Lock, LockedFile, LockedSource


@dataclass(frozen=True, slots=True, order=True)
class LockChange:
    """One file or commit that is new, gone or another. None where it was or is not there."""

    part: str
    """`toolkit`, `runtime`, or a component's name."""
    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.part}: {self.name} {self.before or '(none)'} -> {self.after or '(none)'}"


def lock_changes(before: Lock | None, after: Lock) -> tuple[LockChange, ...]:
    """Return what differs, sorted; nothing when only the inputs' digest does."""
    old, new = dict(_facts(before)) if before else {}, dict(_facts(after))
    changes = []
    for part, name in sorted(old.keys() | new.keys()):
        was, now = old.get((part, name)), new.get((part, name))
        if was != now:
            alike = was is not None and now is not None and was[0] == now[0]
            changes.append(LockChange(part, name, _told(was, whole=alike), _told(now, whole=alike)))
    return tuple(changes)


def _facts(lock: Lock) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield (part, name) -> (version, digest)."""
    told = {file for component in lock.components.values() for file in component.run}
    for part, files in (("toolkit", lock.toolkit), ("runtime", {*lock.run} - told)):
        for file in files:
            yield (part, file.name), _of(file)
    for name, component in lock.components.items():
        if component.prebuilt is not None:
            yield (name, component.prebuilt.name), _of(component.prebuilt)
        for file in component.run:
            yield (name, file.name), _of(file)
        for file in component.requires:
            yield (name, f"{file.name} (to build)"), _of(file)
        for source, seen in component.sources.items():
            for path, fact in _of_source(seen):
                yield (name, f"source {source}{path}"), fact


def _of_source(seen: LockedSource) -> Iterator[tuple[str, tuple[str, str]]]:
    if seen.file is not None:
        yield "", _of(seen.file)
    if seen.commit is not None:
        yield "", (seen.commit, seen.tag or "")
    for path, commit in (seen.submodules or {}).items():
        yield f"/{path}", (commit, "")


def _of(file: LockedFile) -> tuple[str, str]:
    return file.version, f"{file.file} {file.sha256[:12]}"


def _told(fact: tuple[str, str] | None, *, whole: bool) -> str | None:
    """Return the version, with the file where only that differs."""
    if fact is None:
        return None
    return f"{fact[0]} ({fact[1]})" if whole else fact[0]
