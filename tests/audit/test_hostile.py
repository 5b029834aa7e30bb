"""Files made to cost time or memory: each is read in proportion to its size, and told."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest
from devicefiles import container, entry, scanned
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.audit.elf import Section
from orchestrator.audit.lookup import holders
from orchestrator.audit.scan import scan
from orchestrator.audit.stream import ChunkStream, Stream

if TYPE_CHECKING:
    from orchestrator.audit.facts import FileFacts


def codes(facts: FileFacts) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in facts.findings]


ELF64 = b"\x7fELF\x02\x01\x01"


def host_elf(body: bytes, table: bytes = b"", *, before: bool = False) -> bytes:
    """Return an ELF of no machine: a table of sections in front of its body, or behind it."""
    parts = (table, body) if before else (body, table)
    at = 64 if before else 64 + len(body)
    count = len(table) // 64
    numbers = (3, 62, 1, 0, 0, at if table else 0, 0, 64, 56, 0, 64, count, min(count - 1, 1) if count else 0)
    return ELF64.ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", *numbers) + b"".join(parts)


def section_row(start: int, size: int, *, kind: int = 1, executable: bool = False) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 4 * executable, 0, start, size, 0, 0, 0, 0)


def member(content: bytes) -> bytes:
    """Return a member of an archive."""
    header = b"x/".ljust(48) + str(len(content)).encode().ljust(10) + b"`\n"
    return header + content + b"\n" * (len(content) % 2)


BOX = container(entry(2, 121))
MILLION = 1_000_000
HOSTILE = {
    "magics": b"MZ" + b"\x50\xed\x55\xba" * (MILLION // 4),
    "headers": b"\x50\xed\x55\xba\x01\x00\x10\x00" * (MILLION // 8),
    "empty containers": container() * (MILLION // 16),
    "elf magics": b"MZ" + ELF64 * (MILLION // 7),
    "both magics": b"MZ" + (ELF64 + b"\x50\xed\x55\xba") * (MILLION // 11),
    "cubin headers": b"MZ"
    + (ELF64.ljust(16, b"\0") + struct.pack("<HH", 2, 190) + bytes(40) + b"\0\0\xff\xff") * (MILLION // 64),
    "sections": host_elf(BOX * (MILLION // 96), section_row(0, MILLION * 9) * 60_000),
    "sections elsewhere": host_elf(BOX * (MILLION // 96), section_row(9 * MILLION, 1) * 60_000, before=True),
    "empty members": b"!<arch>\n" + member(b"") * (MILLION // 60),
    "tables that have passed": b"!<arch>\n"
    + member(host_elf(bytes(66_000) + BOX, section_row(64, 1, kind=3) * 2)) * 100,
    "entries": container(*[entry(2, 121, payload=b"")] * (MILLION // 64)),
    "unknown kinds": container(*[entry(9, sm, payload=b"") for sm in range(MILLION // 64)]),
}


@pytest.mark.parametrize("split", [0, 1 << 18])
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_files_take_no_time(name: str, split: int) -> None:
    content = HOSTILE[name]
    started = time.process_time()
    facts = scanned(content, split=split)
    assert time.process_time() - started < 2
    assert len(facts.findings) <= 510


def test_what_was_not_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.audit.scan._TRIES_AT_MOST", 10)
    facts = scanned(b"MZ" + b"\x50\xed\x55\xba" * 30 + BOX)
    assert ("error", "unread") in codes(facts)
    monkeypatch.setattr("orchestrator.audit.scan._CONTAINERS_AT_MOST", 10)
    facts = scanned(BOX * 30)
    assert ("error", "unread") in codes(facts)
    assert len(facts.containers) == 11


@given(
    places=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12),
    offsets=st.lists(st.integers(0, 50), unique=True, max_size=20).map(sorted),
)
def test_the_first_section_that_holds_an_offset(places: list[tuple[int, int]], offsets: list[int]) -> None:
    sections = [Section(str(n), at, at + size, executable=False) for n, (at, size) in enumerate(places)]
    expected = [next((s for s in sections if s.start <= at < s.stop), None) for at in offsets]
    assert holders(sections, offsets) == expected


def test_a_file_is_not_read_again_and_again() -> None:
    """Each of the members needs its names, which have passed; all together may cost a few times the file."""
    opened = []

    def again() -> Stream:
        opened.append(len(content))
        return ChunkStream((content[at : at + 4096] for at in range(0, len(content), 4096)), len(content))

    content = HOSTILE["tables that have passed"]
    facts = scan("x.a", again)
    assert len(facts.containers) == 100
    assert 20 < len(opened) < 60
    assert ("warning", "no-sections") in codes(facts)
