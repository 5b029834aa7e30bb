"""What a lock must keep beyond its types, since its words become paths and arguments.

A lock is committed, but may also come from a stranger's folder: a sha256 that is a path would have a build
take files that nobody verified. Patterns only, as a lock holds thousands of files and is read by each plan.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.model.convert import Problem, shown
from orchestrator.model.fieldchecks import COMMIT, MAX_NAME, MAX_PART, MAX_PATH, NAME, SOURCE, STACK, TAG
from orchestrator.model.lock import UNRESOLVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
    from orchestrator.model.yamltext import Steps

MAX_FILE = 2**50
"""Bytes, a PiB."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NORMALIZED = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_PLATFORM = re.compile(r"[a-z0-9]+-[a-z0-9_]+", re.ASCII)
_PYTHON = re.compile(r"[0-9]\.[0-9]{1,3}", re.ASCII)
# PEP 440, appendix B, without what only surrounds it (spaces).
_VERSION = re.compile(
    r"v?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"
    r"(?:[-_.]?(?:alpha|a|beta|b|preview|pre|c|rc)[-_.]?[0-9]*)?"
    r"(?:-[0-9]+|[-_.]?(?:post|rev|r)[-_.]?[0-9]*)?"
    r"(?:[-_.]?dev[-_.]?[0-9]*)?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.ASCII | re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[-_.]+")


def is_sha256(text: str) -> bool:
    """Say whether a text is a sha256 as locks and folders spell it: 64 lower-case hex digits."""
    return _SHA256.fullmatch(text) is not None


def lock_problems(lock: Lock) -> Iterator[Problem]:
    """Yield the mistakes of a lock that its types allow."""
    yield from _plain(lock.stack, ("stack",), STACK, "the name of a stack")
    yield from _plain(lock.platform, ("platform",), _PLATFORM, "a platform such as linux-x86_64")
    yield from _plain(lock.python, ("python",), _PYTHON, "a Python version such as 3.12")
    if not is_sha256(lock.inputs):
        yield Problem(("inputs",), shown(lock.inputs), "64 lower-case hex digits")
    yield from _wheels(lock.toolkit, ("toolkit",))
    yield from _wheels(lock.run, ("run",))
    for name, component in lock.components.items():
        steps: Steps = ("components", name)
        yield from _plain(name, steps, NAME, "the name of a recipe")
        yield from _component(component, steps)


def _component(component: LockedComponent, steps: Steps) -> Iterator[Problem]:
    if not _is_version(component.version):
        yield Problem((*steps, "version"), shown(component.version), "a version such as 2.14.1")
    if component.prebuilt is not None:
        yield from _wheel(component.prebuilt, (*steps, "prebuilt"))
    yield from _wheels(component.run, (*steps, "run"))
    yield from _wheels(component.requires, (*steps, "requires"))
    for name, source in component.sources.items():
        at = (*steps, "sources", name)
        yield from _plain(name, at, SOURCE, "the name of a source")
        yield from _source(source, at)


def _source(source: LockedSource, steps: Steps) -> Iterator[Problem]:
    if source.file is not None:
        # An archive is called as its server likes, and its name is the recipe's.
        yield from _file(source.file, (*steps, "file"), NAME)
    commits = {} if source.commit is None or source.unresolved else {"commit": source.commit}
    submodules = source.submodules or {}
    if source.unresolved and source.tag is None:
        yield Problem((*steps, "commit"), shown(UNRESOLVED), "a commit id, or a `tag` beside it")
    if source.tag is not None and not TAG.fullmatch(source.tag):
        yield Problem((*steps, "tag"), shown(source.tag), "the name of a tag")
    for step, commit in [*commits.items(), *submodules.items()]:
        if not COMMIT.fullmatch(commit):
            at = (*steps, step) if step in commits else (*steps, "submodules", step)
            yield Problem(at, shown(commit), "a full commit id: 40 lower-case hex digits")
    for path in submodules:
        parts = path.split("/")
        outside = any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts)
        if outside or not _fits(path, MAX_PATH) or not all(_fits(part, MAX_PART) for part in parts):
            expected = "a relative path that stays inside the tree"
            yield Problem((*steps, "submodules", path), shown(path), expected, key=True)


def _wheels(files: tuple[LockedFile, ...], steps: Steps) -> Iterator[Problem]:
    for index, file in enumerate(files):
        yield from _wheel(file, (*steps, index))


def _wheel(file: LockedFile, steps: Steps) -> Iterator[Problem]:
    yield from _file(file, steps, _NORMALIZED)
    distribution = file.file.partition("-")[0]
    # Most are equal at once; the rest are told apart as PEP 503 says.
    if distribution != file.name and _SEPARATORS.sub("-", distribution).lower() != file.name:
        yield Problem((*steps, "file"), shown(file.file), f"a file of {shown(file.name)}")


def _file(file: LockedFile, steps: Steps, names: re.Pattern[str]) -> Iterator[Problem]:
    if not _SHA256.fullmatch(file.sha256):
        found = f"{shown(file.sha256)} for {shown(file.file)}"
        yield Problem((*steps, "sha256"), found, "64 lower-case hex digits")
    if not _fits(file.file, MAX_PART) or "/" in file.file or file.file in {".", ".."}:
        yield Problem((*steps, "file"), shown(file.file), "a plain file name")
    if not names.fullmatch(file.name) or len(file.name) > MAX_NAME:
        found = f"{shown(file.name)} for {shown(file.file)}"
        yield Problem((*steps, "name"), found, "a normalized distribution name")
    if not _is_version(file.version):
        found = f"{shown(file.version)} for {shown(file.file)}"
        yield Problem((*steps, "version"), found, "a version such as 2.14.1")
    if not 0 <= file.size < MAX_FILE:
        found = f"{file.size} for {shown(file.file)}"
        yield Problem((*steps, "size"), found, "the size of a file in bytes")


def _plain(text: str, steps: Steps, pattern: re.Pattern[str], what: str) -> Iterator[Problem]:
    if len(text) > MAX_NAME or not pattern.fullmatch(text):
        yield Problem(steps, shown(text), what)


def _is_version(text: str) -> bool:
    return len(text) <= MAX_NAME and _VERSION.fullmatch(text) is not None


def _fits(text: str, limit: int) -> bool:
    """Say whether a text is one line, not empty, and at most `limit` bytes."""
    return bool(text) and text.isprintable() and len(text.encode()) <= limit
