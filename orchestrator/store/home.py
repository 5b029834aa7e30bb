"""Where state lies: one folder, SPARKBUILD_HOME or the platform's cache folder for users."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folders below one root. Nothing is made by making this value."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """Return SPARKBUILD_HOME, absolute, or the user's cache folder."""
        named = os.environ.get("SPARKBUILD_HOME")
        if named:
            return cls(Path(named).expanduser().absolute())
        import platformdirs

        return cls(platformdirs.user_cache_path("sparkbuild"))

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
