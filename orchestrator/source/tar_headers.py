"""Bounds what tar headers make Python's tarfile read into memory, before it reads it.

A long name (GNU types L and K) or extended header (PAX types x, g and X) may claim any size; tarfile reads
it whole, and a chain of them by recursion. (POSIX.1-2024, pax; GNU tar manual, "Basic Tar Format".)
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Final

from orchestrator.source.archive_judge import refused

if TYPE_CHECKING:
    from typing import Self

LARGEST: Final = 1 << 20
"""Bytes of one such header; real ones have a few hundred."""
ALL: Final = 256 << 20
"""Bytes of all of them in an archive."""
_LONGEST_CHAIN: Final = 8
"""Of such headers before an entry: K, L, x and g, each once, are usual."""
_READ_WHOLE: Final = frozenset(
    {
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    }
)


def bounded() -> type[tarfile.TarInfo]:
    """Return a class for `tarfile.open(tarinfo=…)`, for one reading of one archive.

    Reading with it raises ArchiveRefusedError for headers that are too large, too many, or sparse.
    """

    class Header(tarfile.TarInfo):
        chain = 0
        total = 0

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            made = super().frombuf(buf, encoding, errors)
            if made.type == tarfile.GNUTYPE_SPARSE:  # its map may go on for ever
                raise refused(f"{made.name!r} is a sparse file")
            Header.chain = Header.chain + 1 if made.type in _READ_WHOLE else 0
            if not Header.chain:
                return made
            Header.total += made.size
            if made.size > LARGEST:
                raise refused(f"a header of {made.size} bytes, more than {LARGEST}")
            if Header.total > ALL or Header.chain > _LONGEST_CHAIN:
                raise refused("more headers than an archive of sources has")
            return made

    return Header
