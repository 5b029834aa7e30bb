"""Wheels as strangers might forge them: refused, or told, before they cost anything."""

from __future__ import annotations

import random
import struct
import time
import zipfile
from typing import TYPE_CHECKING

import pytest
from devicefiles import data

from orchestrator.audit.question import Question
from orchestrator.errors import SpecError
from orchestrator.inspect import zipped
from orchestrator.inspect.inflate import codecs
from orchestrator.inspect.wheel import read_wheels
from orchestrator.inspect.zipped import Damage, WheelFile
from orchestrator.model.archvalues import Device

QUESTION = Question(devices=(Device(12, 1),))

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.inspect.inflate import Codec

NAME = "x-1.0-py3-none-any.whl"


def wheel(folder: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / NAME
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def changed(path: Path, changes: dict[int, bytes]) -> Path:
    content = bytearray(path.read_bytes())
    for at, value in changes.items():
        content[at : at + len(value)] = value
    path.write_bytes(content)
    return path


def entries(path: Path) -> list[int]:
    """Return where the entries of the central directory begin."""
    content, found, at = path.read_bytes(), [], 0
    while (at := content.find(b"PK\x01\x02", at)) >= 0:
        found.append(at)
        at += 46
    return found


def codes(path: Path) -> set[str]:
    facts, _, findings = read_wheels([path], QUESTION)
    found = {finding.code for finding in (*findings, *(f for file in facts for f in file.findings))}
    return found - {"no-metadata"}  # these archives hold what is looked at


def all_of(opened: WheelFile, number: int = 0) -> tuple[bytes, str]:
    damage = Damage()
    return b"".join(opened.chunks(opened.members[number], damage)), damage.text


@pytest.mark.parametrize("one", list(codecs()), ids=lambda one: one.name)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_byte_of_every_size(tmp_path: Path, one: Codec, method: int) -> None:
    generator = random.Random(7)
    sizes = (0, 1, 1000, 1 << 10, 70_000, 1 << 18, (1 << 18) + 1, 900_000)
    members = {f"{size}.so": generator.randbytes(size // 2) + bytes(size - size // 2) for size in sizes}
    with WheelFile(wheel(tmp_path, members, method)) as opened:
        opened._codec = one
        for number, (name, content) in enumerate(members.items()):
            assert opened.members[number].filename == name
            assert all_of(opened, number) == (content, "")
        both = [opened.stream(info, Damage()) for info in opened.members[-2:]]
        for at in range(0, 250_000, 50_000):  # side by side
            for stream, content in zip(both, list(members.values())[-2:], strict=True):
                assert stream.peek(50_000) == content[at : at + 50_000]
                stream.skip(50_000)


def test_members_that_unpack_to_far_more_than_the_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipped, "_SPARE", 0)
    path = wheel(tmp_path, {f"{number}.so": data("magic.so") + bytes(4 << 20) for number in range(9)})
    with pytest.raises(SpecError) as caught:
        read_wheels([path], QUESTION)
    assert "unpack to more than" in caught.value.message
    assert caught.value.hint


def test_members_that_share_bytes_are_not_read(tmp_path: Path) -> None:
    """As in bombs that unpack the same bytes for each of thousands of members (Fifield, 2019)."""
    path = wheel(tmp_path, {f"{number}.so": data("native.so") for number in range(5)})
    first, *others = entries(path)
    shared = path.read_bytes()[first + 42 : first + 46]
    changed(path, {at + 42: shared for at in others[:-1]})
    facts, _, findings = read_wheels([path], QUESTION)
    assert {finding.code for finding in findings} == {"overlap", "no-metadata"}
    assert [bool(file.containers) for file in facts] == [False] * 4 + [True]
    assert "shares bytes" in facts[0].findings[0].text


def test_a_long_member_may_share_bytes_with_more_than_the_next(tmp_path: Path) -> None:
    path = wheel(tmp_path, {name: data("native.so") for name in ("a.so", "b.so", "c.so")})
    changed(path, {entries(path)[0] + 20: struct.pack("<I", 1 << 20)})
    with WheelFile(path) as opened:
        texts = [finding.text for finding in opened.findings()]
    assert texts == ["a.so and b.so share bytes", "a.so and c.so share bytes"]


def test_a_table_of_contents_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheel(tmp_path, {f"{number}.py": b"" for number in range(30)})
    monkeypatch.setattr(zipped, "_MEMBERS_AT_MOST", 29)
    with pytest.raises(SpecError, match="more than 29 members"):
        WheelFile(path)
    monkeypatch.setattr(zipped, "_DIRECTORY_AT_MOST", 1000)
    with pytest.raises(SpecError, match="table of contents has"):
        WheelFile(path)


def test_millions_of_members(tmp_path: Path) -> None:
    path = tmp_path / NAME
    one = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *[20] * 6, *[0] * 10)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65_535, 65_535, 500_000 * len(one), 0, 0)
    path.write_bytes(one * 500_000 + end)
    started = time.process_time()
    with pytest.raises(SpecError):
        WheelFile(path)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("../evil.so", True),
        ("pkg/../../evil.so", True),
        ("/etc/evil.so", True),
        ("pkg\\evil.so", True),
        ("pkg/nul\0.so", True),
        ("pkg/..so", False),
        ("pkg/ünïcode-名.so", False),
    ],
)
def test_names(tmp_path: Path, name: str, odd: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    path = tmp_path / NAME
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, data("native.so"))
    assert codes(path) == ({"odd-name"} if odd else set())


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (8, b"\x01\x00", "encrypted"),
        (10, b"\x63\x00", "compression method 99"),
        (20, b"\xff\xff\xff\x7f", "shares bytes"),
        (24, b"\xfe\xff\xff\xff", "less than declared"),
        (42, b"\xf0\xff\xff\x7f", "local header"),
    ],
)
def test_entries_that_lie(tmp_path: Path, field: int, value: bytes, said: str) -> None:
    path = wheel(tmp_path, {"a.so": data("native.so"), "b.so": data("plain.o")})
    changed(path, {entries(path)[0] + field: value})
    with WheelFile(path) as opened:
        assert said in all_of(opened)[1]


@pytest.mark.parametrize("offset", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_zip64_offsets_that_lie(tmp_path: Path, offset: int) -> None:
    path = wheel(tmp_path, {"aaaaaaaaaaaa": b"x" * 100})
    (entry,) = entries(path)
    # the name makes room for a zip64 field with the offset alone
    extra = struct.pack("<HHQ", 1, 8, offset)
    changed(path, {entry + 28: struct.pack("<HH", 0, 12), entry + 42: b"\xff" * 4, entry + 46: extra})
    assert codes(path) == {"damaged-member"}


def test_bytes_before_the_archive_and_a_comment(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a.so": data("native.so")})
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\x05\x06" + b"c" * 100
    with pytest.raises(SpecError):  # two ends, of which one is none
        read_wheels([path], QUESTION)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.so", data("native.so"))
        archive.comment = b"c" * 60_000
    path.write_bytes(b"#!/bin/sh\n" * 100 + path.read_bytes())
    facts, _, _ = read_wheels([path], QUESTION)
    assert len(facts[0].containers) == 2


def test_many_findings_are_counted(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"../{number}": b"" for number in range(100)})
    with WheelFile(path) as opened:
        found = opened.findings()
    assert len(found) == 21
    assert found[-1].text == "and 80 more"


def test_only_the_beginning_of_text_is_read(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a.py": b"import os\n" * 100_000, "b.so": data("native.so")})
    with WheelFile(path) as opened:
        before = opened._left
        assert opened.head(opened.members[0], Damage(), 100).startswith(b"import")
        assert before - opened._left <= 1024


def test_device_code_whatever_the_name(tmp_path: Path) -> None:
    facts, _, _ = read_wheels(
        [wheel(tmp_path, {"a.py": data("native.so"), "b.txt": data("size.fatbin")})], QUESTION
    )
    assert [len(file.containers) for file in facts] == [2, 1]
