"""Where state lies: one folder, SPARKBUILD_HOME or the platform's cache folder for users."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import UsageError

_UNFIT: Final = re.compile(r"[^\w./@+-]|[\ud800-\udfff]")
"""Spaces, quotes, colons and what else a shell or a list of paths reads as more than a character."""

_HINT: Final = "let SPARKBUILD_HOME name an empty folder with a plain path, such as /var/tmp/sparkbuild"

_TAG: Final = """\
Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag (https://bford.info/cachedir/) created by sparkbuild.
# Backups may leave this folder out. `sparkbuild store gc` cleans it.
"""


@dataclass(frozen=True, slots=True)
class Home:
    """The folders below one root. Nothing is made by making this value."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """Return SPARKBUILD_HOME, absolute, or the user's cache folder.

        Raises:
            UsageError: the path holds what compilers, nvcc or build scripts cannot carry.
        """
        named = os.environ.get("SPARKBUILD_HOME")
        if named:
            try:
                root = Path(named).expanduser().absolute()
            except RuntimeError as error:  # ~nobody-of-this-name
                raise UsageError(f"SPARKBUILD_HOME={named!r}: {error}", hint=_HINT) from error
        else:
            import platformdirs

            root = platformdirs.user_cache_path("sparkbuild")
        if unfit := _UNFIT.search(str(root)):
            raise UsageError(
                f"the state folder's path holds {unfit.group()!r}, which build tools cannot carry",
                where=repr(str(root)),
                hint=_HINT,
            )
        return cls(root)

    def existing(self) -> Home:
        """Return this value, after seeing that the folder, if there is one, is ours; see `claim`."""
        if self.root.exists():
            self.claim()
        return self

    def claim(self) -> None:
        """Make the folder ours, before anything is written or removed in it. Costs one stat afterwards.

        gc removes what it finds in the folders below; so nothing may lie there that is somebody else's.

        Raises:
            UsageError: it is a file, or holds other things.
            OSError: it cannot be made.
        """
        tag = self.root / "CACHEDIR.TAG"
        if tag.is_file():
            text = tag.read_text("utf-8", errors="replace")
            if not text or "sparkbuild" in text:  # empty: another run is writing it at this moment
                return
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"the state folder {self.root} is a file", hint=_HINT)
        if self.root.is_dir() and any(self.root.iterdir()):
            raise UsageError(
                f"{self.root} holds other things, so it cannot become the state folder", hint=_HINT
            )
        self.root.mkdir(parents=True, exist_ok=True)
        tag.write_text(_TAG, "utf-8")

    @property
    def downloads(self) -> Path:
        """Verified files: `downloads/<sha256>/<file name>`."""
        return self.root / "downloads"

    @property
    def git(self) -> Path:
        """Bare mirrors of repositories."""
        return self.root / "git"

    @property
    def wheels(self) -> Path:
        """Unpacked wheels, read-only: `wheels/<sha256>/`."""
        return self.root / "wheels"

    @property
    def layers(self) -> Path:
        """Merged, read-only sets of unpacked wheels: `layers/<key>/`."""
        return self.root / "layers"

    @property
    def artifacts(self) -> Path:
        """Served artifacts: `artifacts/<build key>/`."""
        return self.root / "artifacts"

    @property
    def rejected(self) -> Path:
        """Artifacts that failed their audit: kept, never served."""
        return self.root / "rejected"

    @property
    def quarantine(self) -> Path:
        """Bytes that did not match their manifest."""
        return self.root / "quarantine"

    @property
    def locks(self) -> Path:
        """Lock files of running processes."""
        return self.root / "locks"

    @property
    def work(self) -> Path:
        """Build trees of running or failed steps."""
        return self.root / "work"

    @property
    def logs(self) -> Path:
        """Logs: `logs/<run>/<step>.log`."""
        return self.root / "logs"

    @property
    def facts(self) -> Path:
        """What tools said of themselves, cached by stat."""
        return self.root / "facts.json"
