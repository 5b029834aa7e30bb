"""The bytes of an image as they were before fatbinary compressed them.

ZSTD frames since CUDA 12.8, LZ4 blocks before; `zstandard` and `lz4` are imported when the first one
comes. Sizes are claims of a stranger's file, so each is checked before memory is taken.
"""

from __future__ import annotations

FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
AT_MOST = 144 << 20
"""Bytes of one unpacked image; the largest seen have 62 MiB (vLLM), and 127 with line tables."""
_TOGETHER = 176 << 20
"""Bytes of an unpacked image, and twice what is stored: it is there once more while it is cut out."""
_RATIO = 64
"""Images of whole libraries unpack to 16 times their size."""
_SPARE = 256 << 20


class Unpacker:
    """Unpacks the images of one file, within a budget that follows from the file's size."""

    def __init__(self, file_size: int) -> None:
        self._left = file_size * _RATIO + _SPARE

    def unpack(self, payload: bytes | memoryview, flags: int, size: int) -> bytes | str:
        """Return the bytes of an image, or a sentence that says why they cannot be had.

        Args:
            payload: as stored, without padding.
            flags: of the entry; they name the compression.
            size: bytes that it claims to have when unpacked.
        """
        if not flags & (FLAG_LZ4 | FLAG_ZSTD):
            return bytes(payload)
        if size > AT_MOST:
            return f"it unpacks to {size >> 20:,} MiB, and at most {AT_MOST >> 20} are read"
        if size + 2 * len(payload) > _TOGETHER:
            return f"with {len(payload) >> 20:,} MiB it is too large to be unpacked to {size >> 20:,} MiB"
        self._left -= size
        if self._left < 0:
            return "the images of the file unpack to far more than its size lets expect"
        return _zstd(payload, size) if flags & FLAG_ZSTD else _lz4(payload, size)


def _zstd(payload: bytes | memoryview, size: int) -> bytes | str:
    try:
        import zstandard
    except ImportError:
        return "the package zstandard is not installed"
    try:
        told = zstandard.frame_content_size(payload)
        if told not in (-1, size):
            return f"its ZSTD frame holds {told:,} bytes, its header says {size:,}"
        data: bytes = zstandard.ZstdDecompressor().decompress(payload, max_output_size=size)
    except zstandard.ZstdError as error:
        return f"it cannot be decompressed: {error}"
    return data if len(data) == size else f"it unpacks to {len(data):,} bytes, its header says {size:,}"


def _lz4(payload: bytes | memoryview, size: int) -> bytes | str:
    try:
        import lz4.block
    except ImportError:
        return "the package lz4 is not installed"
    try:
        data: bytes = lz4.block.decompress(payload, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        return f"it cannot be decompressed: {error}"
    return data if len(data) == size else f"it unpacks to {len(data):,} bytes, its header says {size:,}"
