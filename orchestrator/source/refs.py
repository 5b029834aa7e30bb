"""What a repository's tags point to, asked of its server; and what a lock holds of a git source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.errors import MismatchError, OfflineError, RecipeError, SourceError
from orchestrator.model.lock import UNRESOLVED, LockedSource
from orchestrator.model.stack import Unresolved
from orchestrator.report.events import Note, Progress, silent
from orchestrator.source.git import ACCESS, git, last_word
from orchestrator.source.git_tree import discover_submodules
from orchestrator.source.index import redacted
from orchestrator.source.mirrors import NO_MIRRORS

if TYPE_CHECKING:
    from orchestrator.model.recipe import Source
    from orchestrator.model.stack import Component
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home

_ID = 40


class UnreachableError(SourceError):
    """A repository whose server, or folder, does not answer at all."""

    code = "unreachable"


def tag_commit(
    url: str, tag: str, *, offline: bool = False, emit: Emit = silent, mirrors: Mirrors = NO_MIRRORS
) -> str:
    """Return the full commit that a tag points to; an annotated tag is peeled.

    Args:
        url: address of the repository, or the absolute path of one.
        tag: without `refs/tags/`.
        offline: no network (a repository on this machine's disk may still be read).
        emit: hears of progress.
        mirrors: where the repository is asked instead.

    Raises:
        OfflineError: the network is not allowed.
        UnreachableError: the repository does not answer.
        SourceError: it has no such tag.
    """
    place = mirrors.repository(url)
    if offline and not place.startswith(("/", "file://")):
        raise OfflineError(
            f"the commit of tag {tag} is not known, and the network is not allowed",
            where=redacted(url),
            hint="run `sparkbuild fetch` once with the network",
        )
    emit(Progress("git", f"looking up tag {tag} of {redacted(url)}"))
    name = f"refs/tags/{tag}"
    found = _refs(place, name, f"{name}^{{}}", what=f"tag {tag}")
    commit = found.get(f"{name}^{{}}") or found.get(name)
    if commit is None:
        raise SourceError(
            f"the repository has no tag {tag}",
            where=redacted(url),
            hint=f"`git ls-remote --tags {redacted(url)}` lists what it has; change the tag in the stack",
        )
    return commit


def ref_commit(
    url: str, ref: str, *, offline: bool = False, emit: Emit = silent, mirrors: Mirrors = NO_MIRRORS
) -> str:
    """Return the full commit that a tag, a branch, `HEAD` or a full commit names now; a tag goes first.

    Args and errors as `tag_commit`; a full commit is not looked up.
    """
    if re.fullmatch(rf"[0-9a-f]{{{_ID}}}", ref):
        return ref
    place = mirrors.repository(url)
    if offline and not place.startswith(("/", "file://")):
        raise OfflineError(
            f"which commit {ref} is must be asked, and the network is not allowed",
            where=redacted(url),
            hint="name a full commit that is here, or a folder",
        )
    emit(Progress("git", f"looking up {ref} of {redacted(url)}"))
    tag, branch = f"refs/tags/{ref}", f"refs/heads/{ref}"
    whole = [f"{ref}^{{}}", ref] if ref == "HEAD" or ref.startswith("refs/") else []
    names = [f"{tag}^{{}}", tag, branch, *whole]
    found = _refs(place, *names, what=ref)
    commit = next((found[name] for name in names if name in found), None)
    if commit is None:
        raise SourceError(
            f"the repository has no tag or branch {ref}",
            where=redacted(url),
            hint=f"`git ls-remote {redacted(url)}` lists what it has; a commit takes all 40 digits",
        )
    return commit


def lock_git(
    recipe: str,
    name: str,
    source: Source,
    component: Component,
    *,
    home: Home,
    former: LockedSource | None = None,
    emit: Emit = silent,
    mirrors: Mirrors = NO_MIRRORS,
) -> LockedSource:
    """Return what a lock holds of a git source: only what was read, now or for the former lock.

    Where the repository does not answer, a tag stays `unresolved` and submodules are not listed, with a
    warning: those of a full commit are verified through its gitlinks anyway.

    Args:
        recipe: name of the recipe, for messages.
        name: of the source.
        source: with `git`.
        component: says the commit or tag.
        home: where repositories are mirrored.
        former: what the lock held before.
        emit: hears of progress and the warnings.
        mirrors: where repositories are fetched from instead.

    Raises:
        RecipeError: the stack names no commit.
        SourceError: the repository answers, and has no such commit or tag, or not in a way that verifies.
    """
    wanted = component.commit(name)
    if wanted is None or source.git is None:
        raise RecipeError(
            f"{recipe}: the stack names no commit for git source {name!r}",
            hint=f"write `commits: {{{name}: <40 hex digits>}}` under components.{recipe}; "
            "where nobody has looked it up yet, `unresolved TAG`",
        )
    tag = wanted.tag if isinstance(wanted, Unresolved) else None
    try:
        commit = tag_commit(source.git, tag, emit=emit, mirrors=mirrors) if tag else wanted.id  # type: ignore[union-attr] # no tag: a Commit
    except UnreachableError as error:
        if former is not None and former.tag == tag and not former.unresolved:
            return former
        emit(Note("warning", f"{recipe}: source {name} stays unresolved: {error.message}"))
        return LockedSource(commit=UNRESOLVED, tag=tag)
    if not source.submodules:
        return LockedSource(commit=commit, tag=tag)
    try:
        found = discover_submodules(source.git, commit, home, emit=emit, mirrors=mirrors)
    except MismatchError:
        raise
    except SourceError as error:
        if _answers(mirrors.repository(source.git)):
            raise
        if former is not None and former.commit == commit:
            return LockedSource(commit=commit, tag=tag, submodules=former.submodules)
        text = f"{recipe}: submodules of source {name} are not listed: {error.message}"
        emit(Note("warning", text))
        return LockedSource(commit=commit, tag=tag)
    return LockedSource(commit=commit, tag=tag, submodules=found)


def _answers(place: str) -> bool:
    try:
        _refs(place, "HEAD", what="HEAD")
    except UnreachableError:
        return False
    return True


def _refs(place: str, *names: str, what: str) -> dict[str, str]:
    """Return name -> object id of a repository's references.

    Args:
        place: its address.
        names: of references.
        what: how people call what is looked up.

    Raises:
        UnreachableError: it does not answer.
        SourceError: it is no address.
    """
    if place.startswith("-"):
        raise SourceError(f"{place!r} is no address of a repository", hint="https://host/owner/name.git")
    asked = git("ls-remote", "--quiet", place, *names, plain=False)
    if asked.returncode != 0:
        raise UnreachableError(
            f"{what} is not known, and the repository does not answer: {last_word(asked)}",
            where=redacted(place),
            hint=ACCESS,
        )
    found = {}
    for line in asked.stdout.decode(errors="replace").splitlines():
        commit, _, name = line.partition("\t")
        if len(commit) == _ID:
            found[name] = commit
    return found
