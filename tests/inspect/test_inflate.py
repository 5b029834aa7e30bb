"""Every implementation of deflate that is installed does the same."""

from __future__ import annotations

import random
import zlib

import pytest

from orchestrator.inspect.inflate import Codec, codec, codecs

CODECS = list(codecs())
CONTENT = random.Random(1).randbytes(5000) + bytes(2 << 20) + b"the end" * 9000


def packed(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


def inflated(one: Codec, data: bytes, step: int, most: int) -> tuple[bytes, bool]:
    """Inflate as `WheelFile` does: pieces of `step` bytes in, at most `most` out at a time."""
    inflater, parts = one.inflater(), []
    for at in range(0, len(data), step):
        rest = data[at : at + step]
        while rest:
            parts.append(inflater.decompress(rest, most))
            assert len(parts[-1]) <= most
            rest = inflater.unconsumed_tail
    while more := inflater.decompress(inflater.unconsumed_tail, most):
        parts.append(more)
    return b"".join(parts), inflater.eof


def test_zlib_is_always_there_and_comes_last() -> None:
    assert CODECS[-1].name == "zlib"
    assert codec().name == CODECS[0].name


@pytest.mark.parametrize("one", CODECS, ids=lambda one: one.name)
@pytest.mark.parametrize(("step", "most"), [(100, 1 << 18), (1 << 16, 1000), (1 << 18, 1 << 18), (1, 7777)])
def test_inflating(one: Codec, step: int, most: int) -> None:
    data = packed(CONTENT)
    assert inflated(one, data, step, most) == (CONTENT, True)
    assert inflated(one, data[:-9], step, most)[1] is False


@pytest.mark.parametrize("one", CODECS, ids=lambda one: one.name)
def test_what_cannot_be_inflated(one: Codec) -> None:
    with pytest.raises(one.error):
        one.inflater().decompress(b"\xff" * 100, 1000)


@pytest.mark.parametrize("one", CODECS, ids=lambda one: one.name)
def test_checksums(one: Codec) -> None:
    assert one.crc32(CONTENT[7:], one.crc32(CONTENT[:7], 0)) == zlib.crc32(CONTENT)
