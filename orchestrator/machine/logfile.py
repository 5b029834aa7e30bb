"""What is given as a log, made ready to read: its encoding, and whether it is text at all."""

from __future__ import annotations

import codecs
import io
import os
import stat
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

_PROBE: Final = 1 << 16
"""Bytes at the begin that tell what it is."""
_STANDARD_INPUT: Final = "/dev/stdin"
_MAGICS: Final = (
    b"PK\x03\x04",  # zip: wheels
    b"\x7fELF",
    b"!<arch>\n",
    b"\x1f\x8b",  # gzip
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\xfd7zXZ\x00",
    b"BZh",
)
_CONTROLS: Final = bytes(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b"))
"""Bytes that text, even coloured one, does not hold."""
_MOST_CONTROLS: Final = 0.03
"""Their share in what passes for text; in random bytes it is 0.09. Source: 24 of 256."""
_BOMS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class _Source(io.RawIOBase):
    """A stream whose begin was read already, as UTF-8 where it is UTF-16."""

    def __init__(self, head: bytes, stream: IO[bytes], encoding: str | None) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
        self._ready = self._recoded(head)
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        while not self._ready and not self._ended:
            block = self._stream.read(_PROBE)
            self._ended = not block
            self._ready = self._recoded(block)
        part, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(part)] = part
        return len(part)

    def _recoded(self, block: bytes) -> bytes:
        if self._decoder is None:
            return block
        return self._decoder.decode(block, final=not block).encode("utf-8", "replace")


def is_binary(head: bytes) -> bool:
    """Say whether the begin of a file is that of no text."""
    # A log that was cut while a program wrote to it begins with zeros.
    text = head.lstrip(b"\0")
    if not text:
        return bool(head)
    return (
        head.startswith(_MAGICS)
        or len(text) - len(text.translate(None, _CONTROLS)) > len(text) * _MOST_CONTROLS
    )


def as_log(stream: IO[bytes], name: str) -> IO[bytes]:
    """Return the stream as UTF-8, or in whatever else is no UTF-16, without a byte order mark.

    Raises:
        UsageError: it is no text. `name` says what it is.
        OSError: it cannot be read.
    """
    from orchestrator.errors import UsageError

    head = stream.read(_PROBE)
    encoding = _BOMS.get(head[:2])
    if encoding is None and is_binary(head):
        raise UsageError(
            f"{name} is no log (it is binary)",
            hint="`sparkbuild audit FILE` reads wheels and libraries; unpack a log that is packed first",
        )
    head = head[2:] if encoding else head.removeprefix(codecs.BOM_UTF8)
    return io.BufferedReader(_Source(head, stream, encoding), _PROBE)


def is_endless(path: Path) -> bool:
    """Say whether a path is a device that is neither a terminal nor standard input: it may never end.

    Raises:
        OSError: there is no such file.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) or str(path) == _STANDARD_INPUT:
        return False
    if stat.S_ISBLK(mode):
        return True
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return not os.isatty(opened)
    finally:
        os.close(opened)
