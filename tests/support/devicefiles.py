"""Binaries with device code: those in tests/data/device, and ones put together byte by byte."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.audit.scan import scan
from orchestrator.audit.stream import ChunkStream, MappedStream

if TYPE_CHECKING:
    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.stream import Stream

FOLDER = Path(__file__).parents[1] / "data" / "device"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")


def data(name: str) -> bytes:
    """Return the bytes of one of the committed binaries."""
    return (FOLDER / name).read_bytes()


def scanned(content: bytes, path: str = "x.so", *, split: int = 0) -> FileFacts:
    """Scan bytes: mapped, or in chunks of `split`."""

    def opened() -> Stream:
        if not split:
            return MappedStream(content)
        parts = (content[at : at + split] for at in range(0, len(content), split))
        return ChunkStream(parts, len(content))

    return scan(path, opened)


def scanned_in(content: bytes, cuts: list[int], path: str = "x.so") -> FileFacts:
    """Scan bytes that come in chunks which end at `cuts`."""
    edges = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]

    def opened() -> Stream:
        return ChunkStream((content[start:stop] for start, stop in pairwise(edges)), len(content))

    return scan(path, opened)


def kernels_of(content: bytes) -> list[dict[str, str | None]]:
    """Return the kernels of each image of a file, in order: name, and what one without work comes to."""
    facts = scan("x.so", lambda: MappedStream(content), inside=True)
    codes = [*(code for box in facts.containers for code in box.codes), *facts.cubin_codes]
    return [{kernel.name: kernel.hollow for kernel in code.kernels} for code in codes if code is not None]


def entry(
    kind: int,
    sm: int,
    *,
    flags: int = 0x11,
    payload: bytes = b"\0" * 16,
    options: bytes = b"",
    mark: int = 0x0101,
) -> bytes:
    """Return one fatbin entry."""
    extra = b""
    if options:
        text = options + b"\0" * (8 - len(options) % 8)
        extra = struct.pack("<II", 72, len(options)) + text
    header = ENTRY.pack(
        kind, mark, 64 + len(extra), len(payload), 0, 64 if extra else 0, 0, 9, sm, 0, 0, flags, 0, 0
    )
    return header + extra + payload


def container(*entries: bytes) -> bytes:
    """Return a fatbin of these entries."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def concat(*images: tuple[int, int, int], count: int | None = None) -> bytes:
    """Return the entry of a group: each image is kind, sm, flags. The payload is noise, as if compressed."""
    subs = b""
    for number, (kind, sm, flags) in enumerate(images):
        name = b"idptx\0\0\0" if number % 2 else b""
        options = struct.pack("<II", 72 + len(name), 3) + b"-O3\0\0\0\0\0" if kind == 1 else b""
        subs += ENTRY.pack(
            *(kind, 0x0101, 4096 * number, 4096, 0, 64 + len(name) if options else 0, 0, 9, sm),
            *(64 if name else 0, 5 if name else 0, flags, 0, 0),
        )
        subs += name + options
    table = struct.pack("<II", len(images) if count is None else count, 8 + len(subs)) + subs
    payload = b"\x28\xb5\x2f\xfd noise, compressed".ljust(64, b"\0")
    header = ENTRY.pack(0x100, 0x0101, 64 + len(table), len(payload), 60, 64, 1, 0, 0, 0, 0, 0x8011, 0, 9000)
    return header + table + payload
