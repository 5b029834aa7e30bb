"""Applies patches without fuzz: all are judged first, on top of each other, then all are written or none.

A hunk's context must be there to the byte. It may have moved, if it stands in exactly one place. One that
does not apply keeps no other from being judged.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import PatchError
from orchestrator.source.patch_format import FilePatch, Hunk, Patch, split_lines
from orchestrator.source.patch_write import Blob, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

State = Literal["applies", "already-upstream", "out-of-versions", "conflict", "unjudged"]
_NOTHING: Mapping[str, str] = MappingProxyType({})
_SHOWN = 100
_COMPARED = 5_000
"""Lines of a file that are searched for one that is merely alike, which takes a second."""


Files = dict[str, Blob | None]
"""Path -> content; None: not there."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A hunk that was placed elsewhere: `lines` further down (negative: up) than it says."""

    file: str
    hunk: int
    lines: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about one patch.

    Attributes:
        name: of the patch.
        state: `already-upstream` when all of it is in the tree; `out-of-versions` when its recipe leaves
            it out; `unjudged` when it does not apply, and an earlier patch of the same files failed: it
            may stand on that one.
        reason: why it does not apply; empty when it does.
        moved: hunks that were not where they say.
        where: the patch file, and the line of the hunk in it.
    """

    name: str
    state: State
    reason: str = ""
    moved: tuple[Moved, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Conflict(Exception):  # noqa: N818 - it never leaves this module
    reason: str
    at: int


def judge(tree: Path, patches: Sequence[Patch], *, left_out: Mapping[str, str] = _NOTHING) -> list[Judged]:
    """Say of each patch whether it applies to a tree, on top of those before it. Nothing is written.

    Args:
        tree: the source.
        patches: in their order.
        left_out: name of a patch that is not applied -> why.
    """
    return _judge(tree, patches, left_out)[0]


def apply(tree: Path, patches: Sequence[Patch]) -> list[Judged]:
    """Apply all patches, in order, or none.

    Files keep their times, so that a tree does not depend on when it was patched.

    Raises:
        PatchError: one does not apply, or is already there: which, in which file and hunk, what was
            expected and found. The tree is untouched.
        NoSpaceError: the disk is full; the tree is untouched.
    """
    judged, files = _judge(tree, patches)
    failed = [one for one in judged if one.state != "applies"]
    if failed:
        first = failed[0]
        more = (
            f" (and {len(failed) - 1} more: {', '.join(one.name for one in failed[1:])})"
            if failed[1:]
            else ""
        )
        hint = (
            "the patch can go, or `when: {version: …}` limits it to versions that need it"
            if first.state == "already-upstream"
            else "the tree is untouched; make the patch anew for this version, or limit it with `when:`"
        )
        raise PatchError(f"patch {first.name} {first.reason}{more}", where=first.where, hint=hint)
    write_files(tree, files)
    return judged


def apply_to(patch: Patch, get: Callable[[str], Blob | None]) -> tuple[Files, tuple[Moved, ...]]:
    """Return what one patch makes of the files that `get` gives. Pure.

    Raises:
        PatchError: it does not apply; says where.
    """
    try:
        return _applied(patch, get)
    except _Conflict as conflict:
        raise PatchError(
            f"patch {patch.name} {conflict.reason}", where=f"{patch.where}:{conflict.at}", hint="make it anew"
        ) from conflict


def _judge(
    tree: Path, patches: Sequence[Patch], left_out: Mapping[str, str] = _NOTHING
) -> tuple[list[Judged], Files]:
    overlay: Files = {}
    spoiled: dict[str, str] = {}
    judged: list[Judged] = []

    def get(path: str) -> Blob | None:
        return overlay[path] if path in overlay else _read(tree, path)

    for patch in patches:
        if patch.name in left_out:
            judged.append(Judged(patch.name, "out-of-versions", left_out[patch.name], where=patch.where))
            continue
        try:
            files, moved = _applied(patch, get, before=overlay)
        except _Conflict as conflict:
            judged.append(_failed(patch, conflict, spoiled, there=_is_there(patch, get)))
            if judged[-1].state != "already-upstream":
                spoiled |= {file.path: patch.name for file in patch.files if file.path not in spoiled}
            continue
        overlay |= files
        judged.append(Judged(patch.name, "applies", moved=moved, where=patch.where))
    return judged, overlay


def _failed(patch: Patch, conflict: _Conflict, spoiled: Mapping[str, str], *, there: bool) -> Judged:
    """Judge a patch that does not apply; `spoiled`: file -> the patch of it that failed first."""
    if there:
        text = "is already in this version: the patch can go"
        return Judged(patch.name, "already-upstream", text, where=patch.where)
    where = f"{patch.where}:{conflict.at}"
    for file in patch.files:
        if file.path in spoiled:
            text = f"does not apply without {spoiled[file.path]}, which changes {file.path} too"
            return Judged(patch.name, "unjudged", text, where=where)
    return Judged(patch.name, "conflict", conflict.reason, where=where)


def _applied(
    patch: Patch,
    get: Callable[[str], Blob | None],
    *,
    before: Mapping[str, Blob | None] = MappingProxyType({}),
) -> tuple[Files, tuple[Moved, ...]]:
    """Return what a patch makes; `before` is what patches before it made."""
    files: Files = {}
    moved: list[Moved] = []
    for file in patch.files:
        files[file.path], shifts = _patched(file, _got(file, get))
        moved += shifts
    made = {path for path, blob in {**before, **files}.items() if blob is not None}
    for file in patch.files:
        if (clash := _below_a_file(file.path, made)) is not None:
            raise _Conflict(f"does not apply: {clash[1]} would lie below the file {clash[0]}", file.at)
    return files, tuple(moved)


def _below_a_file(path: str, made: set[str]) -> tuple[str, str] | None:
    """Return a file and what lies below it, if `path` and other files that are made are such a pair."""
    if path not in made:
        return None
    above = next((end for end in _parents(path) if end in made), None)
    if above is not None:
        return above, path
    below = min((other for other in made if other.startswith(f"{path}/")), default=None)
    return None if below is None else (path, below)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _got(file: FilePatch, get: Callable[[str], Blob | None]) -> Blob | None:
    try:
        return get(file.path)
    except _Conflict as conflict:
        raise _Conflict(conflict.reason, file.at) from conflict


def _patched(file: FilePatch, blob: Blob | None) -> tuple[Blob | None, list[Moved]]:
    if file.creates and blob is not None:
        raise _Conflict(f"does not apply: it creates {file.path}, which is there", file.at)
    if not file.creates and blob is None:
        raise _Conflict(f"does not apply: there is no file {file.path}", file.at)
    before = blob or Blob(b"")
    data, moved = _with_hunks(file, before.data)
    if file.deletes:
        if data:
            raise _Conflict(f"does not apply: {file.path} holds more than it removes", file.at)
        return None, moved
    executable = before.executable if file.executable is None else file.executable
    return Blob(data, executable), moved


def _with_hunks(file: FilePatch, data: bytes) -> tuple[bytes, list[Moved]]:
    lines = split_lines(data)
    out: list[bytes] = []
    moved: list[Moved] = []
    done = 0
    for number, hunk in enumerate(file.hunks, start=1):
        declared = hunk.old_start - 1 if hunk.old else hunk.old_start
        place = _place(file, number, hunk, lines=lines, done=done, trusted=not moved)
        if place != declared:
            moved.append(Moved(file.path, number, place - declared))
        out += [*lines[done:place], *hunk.new]
        done = place + len(hunk.old)
    out += lines[done:]
    # Only the last line of a file may lack its newline.
    if any(not line.endswith(b"\n") for line in out[:-1]):
        raise _Conflict(f"does not apply: {file.path} would hold a line without its newline", file.at)
    return b"".join(out), moved


def _place(file: FilePatch, number: int, hunk: Hunk, *, lines: list[bytes], done: int, trusted: bool) -> int:
    """Return the index of the line where a hunk goes; where it says, if no earlier hunk has moved."""
    if not hunk.old:
        if hunk.old_start == 0 and not lines:
            return 0
        raise _Conflict(
            f"does not apply: {file.path}, hunk {number}: without context its place cannot be checked",
            hunk.at,
        )
    declared = hunk.old_start - 1
    if trusted and declared >= done and _fits(hunk.old, lines, declared):
        return declared
    places = [at for at in range(done, len(lines) - len(hunk.old) + 1) if _fits(hunk.old, lines, at)]
    if len(places) == 1:
        return places[0]
    if places:
        listed = ", ".join(str(at + 1) for at in places[:5])
        raise _Conflict(
            f"does not apply: {file.path}, hunk {number}: not at line {hunk.old_start}, and its context "
            f"stands in {len(places)} places (lines {listed})",
            hunk.at,
        )
    raise _Conflict(f"does not apply: {file.path}, hunk {number}: {_difference(hunk, lines)}", hunk.at)


def _fits(block: tuple[bytes, ...], lines: list[bytes], at: int) -> bool:
    return lines[at] == block[0] and tuple(lines[at : at + len(block)]) == block if at < len(lines) else False


def _difference(hunk: Hunk, lines: list[bytes]) -> str:
    """Say which line differs, at the place where most of the hunk's lines are found."""
    place = _likeliest(hunk, lines)
    for offset, expected in enumerate(hunk.old):
        found = lines[place + offset] if place + offset < len(lines) else None
        if found != expected:
            told = "the end of the file" if found is None else _shown(found)
            return f"expected {_shown(expected)} at line {place + offset + 1}, found {told}"
    return f"its context at line {place + 1} belongs to an earlier hunk"


def _likeliest(hunk: Hunk, lines: list[bytes]) -> int:
    """Return the index where most of a hunk's lines stand, next to where it says.

    Where none does, the line that is most like its first.
    """
    declared = hunk.old_start - 1
    at: dict[bytes, list[int]] = {line: [] for line in hunk.old}
    for index, line in enumerate(lines):
        if line in at:
            at[line].append(index)
    votes = Counter({declared: 0})
    for offset, line in enumerate(hunk.old):
        votes.update(index - offset for index in at[line] if index >= offset)
    place = max(votes, key=lambda place: (votes[place], -abs(place - declared)))
    if votes[place] or len(lines) > _COMPARED:
        return place
    from difflib import get_close_matches

    texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    alike = get_close_matches(hunk.old[0].decode("utf-8", "surrogateescape"), texts, n=1)
    return texts.index(alike[0]) if alike else place


def _shown(line: bytes) -> str:
    text = repr(line.decode("utf-8", "backslashreplace").removesuffix("\n"))
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return text if line.endswith(b"\n") else f"{text} without a newline"


def _is_there(patch: Patch, get: Callable[[str], Blob | None]) -> bool:
    """Whether undoing the patch would work: then all of it is in the tree."""
    reverse = Patch(
        name=patch.name,
        header=patch.header,
        files=tuple(_reversed(file) for file in patch.files),
        digest=patch.digest,
        where=patch.where,
    )
    try:
        _applied(reverse, get)
    except _Conflict:
        return False
    # A mode alone undoes anywhere; it is there only if the file has it.
    return all(
        file.hunks or file.creates or file.deletes or _mode_is(file, get(file.path)) for file in patch.files
    )


def _mode_is(file: FilePatch, blob: Blob | None) -> bool:
    return blob is not None and blob.executable == file.executable


def _reversed(file: FilePatch) -> FilePatch:
    return FilePatch(
        path=file.path,
        creates=file.deletes,
        deletes=file.creates,
        executable=None,
        hunks=tuple(Hunk(hunk.at, hunk.new_start, hunk.new, hunk.old, hunk.old_start) for hunk in file.hunks),
        at=file.at,
    )


def _read(tree: Path, path: str) -> Blob | None:
    """Return a file of the tree; a link, or a path through one, is refused."""
    try:
        return _read_plain(tree, path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _Conflict(f"does not apply: the path {path[:_SHOWN]}… is too long", 0) from error
        raise _Conflict(f"does not apply: {path} cannot be read: {error.strerror}", 0) from error


def _read_plain(tree: Path, path: str) -> Blob | None:
    here = tree
    for part in path.split("/"):
        here /= part
        if here.is_symlink():
            raise _Conflict(f"does not apply: {path} goes through a symbolic link", 0)
        if here != tree / path and here.exists() and not here.is_dir():
            raise _Conflict(f"does not apply: {path} would lie below a file", 0)
    if not os.path.lexists(here):
        return None
    if not here.is_file():
        raise _Conflict(f"does not apply: {path} is no plain file", 0)
    return Blob(here.read_bytes(), bool(here.stat().st_mode & 0o100))
