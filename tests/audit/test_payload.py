"""Images unpacked: as fatbinary compressed them, and as strangers might."""

from __future__ import annotations

import lz4.block
import pytest
import zstandard

from orchestrator.audit import payload
from orchestrator.audit.payload import AT_MOST, FLAG_LZ4, FLAG_ZSTD, Unpacker

TEXT = b".version 9.0\n.target sm_121a\n" * 100
ZSTD = zstandard.ZstdCompressor().compress(TEXT)
LZ4 = lz4.block.compress(TEXT, store_size=False)
SIZE = len(TEXT)


@pytest.mark.parametrize(("data", "flags"), [(ZSTD, FLAG_ZSTD), (LZ4, FLAG_LZ4), (TEXT, 0x11)])
def test_unpack(data: bytes, flags: int) -> None:
    assert Unpacker(len(data)).unpack(data, flags, SIZE) == TEXT


def test_a_frame_that_does_not_tell_its_size() -> None:
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert Unpacker(0).unpack(silent, FLAG_ZSTD, SIZE) == TEXT


@pytest.mark.parametrize(
    ("data", "flags", "size", "said"),
    [
        (ZSTD, FLAG_ZSTD, SIZE + 1, "its header says 2,901"),
        (ZSTD[:-3], FLAG_ZSTD, SIZE, "cannot be decompressed"),
        (b"noise", FLAG_ZSTD, SIZE, "cannot be decompressed"),
        (ZSTD, FLAG_LZ4, SIZE, "cannot be decompressed"),
        (LZ4, FLAG_LZ4, SIZE - 1, "cannot be decompressed"),
        (LZ4, FLAG_LZ4, SIZE + 1, "it unpacks to 2,900 bytes"),
        (LZ4[:-3], FLAG_LZ4, SIZE, "cannot be decompressed"),
        (b"", FLAG_LZ4, SIZE, "cannot be decompressed"),
        (ZSTD, FLAG_ZSTD, AT_MOST + 1, "at most 144 are read"),
        (LZ4, FLAG_LZ4, 1 << 63, "at most 144 are read"),
    ],
)
def test_what_lies(data: bytes, flags: int, size: int, said: str) -> None:
    found = Unpacker(len(data)).unpack(data, flags, size)
    assert isinstance(found, str)
    assert said in found


def test_a_frame_that_holds_more_than_it_says() -> None:
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert isinstance(Unpacker(0).unpack(silent, FLAG_ZSTD, SIZE - 1), str)


def test_all_images_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "_SPARE", 0)
    unpacker = Unpacker(SIZE // 16)
    found = [unpacker.unpack(ZSTD, FLAG_ZSTD, SIZE) for _ in range(5)]
    assert [isinstance(data, bytes) for data in found] == [True, True, True, False, False]
    assert found[-1] == "the images of the file unpack to far more than its size lets expect"
