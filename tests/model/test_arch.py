"""The grammar of arch lists: every spelling that is in use, and every mistake that was seen."""

from __future__ import annotations

import re
import string
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ArchError
from orchestrator.model.arch import (
    ARCHES,
    Arch,
    ArchNote,
    ArchRequest,
    Device,
    Entry,
    devices_served,
    image_names,
    parse_arch,
    parse_request,
    runs_on,
)

SPARK = Device(12, 1)


class Accepted(NamedTuple):
    text: str
    normal: str
    codes: set[str]


# Spellings from public reports, judged for a DGX Spark
ACCEPTED = [
    Accepted("12.1a", "12.1a", set()),
    Accepted("12.1", "12.1", {"no-fp4"}),
    Accepted("12.1f", "12.1f", set()),
    Accepted("12.0f", "12.0f", {"compatible"}),
    Accepted("12.0", "12.0", {"compatible", "no-fp4"}),
    Accepted("12.0+PTX", "12.0+PTX", {"compatible", "no-fp4", "ptx"}),
    Accepted("12.0;12.1+PTX", "12.0;12.1+PTX", {"compatible", "no-fp4", "ptx"}),
    Accepted("8.0 9.0 12.0", "8.0;9.0;12.0", {"other-device", "compatible", "no-fp4"}),
    Accepted("120;121", "12.0;12.1", {"compatible", "no-fp4"}),
    Accepted("sm_121", "12.1", {"no-fp4"}),
    Accepted("121a-real", "12.1a", set()),
    Accepted("12.1a ", "12.1a", set()),
    Accepted("12.0,12.1", "12.0;12.1", {"compatible", "no-fp4"}),
    Accepted("sm110a;sm_110a;110a;12.1a", "11.0a;12.1a", {"other-device"}),
    Accepted("\tSM_121A ,; 12.1A", "12.1a", set()),
    Accepted("compute_121a", "compute_121a", {"jit-only", "ptx"}),
    Accepted("121a-virtual;121a-real", "12.1a+PTX", {"ptx"}),
    Accepted("8.0+PTX", "8.0+PTX", {"jit-only", "ptx"}),
]


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: repr(row.text))
def test_accepted_for_a_spark(row: Accepted) -> None:
    request = parse_request(row.text, SPARK)
    assert request.normal == row.normal
    assert {note.code for note in request.notes} == row.codes
    assert request.input == row.text
    assert devices_served(request, SPARK) == (SPARK,)


REFUSED = [
    ("12.0a", r"12\.0a runs on 12\.0 only and never loads on 12\.1", "12.1a or 12.0f"),
    ("12.0a;12.1a", r"12\.0a runs on 12\.0 only", "12.1a or 12.0f"),
    ("11.0a", r"nothing in 11\.0a runs on 12\.1", "12.1a or 12.0f"),
    ("9.0a 8.0", r"nothing in 8\.0;9\.0a runs on 12\.1", "12.1a"),
    ("10.0f+PTX", r"runs on 12\.1", "12.1a"),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED)
def test_refused_for_a_spark_but_not_for_others(text: str, message: str, hint: str) -> None:
    with pytest.raises(ArchError, match=message) as caught:
        parse_request(text, SPARK)
    assert hint in str(caught.value.hint)
    assert parse_request(text).entries  # without a device each entry serves its own


MISTAKES = [
    ("12.1(2.0)", "bug in PyTorch's CMake", "12.1a"),
    ("9.0a 12.1(2.0)+PTX", "bug in PyTorch's CMake", "12.1a"),
    ("12.1a(12.0f)", "one arch for SASS and another for PTX", "12.1a"),
    ("Blackwell", r"'Blackwell' is ambiguous.*10\.0, 10\.3, 11\.0, 12\.0 and 12\.1", "12.1a (DGX Spark)"),
    ("hopper+PTX", "ambiguous", "9.0a"),
    ("Volta", "dropped by CUDA 13", "7.5"),
    ("GB10", "a product", "12.1a"),
    ("native", "'native' leaves the arch", "nvidia-smi --query-gpu=compute_cap"),
    ("auto", "'auto' leaves", "nvidia-smi"),
    ("All", "'All' leaves", "nvidia-smi"),
    ("all-major", "'all-major' leaves", "nvidia-smi"),
    ("", "empty", "nvidia-smi"),
    (" ;, \n", "empty", "12.1a"),
    ("9.0.a", "'9.0.a' is no arch", "did you mean 9.0a?"),
    ("12.1-a", "'12.1-a' is no arch", "did you mean 12.1a?"),
    ("sm_12.1a", "'sm_12.1a' is no arch", "did you mean 12.1a?"),
    ("-gencode=arch=compute_121a", "is no arch", "did you mean 12.1a?"),
    ("12.1b", "suffix that does not exist: b", "12.0f"),
    ("13.7", r"no arch 13\.7", "nvcc 13.0 knows 7.5"),
    ("12.9", r"no arch 12\.9", "did you mean 12.0 or 12.1?"),
    ("12.9f", r"no arch 12\.9f", "did you mean 12.0f or 12.1f?"),
    ("8.9a", r"8\.9 has no variant a", "known: 8.9"),
    ("9.0f", r"9\.0 has no variant f", "known: 9.0, 9.0a"),
    ("7.0", r"CUDA 13 dropped 7\.0", "7.5"),
    ("sm_35", r"CUDA 13 dropped 3\.5", "7.5"),
    ("2.1", r"CUDA 13 dropped 2\.1", "7.5"),
    ("12.10", "'12.10' is no arch", "12.1a"),
    ("08.0", "'08.0' is no arch", "known"),
    ("12", r"no arch 1\.2", "7.5"),
    ("121a-real+PTX", "is no arch", "12.1a"),
    ("sm_121a-virtual", "mixes two notations", "12.1a+PTX"),
    ("12.1a-real", "mixes two notations", "write 12.1a,"),
    ("compute_121+PTX", "mixes two notations", "compute_121"),
    ("12.1a+ptx+ptx", "is no arch", "12.1a"),
    ("12.0;12.0f", "together are refused by nvcc", "keep 12.0f alone"),
    ("sm_120 120f-real", "together are refused by nvcc", "keep 12.0f alone"),
    ("12.1a;\x00", "is no arch", "12.1a"),
    ("\u0661\u0662.1", "is no arch", "12.1a"),  # digits, but not ASCII ones
    ("9" * 5000, "is no arch", "12.1a"),
]


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES, ids=lambda value: repr(value[:30]))
def test_a_mistake_is_named_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(ArchError, match=message) as caught:
        parse_request(text)
    assert caught.value.exit_code == 2
    assert hint in str(caught.value.hint)
    assert len(caught.value.message) < 250


def test_the_bad_token_is_named_not_the_list() -> None:
    with pytest.raises(ArchError) as caught:
        parse_request("12.1a;12.x;9.0a")
    assert caught.value.message == "'12.x' is no arch"


@pytest.mark.parametrize(
    ("old", "new"),
    [("10.1a", "11.0a"), ("sm_101", "11.0"), ("10.1f", "11.0f"), ("10.1+PTX", "11.0+PTX")],
)
def test_thor_was_renamed(old: str, new: str) -> None:
    request = parse_request(old)
    assert request.normal == new
    assert [note.code for note in request.notes if note.level == "info"] == ["renamed"]


def test_notes_suggest_what_serves_the_device() -> None:
    notes = {note.code: note for note in parse_request("12.0", SPARK).notes}
    assert notes["no-fp4"] == ArchNote(
        "warning", "no-fp4", "plain 12.0 has no block-scaled FP4 MMA: use 12.1a or 12.0f"
    )
    assert "12.0a or 12.0f" in parse_request("12.0").notes[0].text
    assert [note.code for note in parse_request("9.0;10.0").notes] == ["no-wgmma", "no-tcgen05"]
    assert parse_request("8.0 8.9").notes == ()


def test_devices_served_are_those_named() -> None:
    assert devices_served(parse_request("12.1a;9.0a;12.1+PTX")) == (Device(9, 0), Device(12, 1))


def test_parse_arch_wants_exactly_one() -> None:
    assert parse_arch("9.0a") == Arch(9, 0, "a")
    assert parse_arch(" sm_100f") == Arch(10, 0, "f")
    for text in ("9.0a;10.0f", "9.0+PTX", "compute_90a"):
        with pytest.raises(ArchError, match="not one arch"):
            parse_arch(text)


def entries() -> st.SearchStrategy[Entry]:
    codes = st.sampled_from([(True, False), (True, True), (False, True)])
    return st.builds(
        lambda arch, code: Entry(arch, sass=code[0], ptx=code[1]), st.sampled_from(ARCHES), codes
    )


def spellings(entry: Entry) -> list[str]:
    arch = entry.arch
    if not entry.sass:
        return [arch.ptx_name, f"compute{arch.number}", f"{arch.number}-virtual"]
    if entry.ptx:
        return [f"{arch}+PTX", f"{arch.number}+PTX", f"{arch.name}+PTX"]
    return [str(arch), arch.number, arch.name, f"sm{arch.number}", f"{arch.number}-real"]


def attempt(text: str, device: Device | None = None) -> ArchRequest | ArchError:
    try:
        return parse_request(text, device)
    except ArchError as error:
        return error


def has_twins(chosen: list[Entry]) -> bool:
    compiled = {entry.arch for entry in chosen if entry.sass}
    return any(not arch.suffix and Arch(arch.major, arch.minor, "f") in compiled for arch in compiled)


lists = st.lists(entries(), min_size=1, max_size=6).filter(lambda chosen: not has_twins(chosen))


@given(lists)
def test_the_normal_form_is_a_fixed_point(chosen: list[Entry]) -> None:
    request = parse_request(";".join(map(str, chosen)))
    again = parse_request(request.normal)
    assert again == ArchRequest(request.normal, request.entries, request.notes)
    assert again.normal == request.normal


@given(entries(), st.data())
def test_every_spelling_means_the_same(entry: Entry, data: st.DataObject) -> None:
    spelling = data.draw(st.sampled_from(spellings(entry)))
    cased = "".join(data.draw(st.sampled_from([char.lower(), char.upper()])) for char in spelling)
    assert parse_request(cased).entries == (entry,)


@given(lists, st.data())
def test_order_duplicates_and_separators_do_not_matter(chosen: list[Entry], data: st.DataObject) -> None:
    plain = parse_request(";".join(map(str, chosen)))
    shuffled = data.draw(st.permutations(chosen + data.draw(st.lists(st.sampled_from(chosen), max_size=3))))
    separator = data.draw(st.sampled_from([";", ",", " ", " ; ", "\n"]))
    other = parse_request(separator.join(map(str, shuffled)) + separator)
    assert other.entries == plain.entries
    assert set(other.notes) == set(plain.notes)


@given(st.text(max_size=20) | st.text(alphabet="smptxcoue_.+-;, 0123456789afAF()", max_size=16))
def test_garbage_is_always_an_arch_error(text: str) -> None:
    request = attempt(text)
    if isinstance(request, ArchError):
        assert request.hint
        return
    # What passes must be made of known tokens only: each holds the digits of one entry
    tokens = {re.sub("[^0-9]", "", token) for token in re.split(r"[;,\s]+", text) if token}
    assert {"110" if token == "101" else token for token in tokens} == {
        str(entry.arch.sm) for entry in request.entries
    }


@given(entries(), st.text(alphabet=string.ascii_lowercase + "._-(): ", min_size=1, max_size=3))
def test_a_token_with_a_tail_is_read_whole_or_not_at_all(entry: Entry, tail: str) -> None:
    request = attempt(f"{entry}{tail}")
    whole = not tail.strip() or (tail.strip() in "af" and not (entry.sass and entry.ptx))
    assert isinstance(request, ArchError) or whole, request.normal


@given(lists, st.sampled_from([arch.device for arch in ARCHES]))
def test_with_a_device_something_always_runs_there(chosen: list[Entry], device: Device) -> None:
    text = ";".join(map(str, chosen))
    request = attempt(text, device)
    if isinstance(request, ArchError):
        assert str(device) in request.message
        return
    assert any(device in runs_on(entry) for entry in request.entries)
    assert request.entries == parse_request(text).entries


def test_image_names() -> None:
    entries = parse_request("12.0f;12.1a+PTX;compute_90").entries
    assert set(image_names(entries)) == {"sm_120f", "sm_121a", "compute_121a", "compute_90"}
