"""Which containers fall short, and the words that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kernelfiles import image, unit

from orchestrator.audit.facts import FileFacts, Kind
from orchestrator.audit.shortfall import foreign, late_ptx, loads, names, short_of, shortfall, suffix_reasons
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from orchestrator.audit.facts import Container

SPARK = Device(12, 1)


def box(*images: str) -> Container:
    return unit(dict.fromkeys(images))


def said(*boxes: Container, total: int = 0, driver: tuple[int, int] | None = None, jit: bool = False) -> str:
    return shortfall(boxes, total or len(boxes), SPARK, driver, allow_jit=jit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            said(box("sm_75", "compute_75"), box("sm_75")),
            (
                "none of 2 containers has SASS for 12.1 (1 run by JIT, 1 not at all); they hold sm_75 (2), "
                "compute_75 (1); that is sm_75 only, the default of nvcc 13 when no arch is set"
            ),
        ),
        (
            said(box("sm_75", "compute_75"), box("sm_80"), total=9),
            (
                "2 of 9 containers fall short on 12.1 (1 run by JIT, 1 not at all); they hold "
                "compute_75 (1), "
                "sm_75 (1), sm_80 (1); 1 of them holds sm_75 only, the default of nvcc 13 when no arch is set"
            ),
        ),
        (
            said(box("sm_52")),
            (
                "the only container has no SASS for 12.1; it holds "
                "sm_52 (1); that is sm_52 only, the default of "
                "nvcc 11 and 12 when no arch is set"
            ),
        ),
        (
            said(box("sm_120a")),
            (
                "the only container has no SASS for 12.1; it holds sm_120a (1); sm_120a loads on 12.0 only: "
                "build for 12.0f or 12.1a"
            ),
        ),
        (
            said(box("compute_80", "compute_90")),
            (
                "the only container has no SASS for 12.1, but runs by JIT; it holds "
                "compute_80 (1), "
                "compute_90 (1); that is PTX only, which the driver has to compile when it is "
                "first used"
            ),
        ),
        (
            said(box("sm_90a", "compute_90a")),
            (
                "the only container has no SASS for 12.1; it holds "
                "compute_90a (1), sm_90a (1); compute_90a is "
                "compiled by the driver on 9.0 only, unlike compute_90"
            ),
        ),
        (
            said(box("sm_80", "compute_80@9.1"), driver=(9, 0), jit=True),
            (
                "the only container does not run for 12.1; it holds compute_80 (1), sm_80 (1); PTX 9.1 "
                "needs a driver of CUDA 13.1 (590) or newer"
            ),
        ),
        (
            said(box("sm_80", "compute_80@9.1"), box("sm_80"), driver=(9, 0)),
            (
                "none of 2 containers has SASS for 12.1; they hold sm_80 (2), compute_80 (1); 1 of them: PTX "
                "9.1 needs a driver of CUDA 13.1 (590) or newer"
            ),
        ),
        (
            said(box("sm_75", "sm_80"), box("sm_90")),
            "none of 2 containers has SASS for 12.1; they hold sm_75 (1), sm_80 (1), sm_90 (1)",
        ),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("sm_120a", SPARK, ["sm_120a loads on 12.0 only: build for 12.0f or 12.1a"]),
        (
            "compute_120a",
            SPARK,
            ["compute_120a is compiled by the driver on 12.0 only: build for 12.0f or 12.1a"],
        ),
        ("sm_121a", Device(12, 0), ["sm_121a loads on 12.1 only: build for 12.0a"]),
        ("sm_100a", Device(10, 3), ["sm_100a loads on 10.0 only: build for 10.0f or 10.3a"]),
        ("sm_90a", SPARK, []),
        ("compute_100a", Device(9, 0), []),
        ("sm_121a", SPARK, []),
        ("sm_120", SPARK, []),
        ("sm_120f", SPARK, []),
    ],
)
def test_images_for_one_other_chip(name: str, device: Device, expected: list[str]) -> None:
    assert list(suffix_reasons([image(name)] * 2, device)) == expected


@pytest.mark.parametrize(
    ("images", "driver", "expected"),
    [
        (("compute_80@9.1",), (9, 0), (9, 1)),
        (("compute_80@9.1", "compute_90@9.2"), (9, 0), (9, 1)),
        (("compute_80@9.1", "compute_80@8.8"), (9, 0), None),
        (("compute_80@9.1",), (9, 1), None),
        (("compute_80@9.1",), None, None),
        (("sm_120", "compute_80@9.1"), (9, 0), None),
        (("compute_120a@9.1",), (9, 0), None),
        (("compute_120a@9.0", "compute_80@9.1"), (9, 0), (9, 1)),
        (("sm_80",), (9, 0), None),
    ],
)
def test_ptx_that_only_a_newer_driver_compiles(
    images: tuple[str, ...], driver: tuple[int, int] | None, expected: tuple[int, int] | None
) -> None:
    assert late_ptx(box(*images), SPARK, driver) == expected


def test_which_fall_short() -> None:
    native, jit, none = box("sm_121a"), box("compute_80@9.0"), box("sm_80")
    facts = FileFacts("a.so", "elf", (native, jit, none))
    assert short_of(facts, SPARK, None) == [jit, none]
    assert short_of(facts, SPARK, None, allow_jit=True) == [none]
    assert short_of(facts, SPARK, (8, 8), allow_jit=True) == [jit, none]


def test_names_are_counted_and_cut() -> None:
    assert names([]) == "nothing"
    assert names(map(image, ("sm_80", "sm_90", "sm_90"))) == "sm_90 (2), sm_80 (1)"
    many = [image(f"sm_{number}") for number in (75, 80, 86, 87, 89, 90, 100, 103)]
    assert names(many).endswith(", sm_86 (1), sm_87 (1), 2 more")
    assert {one.kind for one in many} == {Kind.SASS}


@pytest.mark.parametrize(
    ("arches", "device", "expected"),
    [
        (("sm_90a",), SPARK, True),
        (("sm_90a", "sm_100f", "sm_103a", "compute_100a"), SPARK, True),
        (("sm_90a", "sm_90"), SPARK, False),
        (("sm_90a", "sm_120a"), SPARK, False),
        (("sm_90a", "tile"), SPARK, False),
        ((), SPARK, False),
        (("sm_101a",), Device(11, 0), False),
        (("sm_101a",), Device(10, 0), True),
    ],
)
def test_code_for_the_instructions_of_other_chips(
    arches: tuple[str, ...], device: Device, *, expected: bool
) -> None:
    assert foreign(arches, device) is expected


def test_images_that_load() -> None:
    names_ = ("sm_120", "sm_120f", "sm_121a", "sm_121", "sm_120a", "sm_100f", "compute_120", "tile")
    assert [name for name in names_ if loads(name, SPARK)] == ["sm_120", "sm_120f", "sm_121a", "sm_121"]
