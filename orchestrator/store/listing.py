"""What lies in the store, as it lies there: nothing is hashed, moved or marked as used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.report.events import Note, silent
from orchestrator.store import atomic, names
from orchestrator.store import manifest as manifests
from orchestrator.store.artifacts import Artifact
from orchestrator.store.manifest import BadManifestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder of the store; without an artifact, `problem` says why."""

    folder: Path
    rejected: bool
    artifact: Artifact | None
    problem: str | None = None

    @property
    def verdict(self) -> str:
        """What a person needs to know of it: the audit's verdict, or why it is not served."""
        if self.artifact is None:
            return "broken"
        if self.rejected:
            return "rejected"
        audit = self.artifact.manifest.audit
        return audit.verdict if audit else "not audited"


def entries(home: Home, emit: Emit = silent) -> Iterator[Entry]:
    """List artifacts, the served ones first, each part by key; what does not belong gets a note.

    Raises:
        StoreError: a folder of artifacts is there and cannot be read.
    """
    for rejected, parent in ((False, home.artifacts), (True, home.rejected)):
        for folder in atomic.listed(parent):
            if atomic.is_temporary(folder.name):
                continue
            if not atomic.is_folder(folder) or not names.is_key(folder.name):
                emit(Note("info", f"{folder}: not part of the store, ignored"))
                continue
            try:
                artifact = Artifact(folder, manifests.read(folder))
            except BadManifestError as error:
                yield Entry(folder, rejected, None, str(error))
            else:
                yield Entry(folder, rejected, artifact)
