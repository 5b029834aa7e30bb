"""`dist/<stack>` during a run: what it serves, and what the run makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.package.index import check_folder, entry_name, is_current, publish, read_listing
from orchestrator.report.events import Note

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from orchestrator.package.index import Listing
    from orchestrator.report.events import Emit


@dataclass(frozen=True, slots=True)
class Dist:
    """One folder of served wheels, as it was when the run began."""

    folder: Path
    target: str
    """Platform and Python, such as `linux-aarch64.cp312`: one folder may serve several."""
    listing: Listing

    @classmethod
    def opened(cls, folder: Path, target: str) -> Dist:
        """Return the folder, after seeing that it can be written: before hours are spent, not after.

        Raises:
            UsageError: it is a file, or its index a link.
            StoreError: it cannot be written.
        """
        check_folder(folder)
        return cls(folder, target, read_listing(folder))

    def serves(self, component: str, wheels: Mapping[str, str]) -> bool:
        """Return whether it serves just these wheels (name -> sha256) of a component, by stat alone."""
        return is_current(self.folder, self.listing, entry_name(component, self.target), wheels)

    def update(self, wheels: Mapping[str, Mapping[Path, str]], failed: Collection[str], emit: Emit) -> bool:
        """Serve wheels (component -> path -> sha256), and no longer those of components that failed.

        Returns:
            Whether anything changed. What went is told; the store still has it.
        """
        entries = {
            entry_name(name, self.target): files
            for name, files in wheels.items()
            if not self.serves(name, {path.name: digest for path, digest in files.items()})
        }
        withdrawn = [
            entry
            for entry in (entry_name(name, self.target) for name in failed)
            if entry in self.listing.entries
        ]
        if not entries and not withdrawn:
            return False
        publish(self.folder, entries, withdrawn)
        for name in sorted({*wheels, *failed}):
            self._tell(name, entries, failed=name in failed, emit=emit)
        return True

    def _tell(
        self, name: str, entries: Mapping[str, Mapping[Path, str]], *, failed: bool, emit: Emit
    ) -> None:
        entry = entry_name(name, self.target)
        now = {path.name for path in entries.get(entry, ())}
        gone = sorted({item.file for item in self.listing.entries.get(entry, ())} - now)
        if failed and gone:
            emit(Note("warning", f"no longer served in dist, since it failed now: {', '.join(gone)}", name))
        elif entry in entries and gone:
            emit(Note("info", f"replaced in dist: {', '.join(gone)}", name))
