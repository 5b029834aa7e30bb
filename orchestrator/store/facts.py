"""Facts about files, such as a compiler's digest, remembered for as long as the file looks the same.

"The same" is (size, mtime_ns, ctime_ns, inode) at one absolute path, links followed. It is a cache:
lost, damaged or unwritable, it costs time and nothing else.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.store.atomic import open_plain, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA: Literal["sparkbuild.facts/1"] = "sparkbuild.facts/1"

Stamp = tuple[int, int, int, int]


class _FileFacts(msgspec.Struct, frozen=True):
    """What is known of one file while it has this stamp."""

    stamp: Stamp
    facts: dict[str, str]


class _Book(msgspec.Struct, frozen=True):
    """The file on disk."""

    schema: Literal["sparkbuild.facts/1"]
    files: dict[str, _FileFacts]


class Facts:
    """The cache in one JSON file; made lazily, shared by threads and by processes.

    Processes that write at once merge what they find; the last writer of one fact wins, and a fact that
    got lost is computed again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, _FileFacts] | None = None
        self._mutex = threading.Lock()

    def get_or(self, path: Path, kind: str, compute: Callable[[Path], str]) -> str:
        """Return the fact `kind` of `path`, computing it when the file is new or changed.

        Args:
            path: the file that the fact is about.
            kind: name of the fact, such as `sha256` or `version`; what else it depends on goes in here.
            compute: called with `path`, outside of any lock.

        Raises:
            OSError: `path` is not there or not readable; and whatever `compute` raises.
        """
        place = str(path.absolute())
        before = _stamp(path)
        with self._mutex:
            if self._known is None:
                self._known = self._read()
            entry = self._known.get(place)
        if entry is not None and entry.stamp == before and kind in entry.facts:
            return entry.facts[kind]
        value = compute(path)
        if _stamp(path) == before:  # else it changed meanwhile: true or not, nobody may rely on it
            self._remember(place, before, {kind: value})
        return value

    def _remember(self, place: str, stamp: Stamp, facts: dict[str, str]) -> None:
        with self._mutex:
            # What this process knows stays known where nothing can be written.
            both = (self._known or {}) | self._read()
            known = {name: entry for name, entry in both.items() if os.path.lexists(name)}
            former = known.get(place)
            if former is not None and former.stamp == stamp:
                facts = former.facts | facts
            known[place] = _FileFacts(stamp, facts)
            self._known = known
            book = _Book(schema=SCHEMA, files=known)
            with suppress(StoreError, NoSpaceError):
                write_bytes(self._path, msgspec.json.encode(book, order="sorted"), durable=False)

    def _read(self) -> dict[str, _FileFacts]:
        try:
            with open_plain(self._path) as stream:
                return msgspec.json.decode(stream.read(), type=_Book).files
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}


def _stamp(path: Path) -> Stamp:
    seen = path.stat()
    return (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
