"""Git repositories as bare mirrors, in which commits are fetched once and kept.

Fetching follows the user's own git configuration (proxies, credentials, other addresses for a host);
nothing else does: what lies in a tree depends on the commit alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import MismatchError, OfflineError, SourceError, ToolMissingError
from orchestrator.report.events import Progress, silent
from orchestrator.source.child import run_child
from orchestrator.source.git_heal import DamagedMirrorError, mirror_lock, set_aside, tells_damage
from orchestrator.source.index import redacted
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.store.atomic import free_bytes, no_space
from orchestrator.store.stamps import mark_used

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.report.events import Emit
    from orchestrator.source.child import Finished
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home

_COMMIT = re.compile(r"[0-9a-f]{40}")
_NOT_FOUND = 127
ACCESS = (
    "`git ls-remote ADDRESS` tries it; proxies and credentials come from your git configuration, "
    "another place from --mirror"
)
"""Hint where a repository does not answer: the same for each, so that it is told once."""
_NOTHING = 64 << 10
"""Bytes; a disk with less is full."""
# What a git that calls us (a hook, an alias) says of its own repository.
_FOREIGN = frozenset(
    {
        *(
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_COMMON_DIR",
            "GIT_PREFIX",
        ),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_NAMESPACE"),
    }
)
_OWN_CONFIG = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"),
    # Packs appear whole; loose objects would appear one by one, and a kill could leave half a commit.
    *("-c", "fetch.unpackLimit=1"),
)


def git(
    *arguments: str,
    repository: Path | None = None,
    plain: bool = True,
    extra: Mapping[str, str] | None = None,
) -> Finished:
    """Run git without terminal, hooks or prompts.

    Args:
        arguments: of git.
        repository: the bare repository it works in.
        plain: without any configuration of user or system; False for what talks to servers.
        extra: more environment.

    Raises:
        ToolMissingError: there is no git.
    """
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    env |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "LC_ALL": "C",
    }
    if plain:
        env = {name: value for name, value in env.items() if not name.startswith("GIT_CONFIG")}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
    where = ("--git-dir", str(repository)) if repository is not None else ()
    finished = run_child(["git", *_OWN_CONFIG, *where, *arguments], env={**env, **(extra or {})})
    if finished.returncode == _NOT_FOUND:
        raise ToolMissingError("git is not there", hint="install it, such as with `apt install git`")
    return finished


def asked(*arguments: str, repository: Path, extra: Mapping[str, str] | None = None) -> bytes:
    """Return what git says of a mirror.

    Raises:
        DamagedMirrorError: git fails, and complains of the mirror.
        SourceError: git fails otherwise.
    """
    finished = git(*arguments, repository=repository, extra=extra)
    if finished.returncode != 0:
        # Not all commands of git pass on why a file could not be written.
        written = Path((extra or {}).get("GIT_WORK_TREE", repository))
        free = free_bytes(written)
        if "No space left on device" in finished.stderr or (free is not None and free < _NOTHING):
            raise no_space(written)
        said = f"git {arguments[0]} failed: {last_word(finished)}"
        if tells_damage(finished.stderr):
            raise DamagedMirrorError(said, mirror=repository)
        raise SourceError(
            said,
            where=str(repository),
            hint=f"remove {repository} if it is damaged, and run it again: it is fetched anew",
        )
    return finished.stdout


def mirror_of(url: str, home: Home) -> Path:
    """Return where a repository's mirror lies, or will."""
    return home.git / f"{hashlib.sha256(url.encode()).hexdigest()}.git"


def fetch_commit(
    url: str,
    commit: str,
    *,
    home: Home,
    offline: bool = False,
    emit: Emit = silent,
    mirrors: Mirrors = NO_MIRRORS,
) -> Path:
    """Return the mirror of `url`, with all of `commit` in it; no network is used if it is there.

    Args:
        url: address of a repository, or the absolute path of one.
        commit: all 40 hex digits.
        home: where mirrors lie.
        offline: no network (a repository on this machine's disk may still be read).
        emit: hears of progress, and a warning about a damaged mirror, which is moved away.
        mirrors: other places, from which it is fetched instead; it is kept under `url` all the same.

    Raises:
        MismatchError: `commit` is no full commit, or names something else.
        OfflineError: it is not there or damaged, and the network is not allowed.
        SourceError: the repository cannot be reached, or has no such commit.
        NoSpaceError: the disk is full.
    """
    if not _COMMIT.fullmatch(commit):
        raise MismatchError(
            f"{commit!r} is no full commit", where=redacted(url), hint="40 hex digits name one"
        )
    mirror = mirror_of(url, home)
    if mirror.is_dir():
        mark_used(mirror)  # gc looks at it; from here on it is in use for days
    if _has(mirror, commit):
        return mirror
    place = mirrors.repository(url)
    if offline and not place.startswith(("/", "file://")):
        fault = _fault(mirror, commit)
        here = f"damaged in its mirror {mirror} ({fault})" if fault else "not here"
        raise OfflineError(
            f"commit {commit} is {here}, and the network is not allowed",
            where=redacted(url),
            hint="run `sparkbuild fetch` once with the network",
        )
    home.git.mkdir(parents=True, exist_ok=True)
    with mirror_lock(home, mirror):
        if _has(mirror, commit):
            return mirror
        if fault := _fault(mirror, commit):
            set_aside(home, mirror, fault, emit)
        emit(Progress("git", f"fetching {redacted(place)} at {commit[:12]}"))
        fresh = not os.path.lexists(mirror)
        try:
            _fetch(place, commit, mirror)
        except DamagedMirrorError as error:
            if fresh:
                raise
            set_aside(home, mirror, error.message, emit)
            _fetch(place, commit, mirror)
        mark_used(mirror)
    return mirror


def _fetch(url: str, commit: str, mirror: Path) -> None:
    if url.startswith("-"):
        raise SourceError(
            f"{url!r} is no address of a repository", hint="such as https://host/owner/name.git"
        )
    # No template: a user's may hold hooks.
    made = git("init", "--quiet", "--bare", "--template=", str(mirror))
    if made.returncode != 0:
        raise _failed(made, url, commit, mirror)
    common = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    one = git(*common, "--depth=1", url, commit, repository=mirror, plain=False)
    if one.returncode != 0:
        # Some servers give out only what a branch or tag points to: take all, then look.
        shallow = asked("rev-parse", "--is-shallow-repository", repository=mirror).strip() == b"true"
        deeper = ("--unshallow",) if shallow else ()
        everything = git(*common, *deeper, url, "+refs/*:refs/theirs/*", repository=mirror, plain=False)
        if everything.returncode != 0:
            raise _failed(everything, url, commit, mirror)
    kind = git("cat-file", "-t", commit, repository=mirror)
    if kind.returncode != 0:
        raise SourceError(
            f"the repository has no commit {commit}: {last_word(one)}",
            where=redacted(url),
            hint="was it rewritten upstream? look for the commit there, then pin another in the stack",
        )
    if kind.stdout.strip() != b"commit":
        raise MismatchError(
            f"{commit} is a {kind.stdout.decode().strip()}: expected a commit",
            where=redacted(url),
            hint="`git rev-parse NAME^{commit}` gives the commit of a tag",
        )
    asked("update-ref", _ref(commit), commit, repository=mirror)


def _has(mirror: Path, commit: str) -> bool:
    """Whether a commit was fetched whole: the reference is written when its fetch has ended well."""
    try:
        if not (mirror / "HEAD").is_file():
            return False
    except OSError:  # not to be looked into
        return False
    return git("cat-file", "-e", f"{_ref(commit)}^{{tree}}", repository=mirror).returncode == 0


def _fault(mirror: Path, commit: str) -> str:
    """Return what is wrong with a mirror that does not give a commit; empty if only the commit lacks."""
    if not os.path.lexists(mirror):
        return ""
    if not mirror.is_dir():
        return "it is no folder"
    probe = git("rev-parse", "--git-dir", repository=mirror)
    if probe.returncode != 0:
        return last_word(probe)
    named = git("rev-parse", "--quiet", "--verify", _ref(commit), repository=mirror)
    return f"objects of commit {commit} are missing" if named.returncode == 0 else ""


def _ref(commit: str) -> str:
    return f"refs/sparkbuild/{commit}"


def _failed(finished: Finished, url: str, commit: str, mirror: Path) -> SourceError:
    if "No space left on device" in finished.stderr:
        raise no_space(mirror.parent)
    if tells_damage(finished.stderr):
        return DamagedMirrorError(
            f"commit {commit} could not be fetched: {last_word(finished)}", mirror=mirror
        )
    return SourceError(
        f"commit {commit} could not be fetched: {last_word(finished)}",
        where=redacted(url),
        hint=ACCESS,
    )


def last_word(finished: Finished) -> str:
    """Return what git complained of, in one line."""
    lines = [line for line in finished.stderr.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))]
    last = (told or lines or [f"status {finished.returncode}"])[-1]
    return last.removeprefix("fatal: ").removeprefix("error: ")
