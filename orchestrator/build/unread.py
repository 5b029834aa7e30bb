"""Commits that a lock leaves open: read when something is fetched or built, and kept in the state folder.

The shipped lock stays as it is; a lock of the user's own, `resolved/<lock file>`, fills in what was read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import LockError, SourceError
from orchestrator.model.catalog import lock_file
from orchestrator.model.lock import LockedSource, lock_bytes, unresolved_sources, with_commits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.build.prepare import Ask, Prepared
    from orchestrator.model.lock import Lock
    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import Source
    from orchestrator.plan.steps import KeyedStep
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


def with_read_commits(lock: Lock, home: Home, target: Target) -> Lock:
    """Return the lock with the commits that an earlier run has read of what it leaves open."""
    if not unresolved_sources(lock):
        return lock
    from orchestrator.model.reader import load_lock

    path = _own_lock(lock, home, target)
    with suppress(LockError):  # damaged, or there is none: it is read again
        if path.exists():
            read = load_lock(path)
            # Of another state of the stack: a tag may have been meant for another repository.
            if read.inputs == lock.inputs:
                return with_commits(lock, read)
    return lock


def refuse_unread(steps: Sequence[KeyedStep], lock: Lock, *, where: Path) -> None:
    """Refuse steps that build from a commit which the lock does not hold.

    Raises:
        LockError: there is one.
    """
    for step in steps:
        if step.unread:
            raise LockError(
                f"--locked, and {step.name} has no key: {step.reason}",
                where=str(where),
                hint=f"`sparkbuild lock --stack {lock.stack}` with the network, or leave out --locked",
            )


def prepare_read(ask: Ask, home: Home, emit: Emit, *, offline: bool) -> Prepared:
    """Plan what `ask` says, with the commits that its steps lacked read.

    Raises:
        OfflineError (5): a commit is not known, and the network is not allowed.
        SourceError and its kin (5): a repository does not answer, or has no such tag.
    """
    prepared, unread = prepare_reading(ask, home, emit, offline=offline)
    for error in unread.values():
        raise error
    return prepared


def prepare_reading(
    ask: Ask, home: Home, emit: Emit, *, offline: bool
) -> tuple[Prepared, dict[tuple[str, str], SourceError]]:
    """Plan what `ask` says, read the commits that its steps lack, and plan again with them.

    Returns:
        The plan; and (recipe, source) -> why a commit could not be read: such steps still have no key.
    """
    from orchestrator.build.prepare import prepare
    from orchestrator.report.events import silent

    prepared = prepare(ask, home, emit)
    unread = {step.name for step in prepared.plan.builds if step.keyed.unread}
    if not unread:
        return prepared, {}
    failed = _read(prepared, unread, home, emit, offline=offline)
    return prepare(ask, home, silent), failed


def _read(
    prepared: Prepared, steps: set[str], home: Home, emit: Emit, *, offline: bool
) -> dict[tuple[str, str], SourceError]:
    """Look up what the tags of these steps' sources point to, and write the user's own lock."""
    from orchestrator.report.events import Note
    from orchestrator.store.atomic import disk_errors, write_bytes

    lock = prepared.lock
    path = _own_lock(lock, home, prepared.target)
    failed: dict[tuple[str, str], SourceError] = {}
    for name, key, tag in unresolved_sources(lock):
        if name not in steps or (name, key) in prepared.local_sources:
            continue
        source = prepared.plan.step(name).keyed.view.sources.get(key)
        if source is None or source.git is None:  # for another arch
            continue
        try:
            seen = _seen(source, tag, prepared, home, emit, offline=offline)
        except SourceError as error:
            failed[name, key] = error
            continue
        component = lock.components[name]
        component = msgspec.structs.replace(component, sources={**component.sources, key: seen})
        lock = msgspec.structs.replace(lock, components={**lock.components, name: component})
        emit(Note("info", f"{name}: tag {tag} of source {key} is commit {seen.commit}, noted in {path}"))
        # After each: what was read stays when the next one takes the run down.
        with disk_errors(home.resolved):
            home.resolved.mkdir(parents=True, exist_ok=True)
        write_bytes(path, lock_bytes(lock))
    return failed


def _seen(
    source: Source, tag: str, prepared: Prepared, home: Home, emit: Emit, *, offline: bool
) -> LockedSource:
    from orchestrator.source.git_tree import discover_submodules
    from orchestrator.source.refs import tag_commit

    url, mirrors = source.git or "", prepared.mirrors
    commit = tag_commit(url, tag, offline=offline, emit=emit, mirrors=mirrors)
    found = None
    if source.submodules:
        found = discover_submodules(url, commit, home, offline=offline, emit=emit, mirrors=mirrors)
    return LockedSource(commit=commit, tag=tag, submodules=found)


def _own_lock(lock: Lock, home: Home, target: Target) -> Path:
    return home.resolved / lock_file(lock.stack, target)
