"""A step's build tree: kept when the step does not end well, so that the same build goes on in it.

It lies under its build key, at the same path in every run, since build systems write paths down. It is
gone on in when all that counts is the same: the key, the wheels in its environment, and the machine has
not been started anew, after which files may be empty that were just written. What a killed compiler has
left half written goes first: the broker keeps the outputs of units that run in `open/`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.store.atomic import disk_errors, remove_tree, write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.plan.steps import Step
    from orchestrator.store.home import Home

_MADE_ANEW = ("out", "wheels", "tmp", "tools")
"""What each attempt makes for itself."""
_STAGING = ("build/lib*", "build/bdist.*")
"""Where setuptools copies to by time stamps alone, so that half a file would pass as new."""


@dataclass(frozen=True, slots=True)
class BuildTree:
    """The folder of one step under one key. Only who holds the key's lock may touch it."""

    folder: Path
    key: str

    @classmethod
    def of(cls, home: Home, step: Step, *, probing: bool = False) -> BuildTree:
        """Return the tree of a step that builds, or the one in which it is tried out; nothing is made."""
        key = step.keyed.key or ""
        return cls(home.work / (short(key) + "-probe" * probing) / step.name, key)

    @property
    def journal(self) -> Path:
        """Folder that holds, for each unit that runs, a file with the path of its output."""
        return self.folder.parent / "open"

    @property
    def _state(self) -> Path:
        return self.folder.parent / "state.json"

    def resumes(self, needed: Sequence[str]) -> tuple[bool, str]:
        """Return whether a build can go on here, and in words from what, or why not.

        Args:
            needed: sha256 of the built wheels that its environment must hold.
        """
        try:
            state = json.loads(self._state.read_bytes())
            key, wheels, boot = state["key"], state["needed"], state["boot"]
            run = str(state["run"])
        except (OSError, ValueError, KeyError, TypeError):
            return False, ""
        if key != self.key or wheels != list(needed) or not self._is_whole():
            return False, ""
        if boot != _boot():
            return False, "the machine was started anew since its build tree was left: it starts clean"
        return True, f"goes on in the build tree of run {run}"

    def _is_whole(self) -> bool:
        """Whether what every attempt builds on is there, and nothing leads elsewhere."""
        places = (self.folder.parent, self.folder, self.folder / "src", self.folder / "env")
        return all(place.is_dir() and not place.is_symlink() for place in places) and os.access(
            self.folder / "env/bin/python", os.X_OK
        )

    def ready(self, needed: Sequence[str], run: str) -> None:
        """Note that sources, patches and environment are complete: from now on it can be gone on in.

        Raises:
            StoreError, NoSpaceError: it cannot be written.
        """
        state = {"key": self.key, "needed": list(needed), "boot": _boot(), "run": run}
        write_bytes(self._state, json.dumps(state).encode(), durable=False)

    def spend(self) -> None:
        """Note that it must not be gone on in."""
        with suppress(OSError):
            self._state.unlink()

    def settle(self, projects: Sequence[Path]) -> int:
        """Remove what an attempt that was cut off may have left half written; return how many outputs.

        Args:
            projects: folders in which a build backend runs.

        Raises:
            StoreError, NoSpaceError: it cannot be removed.
        """
        outputs = 0
        with disk_errors(self.folder):
            for note in self.journal.iterdir() if self.journal.is_dir() else ():
                path = Path(note.read_text("utf-8", "surrogateescape") if note.is_file() else "/")
                if path.is_relative_to(self.folder) and (path.is_file() or path.is_symlink()):
                    path.unlink()
                    outputs += 1
                remove_tree(note)
            for project in projects:
                for pattern in _STAGING:
                    for path in project.glob(pattern):
                        remove_tree(path)
        for name in _MADE_ANEW:
            remove_tree(self.folder / name)
        return outputs

    def clear(self) -> None:
        """Remove it."""
        self.spend()
        remove_tree(self.folder.parent)


def short(key: str) -> str:
    """Return the name of the folder in `work` that holds the tree of a key."""
    return key[:16]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
