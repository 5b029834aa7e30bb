"""Artifacts under keys: served when they look untouched, hashed before they are handed on.

Every folder `artifacts/<key>/` and `rejected/<key>/` holds the files and `manifest.json`; it appears
whole, by one rename. What does not fit its manifest moves to quarantine and counts as missing.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import StoreError
from orchestrator.report.events import Note, silent
from orchestrator.store import atomic, locks, manifest as manifests
from orchestrator.store.manifest import Audit, BadManifestError, Manifest, StoredFile
from orchestrator.store.quarantine import quarantine
from orchestrator.store.stamps import mark_used

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home

_READ_ONLY = 0o444


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


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder of the store as it lies there; without an artifact, `problem` says why."""

    key: str
    rejected: bool
    artifact: Artifact | None
    problem: str | None = None


class Store:
    """The artifacts of one home. Safe to share by threads and by processes."""

    def __init__(self, home: Home, emit: Emit = silent) -> None:
        self.home = home
        self._emit = emit

    def lock(self, key: str, what: str | None = None) -> AbstractContextManager[bool]:
        """Hold the right to build `key`; see `locks.key_lock`. Ask `get` again inside."""
        manifests.check_key(key)
        return locks.key_lock(self.home, key, what=what, emit=self._emit)

    # --- reading -----------------------------------------------------------------------------------

    def get(self, key: str) -> Artifact | None:
        """Return the served artifact of `key`, by stat alone, or None.

        A file that looks touched is hashed: same bytes serve on, others go to quarantine with a warning.

        Raises:
            StoreError: `key` cannot be one, or the store cannot be written when it has to.
        """
        return self._get(self.home.artifacts, key)

    def get_rejected(self, key: str) -> Artifact | None:
        """Return the artifact of `key` that failed its audit, or None."""
        return self._get(self.home.rejected, key)

    def verified(self, artifact: Artifact) -> list[Path] | None:
        """Hash an artifact's files and return their paths, or None after quarantining a wrong one.

        Call it wherever bytes leave the store: dist, install, built against.
        """
        problem = self._hash_problem(artifact)
        if problem is not None:
            self._condemn(artifact.folder, problem)
            return None
        return artifact.paths

    def entries(self) -> list[Entry]:
        """List what lies in the store, served first, by key; nothing is hashed, moved or marked."""
        return [entry for rejected in (False, True) for entry in self._entries(rejected=rejected)]

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
            files: at least one, of different names; left as they are unless `move`.
            manifest: name, version, ingredients and so on; `key`, `files`, `created` are filled in.
            move: the files may leave their place, which spares a copy on the same file system. They do so
                only after everything went well.
            rejected: keep it among the rejected instead, in place of an earlier one.

        Raises:
            NoSpaceError: the disk is full; the store is as before.
            StoreError: unfit key or names, or the file system refused.
        """
        manifests.check_key(key)
        names = [file.name for file in files]
        for name in names:
            manifests.check_file_name(name)
        if not names or len(set(names)) != len(names):
            raise StoreError(f"an artifact needs files of different names, got {names}", where=key)
        parent = self.home.rejected if rejected else self.home.artifacts
        with atomic.disk_errors(parent), atomic.temporary_dir(parent, key) as temporary:
            stored = tuple(_take_in(file, temporary, link=move) for file in files)
            filled = msgspec.structs.replace(
                manifest, key=key, files=stored, created=manifest.created or _now_text(), seal=""
            )
            atomic.write_bytes(temporary / manifests.FILE_NAME, manifests.encode(filled))
            artifact = self._place(temporary, parent / key, filled)
        if move:
            for file in files:
                with suppress(OSError):
                    file.unlink()
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
        if not os.path.lexists(folder):
            return None
        try:
            artifact = Artifact(folder, manifests.read(folder))
        except BadManifestError as error:
            self._condemn(folder, str(error))
            return None
        touched = [file for file in artifact.manifest.files if not _looks_same(folder, file)]
        if touched:
            return self._look_closer(artifact, touched)
        mark_used(folder)
        return artifact

    def _look_closer(self, artifact: Artifact, touched: list[StoredFile]) -> Artifact | None:
        problem = self._hash_problem(artifact)
        if problem is not None:
            self._condemn(artifact.folder, problem)
            return None
        names = ", ".join(file.name for file in touched)
        self._emit(Note("info", f"{names}: touched since it was stored, hashed again, bytes are the same"))
        with suppress(OSError):  # gone between the two looks: the next one tells
            files = tuple(_restat(artifact.folder, file) for file in artifact.manifest.files)
            with suppress(StoreError):  # a store that may only be read: hashed again next time
                manifest = self._rewrite(artifact.folder, files=files)
                return Artifact(artifact.folder, manifest) if manifest else None
        return artifact

    def _hash_problem(self, artifact: Artifact) -> str | None:
        if not artifact.manifest.files:
            return "manifest names no files"
        for file in artifact.manifest.files:
            problem = file_problem(artifact.folder, file)
            if problem is not None:
                return problem
        return None

    def _condemn(self, folder: Path, why: str) -> None:
        with locks.guard(self.home):
            if not os.path.lexists(folder):
                return  # another process took it away, which is what made it look bad
            moved = quarantine(self.home, folder, why)
        if moved is not None:
            text = f"{folder.parent.name}/{folder.name[:12]}: {why}; not used, moved to {moved}"
            self._emit(Note("warning", text))

    def _place(self, temporary: Path, folder: Path, manifest: Manifest) -> Artifact:
        replaces = folder.parent == self.home.rejected
        while True:
            with locks.guard(self.home):
                if replaces and os.path.lexists(folder):
                    folder.rename(folder.with_name(atomic.temporary_name(folder.name)))
                if atomic.place_dir(temporary, folder):
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
            manifest = self._place_moved(source / key, target / key, artifact.manifest)
        return manifest

    def _place_moved(self, source: Path, target: Path, manifest: Manifest) -> Artifact | None:
        if target.parent == self.home.artifacts:
            served = self._get(target.parent, target.name)
            if served is not None:
                with locks.guard(self.home), suppress(FileNotFoundError):
                    source.rename(source.with_name(atomic.temporary_name(source.name)))
                return served
        try:
            return self._place(source, target, manifest)
        except FileNotFoundError:
            return None  # another process moved it first

    def _rewrite(
        self, folder: Path, *, audit: Audit | None = None, files: tuple[StoredFile, ...] | None = None
    ) -> Manifest | None:
        """Change fields of a manifest on disk, keeping what another process changed; None when gone."""
        with locks.guard(self.home):
            try:
                manifest = manifests.read(folder)
            except BadManifestError:
                return None
            if audit is not None:
                manifest = msgspec.structs.replace(manifest, audit=audit)
            if files is not None:
                manifest = msgspec.structs.replace(manifest, files=files)
            atomic.write_bytes(folder / manifests.FILE_NAME, manifests.encode(manifest))
        return manifest

    def _entries(self, *, rejected: bool) -> Iterator[Entry]:
        parent = self.home.rejected if rejected else self.home.artifacts
        if not parent.is_dir():
            return
        for folder in sorted(parent.iterdir()):
            if atomic.is_temporary(folder.name):
                continue
            if not folder.is_dir():
                self._emit(Note("warning", f"{folder}: not part of the store, ignored"))
                continue
            try:
                artifact = Artifact(folder, manifests.read(folder))
            except BadManifestError as error:
                yield Entry(folder.name, rejected, None, str(error))
            else:
                yield Entry(folder.name, rejected, artifact)


def file_problem(folder: Path, file: StoredFile) -> str | None:
    """Hash one file and say how it differs from its manifest, or None."""
    path = folder / file.name
    try:
        manifests.check_file_name(file.name)
        size = path.stat().st_size
        if size != file.size:
            return f"{file.name} has {size} bytes, expected {file.size}"
        found = atomic.sha256_file(path)
    except (OSError, StoreError) as error:
        return f"{file.name} cannot be read: {error}"
    if found != file.sha256:
        return f"{file.name} has sha256 {found[:16]}…, expected {file.sha256[:16]}…"
    return None


def _looks_same(folder: Path, file: StoredFile) -> bool:
    try:
        seen = os.stat(f"{folder}/{file.name}", follow_symlinks=False)  # noqa: PTH116 - a no-op run's time
    except (OSError, ValueError):
        return False
    return (seen.st_size, seen.st_mtime_ns, seen.st_ino) == (file.size, file.mtime_ns, file.inode)


def _restat(folder: Path, file: StoredFile) -> StoredFile:
    seen = (folder / file.name).stat()
    return msgspec.structs.replace(file, size=seen.st_size, mtime_ns=seen.st_mtime_ns, inode=seen.st_ino)


def _take_in(source: Path, folder: Path, *, link: bool) -> StoredFile:
    path = folder / source.name
    if not (link and _linked(source, path)):
        shutil.copyfile(source, path)
    path.chmod(_READ_ONLY)
    atomic.fsync_file(path)
    digest = atomic.sha256_file(path)
    seen = path.stat()
    return StoredFile(
        name=source.name,
        sha256=digest,
        size=seen.st_size,
        mtime_ns=seen.st_mtime_ns,
        inode=seen.st_ino,
    )


def _linked(source: Path, path: Path) -> bool:
    if source.is_symlink():
        return False
    try:
        path.hardlink_to(source)
    except OSError:
        return False  # another file system, or one without links: copy
    return True


def _now_text() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
