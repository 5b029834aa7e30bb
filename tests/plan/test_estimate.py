"""What a step is thought to take: what was seen comes before what its recipe says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.model.recipe import Build, BuildEstimate
from orchestrator.plan.estimate import UnitCosts, estimated
from orchestrator.plan.steps import Estimate

GIB = 2**30
PLAIN = Build(memory_per_unit=3 * GIB)
SAID = Build(memory_per_unit=3 * GIB, estimate=BuildEstimate(cpu=9000.0, disk=500))
SEEN = Estimate(1000.0, 2 * GIB, 700, basis="seen")


def units(*, whole: bool = True) -> UnitCosts:
    found = UnitCosts.of([(GIB, 100.0), (4 * GIB, 300.0), (GIB, 0.0)], whole=whole)
    assert found is not None
    return found


def test_units_sum_up() -> None:
    assert units() == UnitCosts(
        count=3,
        cpu_s=400.0,
        longest_s=300.0,
        largest=4 * GIB,
        typical=13 * GIB // 4,  # a quarter of the time 1 GiB, the rest 4
        total=6 * GIB,
        whole=True,
    )
    assert UnitCosts.of([], whole=True) is None
    instant = UnitCosts.of([(2, 0.0), (4, 0.0)], whole=True)
    assert instant is not None
    assert instant.typical == 3


def test_the_last_build_comes_before_the_recipe() -> None:
    assert estimated(PLAIN, SEEN, None) == Estimate(1000.0, 2 * GIB, 700, basis="seen")
    assert estimated(SAID, SEEN, None) == Estimate(1000.0, 2 * GIB, 700, basis="seen")


def test_its_units_tell_the_rest() -> None:
    assert estimated(PLAIN, SEEN, units()) == Estimate(
        1000.0,
        4 * GIB,
        700,
        units=3,
        longest_s=300.0,
        typical_bytes=13 * GIB // 4,
        total_bytes=6 * GIB,
        basis="seen",
    )


def test_a_build_that_the_compiler_cache_made_short_is_not_believed() -> None:
    assert estimated(PLAIN, replace(SEEN, cpu_s=20.0), units()).cpu_s == 400.0


def test_units_of_a_finished_build_do_without_an_artifact() -> None:
    alone = estimated(SAID, None, units())
    assert (alone.cpu_s, alone.units, alone.basis, alone.disk_bytes) == (400.0, 3, "seen", 500)


def test_the_recipe_speaks_for_what_was_never_built() -> None:
    assert estimated(SAID, None, None) == Estimate(
        9000.0, 3 * GIB, 500, typical_bytes=3 * GIB, basis="recipe"
    )
    assert estimated(PLAIN, None, None) == Estimate(
        None, 3 * GIB, None, typical_bytes=3 * GIB, basis="nothing"
    )


@pytest.mark.parametrize(
    ("build", "cpu_s", "basis"),
    [
        (SAID, 9000.0, "recipe"),
        (PLAIN, 400.0, "unfinished"),
        (Build(estimate=BuildEstimate(cpu=60.0)), 400.0, "unfinished"),
    ],
)
def test_a_part_is_the_least(build: Build, cpu_s: float, basis: str) -> None:
    part = estimated(build, None, units(whole=False))
    assert (part.cpu_s, part.basis) == (cpu_s, basis)
    assert (part.units, part.total_bytes) == (None, None), "nobody knows how many there are"
    assert (part.peak_bytes, part.longest_s, part.typical_bytes) == (4 * GIB, 300.0, 13 * GIB // 4)
