"""`dist/<stack>/`: the wheels that a run hands out, and the PEP 503 index over them.

The folder is an output: what a run wrote there is listed in `sparkbuild.json`, by component and
target, so that the next run replaces exactly its own files and a no-op run compares stats only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import html
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec

from orchestrator.errors import StoreError, UsageError
from orchestrator.store.atomic import disk_error, disk_errors, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LIST = "sparkbuild.json"


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wheel in the folder."""

    file: str
    sha256: str
    size: int
    mtime_ns: int
    inode: int


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the folder holds: `<component> <target>` -> wheels."""

    schema: Literal["sparkbuild.dist/1"] = "sparkbuild.dist/1"
    entries: dict[str, tuple[Served, ...]] = {}


def entry_name(component: str, target: str) -> str:
    """Return the name under which a component's wheels for one target are listed."""
    return f"{component} {target}"


def read_listing(folder: Path) -> Listing:
    """Return what the folder says it holds; a listing that cannot be read counts as empty."""
    try:
        return msgspec.json.decode((folder / _LIST).read_bytes(), type=Listing)
    except (OSError, msgspec.DecodeError):
        return Listing()


def is_current(folder: Path, listing: Listing, entry: str, wheels: Mapping[str, str]) -> bool:
    """Return whether the folder already serves these wheels (file name -> sha256), by stat alone."""
    served = listing.entries.get(entry, ())
    if {item.file: item.sha256 for item in served} != dict(wheels):
        return False
    return all(_unchanged(folder, item) for item in served) and (folder / "simple" / "index.html").exists()


def _unchanged(folder: Path, item: Served) -> bool:
    try:
        stat = (folder / item.file).stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns, stat.st_ino) == (item.size, item.mtime_ns, item.inode)


def publish(
    folder: Path, entries: Mapping[str, Mapping[Path, str]], withdrawn: Sequence[str] = ()
) -> Listing:
    """Put wheels into the folder, take out those that they replace, and write the index.

    Args:
        folder: `dist/<stack>`.
        entries: entry name -> wheels and their sha256, verified by the caller just before.
        withdrawn: entries whose wheels are no longer served.

    Returns:
        The new listing. Files that no run listed are left alone.

    Raises:
        UsageError: the folder is a file, or its index a link.
        NoSpaceError, StoreError: it cannot be written.
    """
    check_folder(folder)
    with disk_errors(folder), _alone(folder):
        old = read_listing(folder)
        kept = {
            name: wheels
            for name, wheels in old.entries.items()
            if name not in entries and name not in withdrawn
        }
        new = kept | {
            name: tuple(_place(folder, wheel, digest) for wheel, digest in wheels.items())
            for name, wheels in entries.items()
        }
        listing = Listing(entries=dict(sorted(new.items())))
        _write_index(folder / "simple", listing, former=old)
        write_bytes(folder / _LIST, msgspec.json.format(msgspec.json.encode(listing), indent=1) + b"\n")
        live = _files(listing)
        for name in _files(old) - live:
            (folder / name).unlink(missing_ok=True)
    return listing


def check_folder(folder: Path) -> None:
    """Make the folder, and see that an index can be written into it; nothing else is touched.

    Raises:
        UsageError: it is a file, or its index would go through a link to somewhere else.
        StoreError: it cannot be written.
    """
    simple = folder / "simple"
    for place in (folder, simple):
        if place.exists() and not place.is_dir():
            raise UsageError(f"{place} is no folder", hint="name another one with --dist")
    if simple.is_symlink():
        raise UsageError(
            f"{simple} is a link, and the index is not written through links",
            hint="remove the link, or name another folder with --dist",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise disk_error(error, folder) from error
        text = f"the folder for wheels cannot be written: {(error.strerror or str(error)).lower()}"
        raise StoreError(
            text, where=str(error.filename or folder), hint="name another with --dist"
        ) from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other runs from writing the listing meanwhile; a killed one's lock is gone with it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _files(listing: Listing) -> set[str]:
    """Return the files that a listing names; it lies where anybody may have written, so plain names only."""
    names = {item.file for wheels in listing.entries.values() for item in wheels}
    return {name for name in names if name == Path(name).name and not name.startswith(".")}


def _place(folder: Path, wheel: Path, digest: str) -> Served:
    """Copy one wheel in; a copy, not a link, so that nobody's edit here reaches the store."""
    temporary = folder / f".{wheel.name}.{os.getpid()}.part"
    try:
        shutil.copyfile(wheel, temporary)
        temporary.replace(folder / wheel.name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    stat = (folder / wheel.name).stat()
    return Served(
        file=wheel.name, sha256=digest, size=stat.st_size, mtime_ns=stat.st_mtime_ns, inode=stat.st_ino
    )


def _write_index(simple: Path, listing: Listing, *, former: Listing) -> None:
    """Write the pages of the index (PEP 503), and remove the pages of projects that are no longer served.

    Only what a former listing names is removed, page by page: whatever else lies there is somebody's.
    """
    projects = _projects(listing)
    simple.mkdir(exist_ok=True)
    for project, files in projects.items():
        links = [
            f'<a href="../../{quote(name)}#sha256={item.sha256}">{html.escape(name)}</a>'
            for name, item in sorted(files.items())
        ]
        page = simple / project
        if page.is_symlink():
            page.unlink()
        page.mkdir(exist_ok=True)
        write_bytes(page / "index.html", _page(f"Links for {html.escape(project)}", links))
    for project in _projects(former).keys() - projects.keys():
        page = simple / project
        if not page.is_symlink():
            (page / "index.html").unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # something else lies in it
                page.rmdir()
    names = [f'<a href="{quote(name)}/">{html.escape(name)}</a>' for name in sorted(projects)]
    write_bytes(simple / "index.html", _page("Simple index", names))


def _projects(listing: Listing) -> dict[str, dict[str, Served]]:
    from packaging.utils import canonicalize_name

    found: dict[str, dict[str, Served]] = {}
    plain = _files(listing)
    for wheels in listing.entries.values():
        for item in wheels:
            if item.file in plain and item.file.endswith(".whl"):
                project = canonicalize_name(item.file.split("-")[0])
                found.setdefault(project, {})[item.file] = item
    return found


def _page(title: str, links: Sequence[str]) -> bytes:
    lines = [
        "<!DOCTYPE html>",
        '<html><head><meta name="pypi:repository-version" content="1.0">',
        f"<title>{title}</title></head><body>",
        *(f"{link}<br>" for link in links),
        "</body></html>",
    ]
    return "\n".join(lines).encode() + b"\n"
