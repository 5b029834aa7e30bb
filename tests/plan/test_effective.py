"""What is left of a request for a recipe that can be built for some arches only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ArchError
from orchestrator.model.arch import ARCHES, Arch, loads_sass, parse_request
from orchestrator.plan.effective import effective

FA3 = ("9.0a",)
FLASH_MLA = ("9.0a", "10.0f")


@pytest.mark.parametrize(
    ("request_", "applies", "normal", "dropped", "notes"),
    [
        ("12.1a;9.0", (), "9.0;12.1a", [], []),
        ("9.0a", FA3, "9.0a", [], []),
        ("9.0a+PTX", FA3, "9.0a+PTX", [], []),
        ("10.3a", FLASH_MLA, "10.0f", [], ["10.3a is built as 10.0f"]),
        ("10.3f", FLASH_MLA, "10.0f", [], ["10.3f is built as 10.0f"]),
        ("10.0", FLASH_MLA, "10.0f", [], ["10.0 is built as 10.0f"]),
        (
            "10.0a;10.3a+PTX",
            FLASH_MLA,
            "10.0f+PTX",
            [],
            ["10.0a is built as 10.0f", "10.3a is built as 10.0f"],
        ),
        ("10.3a", ("10.0f", "10.3f"), "10.3f", [], ["10.3a is built as 10.3f"]),
        ("10.0f", ("10.3f",), "", ["10.0f"], []),
        ("9.0a;12.1a", FLASH_MLA, "9.0a", ["12.1a"], []),
        ("12.1a", ("12.0f",), "12.0f", [], ["12.1a is built as 12.0f"]),
        ("12.1a", ("12.0", "12.1"), "", ["12.1a"], []),
        ("12.1f", ("12.1a",), "", ["12.1f"], []),
        ("compute_90a", FA3, "compute_90a", [], []),
        # nvcc refuses 12.0 beside 12.0f
        ("12.0;12.1a", ("12.0", "12.0f"), "12.0f", [], ["12.0 is built as 12.0f", "12.1a is built as 12.0f"]),
        ("12.1a", FLASH_MLA, "", ["12.1a"], []),
        ("8.0;12.1a", FA3, "", ["8.0", "12.1a"], []),
    ],
)
def test_rules(
    request_: str, applies: tuple[str, ...], normal: str, dropped: list[str], notes: list[str]
) -> None:
    found = effective(parse_request(request_), applies)
    assert found.normal == normal
    assert [str(drop.entry) for drop in found.dropped] == dropped
    assert [note.text for note in found.notes] == notes
    assert (found.reason is None) == bool(normal)


def test_the_reason_says_once_what_would_do() -> None:
    found = effective(parse_request("12.1a;8.0"), FLASH_MLA)
    assert found.entries == ()
    assert found.reason == "made for 9.0a, 10.0f only"


def test_a_missing_suffix_is_an_error_not_a_drop() -> None:
    with pytest.raises(ArchError, match=r"9\.0 lacks the suffix") as caught:
        effective(parse_request("9.0;12.1a"), FA3, where="flash-attn-3")
    assert (caught.value.where, caught.value.hint) == ("flash-attn-3", "write 9.0a")
    with pytest.raises(ArchError, match="lacks the suffix"):
        effective(parse_request("compute_90"), FA3)


@pytest.mark.parametrize("applies", [("9.0b",), ("9.0a;10.0a",), ("",), ("Hopper",), ("9.0+PTX",)])
def test_a_recipe_that_names_no_arch(applies: tuple[str, ...]) -> None:
    with pytest.raises(ArchError) as caught:
        effective(parse_request("9.0a"), applies, where="recipe.yaml:3:10")
    assert caught.value.where == "recipe.yaml:3:10"


arches = st.sampled_from(ARCHES)


@given(
    st.lists(arches, min_size=1, max_size=4, unique_by=lambda arch: arch.device), st.sets(arches, min_size=1)
)
def test_laws(asked: list[Arch], applies: set[Arch]) -> None:
    request = parse_request(";".join(map(str, asked)))
    able = tuple(map(str, applies))
    unsuffixed = any(
        not arch.suffix
        and arch not in applies
        and Arch(arch.major, arch.minor, "a") in applies
        and not any(family.suffix == "f" and loads_sass(family, arch.device) for family in applies)
        for arch in asked
    )
    if unsuffixed:
        with pytest.raises(ArchError, match="lacks the suffix"):
            effective(request, able)
        return
    found = effective(request, able)
    # nothing but what applies names; nothing lost without a word; idempotent; order does not matter
    assert {entry.arch for entry in found.entries} <= applies
    assert len(found.dropped) + len(found.entries) <= len(request.entries)
    kept = [arch for arch in asked if arch not in {drop.entry.arch for drop in found.dropped}]
    for arch in kept:
        assert any(loads_sass(entry.arch, arch.device) for entry in found.entries)
    assert effective(request, able[::-1]) == found
    if found.entries:
        again = effective(parse_request(found.normal), able)
        assert (again.entries, again.notes, again.dropped) == (found.entries, (), ())
