"""Where state lies: one folder, SPARKBUILD_HOME or the platform's cache folder for users."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import StoreError, UsageError

_UNFIT: Final = re.compile(r"[^\w./@+-]|[\ud800-\udfff]")
"""Spaces, quotes, colons and what else a shell or a list of paths reads as more than a character."""

_HINT: Final = "let SPARKBUILD_HOME name an empty folder with a plain path, such as /var/tmp/sparkbuild"

_TAG: Final = """\
Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag (https://bford.info/cachedir/) created by sparkbuild.
# Backups may leave this folder out. `sparkbuild store gc` cleans it.
"""


_TAG_NAME: Final = "CACHEDIR.TAG"
_SIGNATURE: Final = _TAG[: _TAG.index("\n")]
_FOLDERS: Final = (
    *(
        "artifacts",
        "audits",
        "ccache",
        "downloads",
        "git",
        "layers",
        "locks",
        "logs",
        "quarantine",
        "rejected",
    ),
    *("resolved", "trash", "units", "wheels", "work"),
)
_OURS: Final = frozenset({*_FOLDERS, "facts.json", _TAG_NAME})
"""All names that this program gives in the root, beside temporaries."""
_PROOFS: Final = frozenset({"locks", "facts.json"})
"""Made by every run; one of them lies in each state folder that holds anything."""
_LISTED: Final = 5


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
        from orchestrator.store.atomic import disk_errors

        with disk_errors(self.root):
            there = self.root.exists()
        if there:
            self.claim()
        return self

    def claim(self) -> None:
        """Make the folder ours, before anything is written or removed in it; cheap afterwards.

        gc removes what it finds in the folders below; so nothing may lie there that is somebody else's. A
        tag that was lost or damaged is written anew when all names there are ours, and a run made them.

        Raises:
            UsageError: it is a file, or holds other things.
            StoreError, NoSpaceError: it cannot be read or made, or a file lies in place of a folder in it.
        """
        from orchestrator.store.atomic import disk_errors, open_plain, write_bytes

        tag = self.root / _TAG_NAME
        text = ""
        with disk_errors(self.root):
            try:
                with open_plain(tag) as stream:
                    text = stream.read(4096).decode("utf-8", errors="replace")
            except OSError:  # missing or damaged; what the folder holds decides
                if self.root.exists() and not self.root.is_dir():
                    raise UsageError(f"the state folder {self.root} is a file", hint=_HINT) from None
            else:
                if not text or "sparkbuild" in text:  # empty: another run is writing it at this moment
                    self._check_folders()
                    return
            self._refuse_others(others=text.startswith(_SIGNATURE))
            self._check_folders()
            write_bytes(tag, _TAG.encode(), durable=False)

    def _check_folders(self) -> None:
        """Make sure that each folder is one, or a link to one, where it is there at all."""
        for name in _FOLDERS:
            path = self.root / name
            if not path.is_dir() and os.path.lexists(path):
                raise StoreError(
                    "a folder of the state should be here, and is not",
                    where=str(path),
                    hint="move the file or broken link away; the folder is made when it is needed",
                )

    def _refuse_others(self, *, others: bool) -> None:
        """Make sure that nothing in the root is somebody else's; `others`: its tag is another program's."""
        from orchestrator.store.atomic import is_temporary, listed

        names = [path.name for path in listed(self.root)]
        foreign = [
            name
            for name in names
            if (name == _TAG_NAME and others) or not (name in _OURS or is_temporary(name))
        ]
        if not foreign and _PROOFS.isdisjoint(names):  # `work` or `logs` alone may be anybody's
            foreign = [name for name in names if name in _FOLDERS]
        if foreign:
            more = len(foreign) - _LISTED
            shown = ", ".join(foreign[:_LISTED]) + (f" and {more} more" if more > 0 else "")
            raise UsageError(
                f"{self.root} holds other things, so it cannot become the state folder: {shown}",
                hint=f"{_HINT}; or, if this is the state folder, move away what does not belong there",
            )

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
    def audits(self) -> Path:
        """What audits said of published wheels: `audits/<audit key>.json`."""
        return self.root / "audits"

    @property
    def quarantine(self) -> Path:
        """Bytes that did not match their manifest."""
        return self.root / "quarantine"

    @property
    def locks(self) -> Path:
        """Lock files of running processes."""
        return self.root / "locks"

    @property
    def resolved(self) -> Path:
        """Locks in which commits are filled in that the shipped ones leave open: `resolved/<lock file>`."""
        return self.root / "resolved"

    @property
    def work(self) -> Path:
        """Build trees of steps that run, or did not end well: `work/<start of the build key>/<step>`."""
        return self.root / "work"

    @property
    def ccache(self) -> Path:
        """The compiler cache, which keeps itself below a size of its own."""
        return self.root / "ccache"

    @property
    def units(self) -> Path:
        """What compiler calls cost last time: `units/<recipe>.json`."""
        return self.root / "units"

    @property
    def logs(self) -> Path:
        """Logs: `logs/<run>/<step>.log`."""
        return self.root / "logs"

    @property
    def facts(self) -> Path:
        """What tools said of themselves, cached by stat."""
        return self.root / "facts.json"
