"""Reads tarballs (gz, bz2, xz, zst, plain) and zips as one kind of entry."""

from __future__ import annotations

import calendar
import contextlib
import importlib
import stat
import tarfile
import zipfile
from typing import IO, TYPE_CHECKING, Protocol

from orchestrator.errors import SourceError
from orchestrator.source.archive_judge import Entry, mtime, refused
from orchestrator.source.tar_headers import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LONGEST_LINK = 4096
_FIRST_DAY = 315_532_800.0
"""1980-01-01."""
_METHODS = frozenset(
    {
        *(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA),
        getattr(zipfile, "ZIP_ZSTANDARD", zipfile.ZIP_STORED),  # Python 3.14 and newer
    }
)
# The filter judges paths below a folder; with one that is not there, nothing on this disk matters.
_NOWHERE = "/nonexistent"


class Content(Protocol):
    """Opens the bytes of the entry that was yielded with it, until the next one is asked for."""

    def __call__(self) -> IO[bytes]:
        """Open them."""


def read(archive: Path) -> Iterator[tuple[Entry, Content]]:
    """Yield the entries in the archive's order.

    Raises:
        ArchiveRefusedError: sparse or encrypted entries.
        SourceError: Zstandard, and nothing here reads it.
        tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError:
            it is damaged, or no archive.
    """
    with archive.open("rb") as file:
        magic = file.read(4)
    return _zip(archive) if magic in _ZIP_MAGIC else _tar(archive, zstd=magic == _ZSTD_MAGIC)


def _tar(archive: Path, *, zstd: bool) -> Iterator[tuple[Entry, Content]]:
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(_zstd(archive)) if zstd else None
        # In stream mode nothing is read twice; a compressed file seeks back by starting again.
        tar = stack.enter_context(
            tarfile.open(
                name=None if stream else archive,
                fileobj=stream,
                mode="r|" if stream else "r|*",
                tarinfo=bounded(),
            )
        )
        for member in tar:
            if member.issparse():
                raise refused(f"{member.name!r} is a sparse file")

            def content(member: tarfile.TarInfo = member) -> IO[bytes]:
                opened = tar.extractfile(member)
                if opened is None:
                    raise refused(f"{member.name!r} has no bytes")
                return opened

            entry = _tar_entry(member)
            _second_opinion(member)
            member.pax_headers = {}  # tarfile keeps the member, and with each a copy of all global headers
            yield entry, content


def _tar_entry(member: tarfile.TarInfo) -> Entry:
    if member.isreg():
        return Entry(
            name=member.name,
            kind="file",
            size=member.size,
            executable=bool(member.mode & stat.S_IXUSR),
            mtime=mtime(member.mtime),
        )
    if member.isdir():
        return Entry(name=member.name, kind="dir")
    if member.issym():
        return Entry(name=member.name, kind="symlink", target=member.linkname)
    if member.islnk():
        return Entry(name=member.name, kind="hardlink", target=member.linkname)
    return Entry(name=member.name, kind="other")


def _second_opinion(member: tarfile.TarInfo) -> None:
    """Ask the standard library's own filter too, where it has one (3.11.4 and newer)."""
    if hasattr(tarfile, "data_filter"):
        try:
            tarfile.data_filter(member, _NOWHERE)
        except tarfile.FilterError as error:
            raise refused(str(error)) from error


def _zstd(archive: Path) -> IO[bytes]:
    for module in ("compression.zstd", "zstandard"):
        try:
            opened: IO[bytes] = importlib.import_module(module).open(archive, "rb")
        except ImportError:
            continue
        return opened
    raise SourceError(
        "nothing here reads Zstandard", where=str(archive), hint="`pip install zstandard`, or use Python 3.14"
    )


def _zip(archive: Path) -> Iterator[tuple[Entry, Content]]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.flag_bits & 1:
                raise refused(f"{info.filename!r} is encrypted")
            if info.compress_type not in _METHODS:
                raise refused(
                    f"{info.filename!r} is compressed by method {info.compress_type}, not known here"
                )

            def content(info: zipfile.ZipInfo = info) -> IO[bytes]:
                return opened.open(info)

            yield _zip_entry(opened, info), content


def _zip_entry(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        if info.file_size > _LONGEST_LINK:
            raise refused(f"the link {info.filename!r} is {info.file_size} bytes long")
        with opened.open(info) as file:
            target = file.read(_LONGEST_LINK).decode("utf-8", "surrogateescape")
        return Entry(name=info.filename, kind="symlink", target=target)
    if info.is_dir():
        return Entry(name=info.filename, kind="dir")
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        return Entry(name=info.filename, kind="other")
    return Entry(
        name=info.filename,
        kind="file",
        size=info.file_size,
        executable=bool(mode & stat.S_IXUSR),
        mtime=mtime(_seconds(info)),
    )


def _seconds(info: zipfile.ZipInfo) -> float:
    """Return the time of an entry; a date that is none, such as one of zeros, is the first that zips know."""
    try:
        return float(calendar.timegm((*info.date_time, 0, 0, 0)))
    except ValueError:
        return _FIRST_DAY
