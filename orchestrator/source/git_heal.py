"""Damaged mirrors: known by what git says, moved to the quarantine, and fetched once more."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import SourceError
from orchestrator.report.events import Note
from orchestrator.store.locks import guard
from orchestrator.store.quarantine import quarantine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from filelock import BaseFileLock

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home

_T = TypeVar("_T")

_DAMAGE = re.compile(
    r"""
    not\ a\ git\ repository | bad\ config | (?:bad|invalid|broken|corrupt|missing)\ \S*\ ?
      (?:object|blob|tree|commit|ref|pack|sha1|index)
    | (?:object\ file|pack|packfile|loose\ object)\ .*\ (?:is\ empty|cannot\ be|does\ not)
    | corrupt | is\ far\ too\ short | unable\ to\ (?:read\ (?!askpass)|unpack|find\ [0-9a-f]{40})
    | [Cc]ould\ not\ (?:read|parse|open)\ (?!directory|from|Username|Password)
    | failed\ to\ (?:read|unpack)\ | [Nn]ot\ a\ valid\ (?:object|commit|tree) | not\ a\ tree\ object
    | does\ not\ point\ to\ a\ valid\ object | unresolved\ deltas | inflate
    # Only one git works in a mirror at a time: a lock that is there was left by one that was killed.
    | \.lock':\ File\ exists
    """,
    re.VERBOSE,
)
_TRANSPORT = re.compile(
    r"early EOF|hung up|index-pack|RPC failed|protocol error|[Cc]onnection|unable to access|timed out"
)
"""What came was cut off or damaged on its way: the words are those of a damaged mirror, which it is not."""


class DamagedMirrorError(SourceError):
    """A mirror that git cannot read.

    Args:
        message: what git said.
        mirror: the bare repository.
    """

    code = "mirror-damaged"

    def __init__(self, message: str, *, mirror: Path) -> None:
        super().__init__(
            message,
            where=str(mirror),
            hint=f"run the same again with the network: {mirror} is then moved away and fetched anew",
        )
        self.mirror = mirror
        self.inode = _inode(mirror)


def tells_damage(said: str) -> bool:
    """Whether git, on stderr, complains of the repository itself; what a server says does not count."""
    if _TRANSPORT.search(said):
        return False
    own = (line for line in said.splitlines() if not line.startswith("remote:"))
    return any(_DAMAGE.search(line) for line in own)


def mirror_lock(home: Home, mirror: Path) -> BaseFileLock:
    """Return the lock under which a mirror is changed."""
    from filelock import FileLock

    home.locks.mkdir(parents=True, exist_ok=True)
    return FileLock(home.locks / f"git-{mirror.stem}.lock")


def set_aside(home: Home, mirror: Path, why: str, emit: Emit) -> None:
    """Move a mirror to the quarantine and say so; call it under its `mirror_lock`.

    Raises:
        StoreError, NoSpaceError: it could not be moved.
    """
    with guard(home):
        moved = quarantine(home, mirror, why)
    kept = f", kept as {moved}" if moved is not None else ""
    emit(Note("warning", f"the mirror {mirror} is damaged ({why}){kept}; it is fetched anew"))


def healed(action: Callable[[], _T], *, home: Home, offline: bool, emit: Emit) -> _T:
    """Do what reads mirrors; each that proves damaged is moved away, once, and the action done again.

    Raises:
        SourceError: a mirror is damaged, and the network is not allowed, or it is damaged again.
    """
    seen: set[Path] = set()
    while True:
        try:
            return action()
        except DamagedMirrorError as error:
            if offline or error.mirror in seen:
                raise
            seen.add(error.mirror)
            with mirror_lock(home, error.mirror):
                # Another run may have been faster.
                if _inode(error.mirror) == error.inode:
                    set_aside(home, error.mirror, error.message, emit)


def _inode(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.lstat().st_ino
    return None
