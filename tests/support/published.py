"""Members of wheels that an index has, read by ranges: a few kilobytes of half a gigabyte."""

from __future__ import annotations

import io
import urllib.request
import zipfile
from typing import TYPE_CHECKING

from orchestrator.source.index import index_config, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import WriteableBuffer


class Ranged(io.RawIOBase):
    """A file at an address, of which only what is read is downloaded."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._at = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:  # noqa: S310
            self._size = int(answer.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        asked = urllib.request.Request(self._url, headers={"Range": f"bytes={self._at}-{end - 1}"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            assert answer.status == 206, "the index serves no ranges"
            data = answer.read()
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def address(file: str) -> str:
    """Return where the index has a wheel, by its file name."""
    config = index_config()
    project = file.partition("-")[0]
    links = (link for source in config.index_urls for link in listed(project, source, config=config))
    found: Iterator[str] = (link.url for link in links if link.file == file)
    return next(found)


def members(file: str, names: tuple[str, ...], cache: Path) -> dict[str, bytes]:
    """Return members of a published wheel.

    Args:
        file: the wheel's name.
        names: of the members.
        cache: what was read is kept here.
    """
    kept = cache / "members" / file
    missing = [name for name in names if not (kept / name).is_file()]
    if missing:
        with zipfile.ZipFile(io.BufferedReader(Ranged(address(file)), 1 << 20)) as wheel:
            for name in missing:
                data = wheel.read(name)
                (kept / name).parent.mkdir(parents=True, exist_ok=True)
                (kept / name).write_bytes(data)
    return {name: (kept / name).read_bytes() for name in names}
