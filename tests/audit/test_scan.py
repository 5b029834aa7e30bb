"""What is found in files: real ones, cut ones, odd ones."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from devicefiles import EXPECTED, concat, container, data, entry, scanned, scanned_in
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.audit.facts import FileFacts, Kind
from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.audit.scan import recognize
from orchestrator.model.archvalues import Device

SPARK = Device(12, 1)
E_SHOFF, E_SHNUM, E_SHSTRNDX = 0x28, 0x3C, 0x3E


def held(facts: FileFacts) -> dict[str, Any]:
    """Return what a file holds in the terms of expected.json."""
    spec = judge_spec(facts.path, [facts], Question(devices=(SPARK,)), files=[facts.path])
    module = spec.devices[0].modules[0]
    counts = module.counts.to_json()
    del counts["total"]
    images = {name: many for kind in module.images.values() for name, many in kind.items()}
    return {"containers": counts, "images": images, "relocatable": dict(module.relocatable)}


def codes(facts: FileFacts) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in facts.findings]


@pytest.mark.parametrize("split", [0, 1000, 7])
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_files(name: str, split: int) -> None:
    facts = scanned(data(name), name, split=split)
    assert facts.findings == ()
    if "cubin" in EXPECTED[name]:
        assert [image.name for image in facts.cubins] == [EXPECTED[name]["cubin"]]
        assert facts.cubins[0].linkable == name.startswith("rel.")
    else:
        assert held(facts) == EXPECTED[name]


@given(cuts=st.lists(st.integers(0, 1 << 20), max_size=12), name=st.sampled_from(sorted(EXPECTED)))
@settings(max_examples=150, deadline=None)
def test_chunks_make_no_difference(name: str, cuts: list[int]) -> None:
    assert scanned_in(data(name), cuts) == scanned(data(name))


@pytest.mark.parametrize("name", ["native.so", "family.so", "linked.so", "array.so"])
def test_without_section_headers(name: str) -> None:
    content = bytearray(data(name))
    struct.pack_into("<Q", content, E_SHOFF, 0)
    struct.pack_into("<HH", content, E_SHNUM, 0, 0)
    facts = scanned(bytes(content))
    assert held(facts) == EXPECTED[name]
    assert codes(facts) == [("warning", "no-sections")]


@pytest.mark.parametrize("split", [0, 4096])
def test_section_names_far_from_their_table(split: int) -> None:
    content = bytearray(data("linked.so"))
    (table,) = struct.unpack_from("<Q", content, E_SHOFF)
    moved = content + bytes(200_000 - len(content) % 8) + content[table:]
    struct.pack_into("<Q", moved, E_SHOFF, len(moved) - len(content[table:]))
    moved[table : len(content)] = bytes(len(content) - table)
    facts = scanned(bytes(moved), split=split)
    assert held(facts) == EXPECTED["linked.so"]
    assert {box.section for box in facts.containers} == {".nv_fatbin", "__nv_relfatbin"}


def test_more_sections_than_the_header_can_count() -> None:
    content = bytearray(data("linked.so"))
    (table,) = struct.unpack_from("<Q", content, E_SHOFF)
    count, names = struct.unpack_from("<HH", content, E_SHNUM)
    struct.pack_into("<HH", content, E_SHNUM, 0, 0xFFFF)
    struct.pack_into("<Q", content, table + 32, count)
    struct.pack_into("<I", content, table + 40, names)
    facts = scanned(bytes(content))
    assert {box.section for box in facts.containers} == {".nv_fatbin", "__nv_relfatbin"}


def test_the_magic_in_code_is_no_device_code() -> None:
    assert b"\x50\xed\x55\xba" in data("magic.so")
    facts = scanned(data("magic.so"))
    assert not facts.has_device_code
    assert facts.findings == ()


def test_a_whole_header_in_code_counts_only_where_no_section_tells() -> None:
    content = bytearray(data("magic.so"))
    at = content.index(b"\x50\xed\x55\xba")
    content[at : at + 8] = b"\x50\xed\x55\xba\x01\x00\x10\x00"  # as in a 64-bit immediate
    assert scanned(bytes(content)).findings == ()
    struct.pack_into("<Q", content, E_SHOFF, 0)
    assert ("error", "broken-container") in codes(scanned(bytes(content)))


def test_the_magic_in_data_is_a_warning() -> None:
    content = bytearray(data("array.so"))
    at = content.index(b"\x50\xed\x55\xba")
    content[at + 4] = 9
    facts = scanned(bytes(content))
    assert codes(facts)[0] == ("warning", "odd-magic")
    assert "version 9" in facts.findings[0].text


def test_a_future_version_in_the_usual_section_is_an_error() -> None:
    content = bytearray(data("native.so"))
    content[content.index(b"\x50\xed\x55\xba") + 4] = 2
    facts = scanned(bytes(content))
    assert ("error", "broken-container") in codes(facts)
    assert held(facts)["containers"]["exact"] == 1


def test_a_broken_container_takes_the_verdict_with_it() -> None:
    content = bytearray(data("native.so"))
    at = content.index(b"\x50\xed\x55\xba")
    content[at + 18] ^= 0xFF  # the mark of the first entry
    facts = scanned(bytes(content))
    module = judge_spec("x", [facts], Question(devices=(SPARK,)), files=[facts.path]).devices[0].modules[0]
    assert module.verdict == "partial"
    assert module.failed


def test_a_cut_fatbin_is_always_told() -> None:
    content = data("size.fatbin")
    for length in range(4, len(content)):
        facts = scanned(content[:length], split=length % 64)
        assert not facts.containers
        assert any(finding.level == "error" for finding in facts.findings), length


@pytest.mark.parametrize("name", ["native.so", "linked.so", "mixed.a", "plain.o", "121a.cubin"])
def test_a_cut_file_never_passes_for_a_whole_one(name: str) -> None:
    content = data(name)
    whole = scanned(content)
    for length in range(64, len(content), 61):
        facts = scanned(content[:length], split=length % 5000)
        assert facts == scanned(content[:length])
        assert facts.findings or (facts.containers, facts.cubins) == (whole.containers, whole.cubins)


@given(
    name=st.sampled_from(sorted(EXPECTED)),
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=8),
    split=st.integers(0, 5000),
)
@settings(max_examples=400, deadline=None)
def test_damage_never_ends_in_an_exception(name: str, flips: list[tuple[int, int]], split: int) -> None:
    content = bytearray(data(name))
    for at, mask in flips:
        content[at % len(content)] ^= mask
    facts = scanned(bytes(content), split=split)
    assert facts == scanned(bytes(content))
    held_by = judge_spec("x", [facts], Question(devices=(SPARK,)), files=[facts.path])
    assert held_by.verdict in ("pass", "fail")


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_noise_behind_every_beginning(noise: bytes) -> None:
    for start in (b"\x7fELF\x02\x01\x01", b"!<arch>\n", b"\x50\xed\x55\xba\x01\x00\x10\x00", b"MZ", b""):
        assert scanned(start + noise, split=13) == scanned(start + noise)


def test_kinds_that_are_not_loaded_are_counted_apart() -> None:
    facts = scanned(container(entry(8, 90, flags=0x100011), entry(0x80, 80), entry(0x40, 75), entry(2, 121)))
    assert held(facts)["relocatable"] == {"lto:90a": 1, "tile": 1, "link-ptx:75": 1}
    assert held(facts)["images"] == {"sm_121": 1}


def test_an_unknown_kind_is_told_and_never_coverage() -> None:
    facts = scanned(container(entry(0x10, 121)))
    assert codes(facts) == [("warning", "unknown-kind")]
    assert held(facts)["containers"]["none"] == 1
    assert held(facts)["relocatable"] == {"kind-0x10": 1}


def test_both_suffixes_count_as_the_stricter() -> None:
    facts = scanned(container(entry(2, 120, flags=0x300011)))
    assert codes(facts) == [("warning", "odd-image")]
    assert facts.containers[0].images[0].name == "sm_120a"


def test_an_arch_that_is_none_is_told() -> None:
    assert codes(scanned(container(entry(2, 0)))) == [("warning", "odd-image")]


def test_an_empty_container_is_told_and_not_counted() -> None:
    facts = scanned(container())
    assert codes(facts) == [("warning", "empty-container")]
    assert facts.containers == ()


def test_options_say_that_ptx_must_be_linked() -> None:
    facts = scanned(container(entry(1, 120, options=b"--compile-only  ")))
    assert facts.containers[0].relocatable
    assert held(facts)["relocatable"] == {"ptx:120": 1}


@pytest.mark.parametrize("size", [0, 56, 68, 1 << 31])
def test_an_entry_header_of_a_size_that_cannot_be(size: int) -> None:
    content = bytearray(container(entry(2, 121, payload=bytes(64))))
    struct.pack_into("<IQ", content, 16 + 4, size, max(128 - size, 0))
    assert codes(scanned(bytes(content))) == [("error", "broken-container")]


def test_ptx_isa() -> None:
    image = scanned(data("ptx.121a.fatbin")).containers[0].images[0]
    assert (image.kind, image.isa, image.suffix) == (Kind.PTX, (9, 0), "a")


def test_a_group_is_read_without_decompressing() -> None:
    images = [(2, 121, 0x100011), (1, 120, 0x11), (2, 120, 0x200011), (2, 80, 0x11)]
    facts = scanned(container(concat(*images), entry(2, 90)))
    assert facts.findings == ()
    assert [image.name for image in facts.containers[0].images] == [
        *("sm_121a", "compute_120", "sm_120f", "sm_80", "sm_90")
    ]


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 31])
def test_a_group_that_makes_no_sense_is_unread_not_empty(count: int) -> None:
    facts = scanned(container(concat((2, 121, 0x11), (2, 80, 0x11), count=count)))
    assert codes(facts) == [("error", "unread")]
    assert facts.has_device_code
    assert held(facts)["containers"]["none"] == 1


def test_there_is_a_limit_to_containers() -> None:
    facts = scanned(container(entry(2, 121, payload=b"")) * 100_002)
    assert codes(facts) == [("error", "unread")]
    assert held(facts)["containers"]["exact"] == 100_001


def test_an_archive_with_odd_and_bsd_members() -> None:
    def member(name: str, content: bytes) -> bytes:
        pad = b"\n" * (len(content) % 2)
        return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content + pad

    long = b"\x7fELF-is-no-part-of-the-member\0"
    content = b"!<arch>\n" + b"".join(
        [
            member("/", b"symbols"),
            member(f"#1/{len(long)}", long + data("lto.o")),
            member("odd/", b"x" * 7),
            member("plain.o/", data("plain.o")),
            member("rdc.o/", data("rdc.o")),
            member("c.cubin/", data("121f.cubin")),
            member("f.fatbin/", data("size.fatbin")),
        ]
    )
    facts = scanned(content, "x.a")
    assert facts.findings == ()
    assert [image.name for image in facts.cubins] == ["sm_121f"]
    assert held(facts)["containers"] == {"exact": 1, "compatible": 1, "jit": 0, "none": 0}
    assert held(facts)["relocatable"] == {"lto:121a": 1, "ptx:120f": 1, "sass:120f": 1}


def test_a_damaged_archive_is_told_and_searched_on() -> None:
    content = data("mixed.a")
    at = content.index(b"plain.o")
    facts = scanned(content[: at + 58] + b"??" + content[at + 60 :])
    assert ("error", "damaged-archive") in codes(facts)
    assert len(facts.containers) == 2


def test_a_thin_archive() -> None:
    assert codes(scanned(b"!<thin>\n" + b"x" * 100)) == [("warning", "thin-archive")]


def test_a_library_of_another_system() -> None:
    facts = scanned(b"MZ" + bytes(1001) + data("native.so"))
    assert facts.kind == "blob"
    assert len(facts.containers) == 2


@pytest.mark.parametrize("split", [0, 50])
def test_cubins_embedded_in_a_library(split: int) -> None:
    content = b"MZ" + bytes(33) + data("90a.cubin") + b"\x7fELF and no cubin" + data("121a.cubin") + bytes(9)
    facts = scanned(content, split=split)
    assert [image.name for image in facts.cubins] == ["sm_90a", "sm_121a"]
    assert facts.findings == ()


def test_an_embedded_cubin_that_is_cut_off() -> None:
    assert codes(scanned(b"MZ" + data("90a.cubin")[:-200])) == [("error", "unread")]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "other"),
        (b"import torch\n", "other"),
        (b"\x7fEL", "other"),
        (b"\x7fELF", "elf"),
        (b"!<arch>\n", "archive"),
        (b"x" * 100 + b"\x50\xed\x55\xba\x01\x00\x10\x00", "blob"),
        (b"x" * 100 + b"\x50\xed\x55\xba", "other"),
    ],
)
def test_recognize(head: bytes, kind: str) -> None:
    assert recognize(head) == kind


def test_32_bit_elf_is_searched_all_the_same() -> None:
    content = b"\x7fELF\x01\x01\x01" + bytes(57) + data("size.fatbin")
    assert len(scanned(content).containers) == 1


def test_text_is_told_by_its_first_bytes() -> None:
    assert recognize(b"import os\n" * 60 + container(entry(2, 121))) == "other"
    assert recognize(b"\0import os\n" * 60 + container(entry(2, 121))) == "blob"
    assert recognize("// d\u00e9bris\n".encode() * 60 + container(entry(2, 121))) == "blob"
