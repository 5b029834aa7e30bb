"""One wheel, unpacked into a read-only tree: `site`, `scripts`, `data` and `headers`.

The layout of a wheel is that of the binary distribution format (packaging.python.org, "Binary
distribution format"): what lies in `<name>-<version>.data/` goes to the folder that its first part
names, all else is importable. A wheel's sha256 was verified when it was downloaded; here its CRCs are.
"""

from __future__ import annotations

import ctypes
import lzma
import os
import stat
import zipfile
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from orchestrator.errors import ArchiveRefusedError, InterruptedRunError
from orchestrator.store.atomic import disk_errors, place_dir, temporary_dir

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 64 << 10
"""Bytes unpacked in one go. From 128 KiB on malloc maps each chunk anew, which costs as much again."""

BLOCK = 4096
"""Bytes that a file takes at least on common file systems."""

MAX_FILES = 200_000
MAX_RATIO = 200
MAX_SMALL = 1 << 30
"""A wheel may unpack to `MAX_RATIO` times its size; below this many bytes nobody minds."""

READ_ONLY_FOLDER = 0o555

_BUCKETS = {"purelib": "site", "platlib": "site", "scripts": "scripts", "data": "data", "headers": "headers"}
_AGAIN = "lock again with another version, or tell the wheel's maintainers"


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a wheel and where it goes, relative to the tree."""

    info: zipfile.ZipInfo
    path: str
    executable: bool


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a wheel holds, judged before a byte is written."""

    wheel: Path
    members: tuple[Member, ...]

    @property
    def disk_bytes(self) -> int:
        """Bytes that the tree takes on disk, in whole blocks."""
        return sum(-(-member.info.file_size // BLOCK) * BLOCK for member in self.members)


def read_inventory(wheel: Path) -> Inventory:
    """Read and judge the list of a wheel's files.

    Raises:
        ArchiveRefusedError: no wheel, damaged, or one that names a path outside its tree, a link, a
            path twice, or far more bytes than it should.
    """
    with disk_errors(wheel), _reading(wheel), zipfile.ZipFile(wheel) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    _judge_size(wheel, infos)
    tops = {info.filename.split("/", 1)[0] for info in infos if "/" in info.filename}
    dist_infos = [top for top in tops if top.endswith(".dist-info")]
    if len(dist_infos) != 1:
        raise ArchiveRefusedError(
            f"a wheel holds one .dist-info folder, this one {len(dist_infos)}", where=str(wheel), hint=_AGAIN
        )
    members = tuple(_member(wheel, info) for info in infos)
    paths: set[str] = set()
    for member in members:
        if member.path in paths:
            raise ArchiveRefusedError(f"{member.path} is there twice", where=str(wheel), hint=_AGAIN)
        paths.add(member.path)
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in paths:
                raise ArchiveRefusedError(f"{parent} is a file and a folder", where=str(wheel), hint=_AGAIN)
            parent = parent.rpartition("/")[0]
    return Inventory(wheel, members)


def unpack_wheel(inventory: Inventory, destination: Path, stop: threading.Event) -> None:
    """Unpack a wheel to `destination`, whole or not at all; one that is there already stays.

    Args:
        inventory: from `read_inventory`.
        destination: the tree; its parent is made when missing.
        stop: when set, unpacking ends soon.

    Raises:
        ArchiveRefusedError: the wheel is damaged.
        NoSpaceError: the disk is full.
        StoreError: the file system refused otherwise.
        InterruptedRunError: `stop` was set.
    """
    with disk_errors(destination), temporary_dir(destination.parent, destination.name[:16]) as tree:
        with _reading(inventory.wheel), zipfile.ZipFile(inventory.wheel) as archive:
            _write(archive, inventory.members, tree, stop)
        make_read_only(tree)
        _sync(tree)
        place_dir(tree, destination)


def make_read_only(tree: Path) -> None:
    """Take the write permission from all folders below `tree`; files are made without."""
    for folder, _, _ in os.walk(tree):
        if folder != str(tree):  # a folder that is renamed must stay writable for its owner
            os.chmod(folder, READ_ONLY_FOLDER)  # noqa: PTH101 - thousands of folders: no Path for each


def _member(wheel: Path, info: zipfile.ZipInfo) -> Member:
    mode = info.external_attr >> 16
    parts = info.filename.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\\" in info.filename or "\0" in info.filename:
        raise ArchiveRefusedError(
            f"{info.filename!r} reaches outside its root", where=str(wheel), hint=_AGAIN
        )
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise ArchiveRefusedError(
            f"{info.filename!r} is no plain file; a wheel holds no links", where=str(wheel), hint=_AGAIN
        )
    executable = bool(stat.S_ISREG(mode) and mode & 0o111)
    if len(parts) == 1 or not parts[0].endswith(".data"):
        return Member(info, f"site/{info.filename}", executable)
    bucket = _BUCKETS.get(parts[1]) if len(parts) > 2 else None  # noqa: PLR2004 - folder, bucket, file
    if bucket is None:
        known = ", ".join(_BUCKETS)
        raise ArchiveRefusedError(
            f"{info.filename!r} belongs to no known place ({known})", where=str(wheel), hint=_AGAIN
        )
    return Member(info, "/".join([bucket, *parts[2:]]), executable or bucket == "scripts")


def _judge_size(wheel: Path, infos: list[zipfile.ZipInfo]) -> None:
    total = sum(info.file_size for info in infos)
    if len(infos) > MAX_FILES:
        raise ArchiveRefusedError(f"{len(infos)} files in one wheel", where=str(wheel), hint=_AGAIN)
    if total > max(MAX_SMALL, MAX_RATIO * wheel.stat().st_size):
        raise ArchiveRefusedError(
            f"unpacks to {total} bytes, more than {MAX_RATIO} times its size", where=str(wheel), hint=_AGAIN
        )


def _write(archive: zipfile.ZipFile, members: tuple[Member, ...], tree: Path, stop: threading.Event) -> None:
    made: set[str] = set()
    for member in members:
        target = f"{tree}/{member.path}"
        folder = target.rpartition("/")[0]
        if folder not in made:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
            made.add(folder)
        mode = 0o555 if member.executable else 0o444
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with archive.open(member.info) as source, os.fdopen(descriptor, "wb", buffering=0) as sink:
            # ZipExtFile stops at the size that the list names, and checks the CRC there.
            for chunk in _chunks(source, stop):
                view = memoryview(chunk)
                while view:
                    view = view[sink.write(view) :]


def _chunks(source: IO[bytes], stop: threading.Event) -> Iterator[bytes]:
    while chunk := source.read(CHUNK):
        if stop.is_set():
            raise InterruptedRunError(2)
        yield chunk


@contextmanager
def _reading(wheel: Path) -> Iterator[None]:
    """Turn what zipfile and zlib say of damaged wheels into an error for people."""
    try:
        yield
    # RuntimeError: encrypted, or (NotImplementedError) an unknown compression.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, UnicodeError) as error:
        raise ArchiveRefusedError(
            f"the wheel is damaged: {error}",
            where=str(wheel),
            hint="delete the file; it is downloaded again",
        ) from error


def _sync(tree: Path) -> None:
    """Make the tree survive a power cut: one call for the file system instead of one a file."""
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None, use_errno=True).syncfs(descriptor)
    finally:
        os.close(descriptor)
