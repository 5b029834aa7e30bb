"""Streams: the same bytes, however they come."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.audit.stream import BLOCK, ELF64_MAGIC, FATBIN_MAGIC, ChunkStream, MappedStream, Stream


def both(content: bytes, split: int) -> list[Stream]:
    parts = [content[at : at + split] for at in range(0, len(content), split)]
    return [MappedStream(content), ChunkStream(iter([b"", *parts, b""]), len(content))]


def places(stream: Stream, stop: int) -> list[int]:
    found = []
    while stream.find_magic(stop):
        found.append(stream.pos)
        stream.skip(1)
    return found


@given(
    st.lists(st.sampled_from([FATBIN_MAGIC, ELF64_MAGIC, b"x", b"\x50", b"\x7fELF", b"\0" * 9])),
    st.integers(1, 9),
)
def test_every_magic_is_found(parts: list[bytes], split: int) -> None:
    content = b"".join(parts)
    expected = [at for at in range(len(content)) if content.startswith((FATBIN_MAGIC, ELF64_MAGIC), at)]
    for stop in (len(content), len(content) // 2):
        for stream in both(content, split):
            assert places(stream, stop) == [at for at in expected if at < stop]
            assert stream.pos == stop


def test_across_blocks() -> None:
    for shift in range(-4, 2):
        content = bytes(BLOCK + shift) + FATBIN_MAGIC + bytes(BLOCK)
        for stream in both(content, 1 << 16):
            assert places(stream, len(content)) == [BLOCK + shift]


def test_many_of_one_magic_before_one_of_the_other_take_no_time() -> None:
    """Seconds, when each find looks again for the magic that comes late."""
    content = (ELF64_MAGIC * 40_000).ljust(BLOCK - 4, b"\0") + FATBIN_MAGIC
    for stream in both(content, BLOCK):
        started = time.process_time()
        assert len(places(stream, len(content))) == 40_001
        assert time.process_time() - started < 2


def test_several_ranges_are_kept_until_they_are_forgotten() -> None:
    for stream in both(bytes(range(200)), 7):
        stream.skip(10)
        stream.remember(10, 30)
        stream.remember(20, 60)
        stream.remember(150, 151)
        stream.skip(100)
        assert stream.recall(12, 30) == bytes(range(12, 30))
        assert stream.recall(25, 60) == bytes(range(25, 60))
        stream.skip(100)
        assert stream.recall(150, 151) == b"\x96"
    assert stream.recall(12, 40) is None
    stream.forget()
    assert stream.recall(12, 30) is None


@given(st.binary(max_size=60), st.lists(st.tuples(st.booleans(), st.integers(0, 20))), st.integers(1, 9))
def test_peek_and_skip(content: bytes, steps: list[tuple[bool, int]], split: int) -> None:
    mapped, chunked = both(content, split)
    for peek, count in steps:
        if peek:
            assert mapped.peek(count) == chunked.peek(count)
        else:
            assert mapped.skip(count) == chunked.skip(count)
        assert mapped.pos == chunked.pos


@given(
    st.binary(min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 9),
    st.integers(0, 9),
)
def test_recall(content: bytes, start: int, length: int, split: int, peeked: int) -> None:
    stop = min(start + length, len(content))
    for stream in both(content, split):
        stream.peek(peeked)
        stream.remember(start, stop)
        stream.skip(len(content))
        if start <= stop:
            assert stream.recall(start, stop) == content[start:stop]
    assert ChunkStream(iter([content]), len(content)).recall(0, 1) is None


def test_fewer_bytes_than_declared() -> None:
    stream = ChunkStream(iter([b"abc"]), 100)
    assert stream.peek(10) == b"abc"
    assert not stream.find_magic(100)
    assert stream.pos == 3
    assert stream.skip(5) == 0
