"""Unpacks a source archive, whole or not at all."""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from orchestrator.errors import ArchiveRefusedError, SourceError
from orchestrator.source import disk
from orchestrator.source.archive_judge import Entry, Limits, folders, judge, refused, within
from orchestrator.source.archive_read import read

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_BLOCK = 1 << 20
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OverflowError, zlib.error, lzma.LZMAError),
    NotImplementedError,  # a zip of a later version, or by a method that is not known here
)
_UNFIT = frozenset({errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL})
"""What a file system says of a name that it cannot hold."""
_HINT = "nothing was unpacked; look at what the publisher ships before trusting it"


def unpack(archive: Path, dest: Path, *, limits: Limits | None = None) -> None:
    """Unpack a tarball or zip to a folder that does not exist yet; a single top folder is taken off.

    All entries are judged first. Files get mode 644 or 755 and the archive's times; owners are not kept.

    Args:
        archive: gz, bz2, xz, zst or plain tar, or zip; known by its first bytes.
        dest: appears complete, by a rename, or not at all.
        limits: how much it may become.

    Raises:
        ArchiveRefusedError: it reaches outside its root, becomes too much, or cannot be read.
        NoSpaceError: the disk is, or would get, full.
        SourceError: `dest` exists, or nothing here reads its compression.
    """
    limits = limits or Limits()
    if os.path.lexists(dest):
        raise SourceError(f"{dest} exists already", hint="remove it, or unpack elsewhere")
    allowed = limits.total(archive.stat().st_size)

    def opened() -> list[Entry]:
        found = within(
            (entry for entry, _ in read(archive)), limits=limits, archive_size=archive.stat().st_size
        )
        return judge(list(found))

    entries = _told(archive, opened)
    dest.parent.mkdir(parents=True, exist_ok=True)
    disk.need_space(dest.parent, sum(entry.size for entry in entries))
    temporary = Path(tempfile.mkdtemp(prefix=f".{dest.name}-", dir=dest.parent))
    try:
        temporary.chmod(0o755)
        with disk.telling_full(dest.parent):
            _told(archive, lambda: _write(archive, entries, temporary, allowed=allowed))
        temporary.rename(dest)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _told(archive: Path, action: Callable[[], _T]) -> _T:
    """Run an action; say which archive was refused, and turn a library's complaints into a refusal."""
    try:
        return action()
    except ArchiveRefusedError as error:
        raise ArchiveRefusedError(f"refused: {error.message}", where=str(archive), hint=_HINT) from error
    except _DAMAGED as error:
        raise ArchiveRefusedError(
            f"cannot be read as an archive: {error}", where=str(archive), hint=_HINT
        ) from error
    except OSError as error:
        # bz2 and gzip tell damage as an OSError without a number.
        if error.errno is not None and error.errno not in _UNFIT:
            raise
        reason = error.strerror or str(error)
        raise ArchiveRefusedError(f"cannot be unpacked: {reason}", where=str(archive), hint=_HINT) from error


def _write(archive: Path, entries: list[Entry], root: Path, *, allowed: int) -> None:
    """Write judged entries below `root`, in the archive's order; what headers claim is not believed."""
    for folder in folders(entries):
        root.joinpath(*folder).mkdir(exist_ok=True)
    left = allowed
    for judged, (entry, content) in zip(entries, read(archive), strict=True):
        path = root.joinpath(*judged.path)
        if entry.name != judged.name or entry.kind != judged.kind:
            raise refused("it changed while it was read")
        if entry.kind == "file":
            left -= _write_file(judged, content(), path, left=left)
        elif entry.kind == "hardlink":
            path.unlink(missing_ok=True)
            shutil.copy2(root / judged.target, path, follow_symlinks=False)
        elif entry.kind == "symlink":
            path.symlink_to(judged.target)


def _write_file(entry: Entry, source: IO[bytes], path: Path, *, left: int) -> int:
    path.unlink(missing_ok=True)  # a later entry of one name wins, as tar has it
    written = 0
    with source, path.open("xb") as sink:
        while block := source.read(_BLOCK):
            written += len(block)
            if written > left:
                raise refused(f"it becomes more than it claims, at {entry.name!r}")
            sink.write(block)
    path.chmod(0o755 if entry.executable else 0o644)
    if entry.mtime:
        os.utime(path, (entry.mtime, entry.mtime))
    return written
