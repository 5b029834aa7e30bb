"""Artifacts under keys: served when they look untouched, hashed before they are handed on.

Every folder `artifacts/<key>/` and `rejected/<key>/` holds the files and `manifest.json`; it appears
whole, by one rename. What does not fit its manifest moves to quarantine and counts as missing.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.report.events import Note, silent
from orchestrator.store import atomic, locks
from orchestrator.store import files as stored_files
from orchestrator.store import manifest as manifests
from orchestrator.store.manifest import Audit, BadManifestError, Manifest, StoredFile
from orchestrator.store.quarantine import quarantine
from orchestrator.store.stamps import mark_used

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artifact: its folder and the manifest that was read from it."""

    folder: Path
    manifest: Manifest

    @property
    def key(self) -> str:
        """The build key."""
        return self.manifest.key

    @property
    def paths(self) -> list[Path]:
        """Its files. Not hashed: hand on only what `Store.verified` returns."""
        return [self.folder / file.name for file in self.manifest.files]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.manifest.files)


class Store:
    """The artifacts of one home. Safe to share by threads and by processes."""

    def __init__(self, home: Home, emit: Emit = silent) -> None:
        self.home = home
        self._emit = emit

    def lock(
        self, key: str, what: str | None = None, *, check: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[bool]:
        """Hold the right to build `key`; see `locks.key_lock`. Ask `get` again inside."""
        manifests.check_key(key)
        return locks.key_lock(self.home, key, what=what, emit=self._emit, check=check)

    # --- reading -----------------------------------------------------------------------------------

    def get(self, key: str) -> Artifact | None:
        """Return the served artifact of `key`, by stat alone, or None.

        A file that looks touched is hashed: same bytes serve on, others go to quarantine with a warning.

        Raises:
            StoreError: `key` cannot be one, or the store cannot be read, or not be written when it has to.
        """
        return self._get(self.home.artifacts, key)

    def get_rejected(self, key: str) -> Artifact | None:
        """Return the artifact of `key` that failed its audit, or None."""
        return self._get(self.home.rejected, key)

    def verified(self, artifact: Artifact) -> list[Path] | None:
        """Hash an artifact's files and return their paths, or None after quarantining a wrong one.

        Call it wherever bytes leave the store: dist, install, built against.
        """
        try:
            inode = _inode(artifact.folder)
            on_disk = manifests.read(artifact.folder)
        except (OSError, BadManifestError):
            self._lost(artifact)
            return None
        if _digests(on_disk) != _digests(artifact.manifest):
            self._lost(artifact)  # another build took its place meanwhile
            return None
        problem = stored_files.problems(artifact.folder, artifact.manifest.files)
        if problem is not None:
            self._condemn(artifact.folder, problem, inode)
            return None
        return artifact.paths

    # --- writing -----------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        files: Sequence[Path],
        manifest: Manifest,
        *,
        move: bool = False,
        rejected: bool = False,
    ) -> Artifact:
        """Store files under a key; when it is served already, keep and return the first.

        Args:
            key: the build key.
            files: at least one file, of different names; left as they are unless `move`.
            manifest: name, version, ingredients and so on; `key`, `files`, `created` are filled in.
            move: the files may leave their place, which spares a copy on the same file system. They do so
                only after everything went well.
            rejected: keep it among the rejected instead, in place of an earlier one.

        Raises:
            NoSpaceError: the disk is full; the store is as before.
            BuildFailedError: a file has a name that none in the store can have.
            StoreError: unfit key, files of one name, or the file system refused.
        """
        manifests.check_key(key)
        names = [source.name for source in files]
        for name in names:
            manifests.check_file_name(name)
        if not names or len(set(names)) != len(names):
            raise StoreError(f"an artifact needs files of different names, got {names}", where=key)
        parent = self.home.rejected if rejected else self.home.artifacts
        with atomic.disk_errors(parent), atomic.temporary_dir(parent, key) as temporary:
            stored = tuple(stored_files.take_in(source, temporary, link=move) for source in files)
            filled = msgspec.structs.replace(
                manifest, key=key, files=stored, created=manifest.created or _now_text(), seal=""
            )
            atomic.write_bytes(temporary / manifests.FILE_NAME, manifests.encode(filled))
            artifact = self._place(temporary, parent / key, filled)
            stored_files.protect(artifact.paths)
        if move:
            for source in files:
                with suppress(OSError):
                    source.unlink()
        return artifact

    def reject(self, key: str, files: Sequence[Path], manifest: Manifest, *, move: bool = False) -> Artifact:
        """Keep what failed its audit: never served, not lost. As `put` otherwise."""
        return self.put(key, files, manifest, move=move, rejected=True)

    def promote(self, key: str) -> Artifact | None:
        """Serve a rejected artifact from now on (a policy changed); None when there is none.

        One that is served already under this key stays, and the rejected one goes.
        """
        return self._move(key, self.home.rejected, self.home.artifacts)

    def demote(self, key: str) -> Artifact | None:
        """Serve an artifact no longer, but keep it as rejected; None when there is none."""
        return self._move(key, self.home.artifacts, self.home.rejected)

    def update_audit(self, key: str, audit: Audit) -> Artifact | None:
        """Write what an audit said into the manifest, served or rejected; None when there is neither."""
        for parent in (self.home.artifacts, self.home.rejected):
            manifest = self._rewrite(parent / key, audit=audit)
            if manifest is not None:
                return Artifact(parent / key, manifest)
        return None

    # --- inside ------------------------------------------------------------------------------------

    def _get(self, parent: Path, key: str) -> Artifact | None:
        manifests.check_key(key)
        folder = parent / key
        try:
            inode = _inode(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise atomic.disk_error(OSError(error.errno, error.strerror), parent) from error
        try:
            artifact = Artifact(folder, manifests.read(folder))
        except BadManifestError as error:
            self._condemn(folder, str(error), inode)
            return None
        stored = artifact.manifest.files
        touched = [file.name for file in stored if not stored_files.looks_same(folder, file)]
        if touched or not stored:
            return self._look_closer(artifact, touched, inode)
        mark_used(folder)
        return artifact

    def _look_closer(self, artifact: Artifact, touched: list[str], inode: int) -> Artifact | None:
        folder = artifact.folder
        problem = stored_files.problems(folder, artifact.manifest.files)
        if problem is not None:
            self._condemn(folder, problem, inode)
            return None
        text = f"{', '.join(touched)}: touched since it was stored; hashed, the bytes are the same"
        self._emit(Note("info", text))
        mark_used(folder)
        with suppress(OSError, StoreError, NoSpaceError):  # not to be written: hashed again next time
            fresh = tuple(stored_files.with_stat(folder, file) for file in artifact.manifest.files)
            manifest = self._rewrite(folder, stored=fresh)
            return Artifact(folder, manifest) if manifest else None
        return artifact

    def _lost(self, artifact: Artifact) -> None:
        text = f"{artifact.folder}: no longer there as it was, not used"
        self._emit(Note("warning", text, artifact.manifest.name))

    def _condemn(self, folder: Path, why: str, inode: int) -> None:
        """Quarantine the very folder that was judged: another may have taken its place."""
        with locks.guard(self.home):
            try:
                moved = quarantine(self.home, folder, why) if _inode(folder) == inode else None
            except FileNotFoundError:
                return
        if moved is not None:
            text = f"{folder.parent.name}/{folder.name[:12]}: {why}; not used, moved to {moved}"
            self._emit(Note("warning", text))

    def _place(self, temporary: Path, folder: Path, manifest: Manifest) -> Artifact:
        """Rename a finished folder into the store; among the rejected the newest stays, else the first.

        Raises:
            OSError: as the system says it; FileNotFoundError when `temporary` is gone.
        """
        while True:
            former = folder.with_name(atomic.temporary_name(folder.name))
            with locks.guard(self.home):
                temporary.lstat()
                if folder.parent == self.home.rejected and os.path.lexists(folder):
                    folder.rename(former)
                placed = atomic.place_dir(temporary, folder)
            atomic.remove_tree(former)
            if placed:
                return Artifact(folder, manifest)
            first = self._get(folder.parent, folder.name)
            if first is not None:
                return first

    def _move(self, key: str, source: Path, target: Path) -> Artifact | None:
        artifact = self._get(source, key)
        if artifact is None:
            return None
        with atomic.disk_errors(target):
            target.mkdir(parents=True, exist_ok=True)
            try:
                moved = self._place(artifact.folder, target / key, artifact.manifest)
            except FileNotFoundError:
                return None  # another process moved it first
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                paths = self.verified(artifact)  # a copy gets new digests: of the right bytes only
                if paths is None:
                    return None
                moved = self.put(key, paths, artifact.manifest, rejected=target == self.home.rejected)
            if moved.manifest is artifact.manifest:
                return moved
            # Served already: that one stays. Out of sight first, by one rename.
            former = artifact.folder.with_name(atomic.temporary_name(key))
            with suppress(FileNotFoundError):
                artifact.folder.rename(former)
            atomic.remove_tree(former)
        return moved

    def _rewrite(
        self, folder: Path, *, audit: Audit | None = None, stored: tuple[StoredFile, ...] | None = None
    ) -> Manifest | None:
        """Change fields of a manifest on disk, keeping what another process changed; None when gone."""
        with locks.guard(self.home):
            try:
                manifest = manifests.read(folder)
            except BadManifestError:
                return None
            if audit is not None:
                manifest = msgspec.structs.replace(manifest, audit=audit)
            if stored is not None:
                manifest = msgspec.structs.replace(manifest, files=stored)
            atomic.write_bytes(folder / manifests.FILE_NAME, manifests.encode(manifest))
        return manifest


def _inode(folder: Path) -> int:
    return folder.lstat().st_ino


def _digests(manifest: Manifest) -> dict[str, str]:
    return {file.name: file.sha256 for file in manifest.files}


def _now_text() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
