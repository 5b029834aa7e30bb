"""Priorities made by simulated runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import CycleError
from orchestrator.plan.improve import improved_priorities
from orchestrator.plan.schedule import Limits, Work, priorities
from orchestrator.plan.simulate import lower_bound, simulate

BENCH = Path(__file__).parents[2] / "bench" / "schedule.py"
MACHINE = Limits(2, 4)
BADLY = {name: Work(name, (), seconds) for name, seconds in zip("abcde", (3, 3, 2, 2, 2), strict=True)}


@st.composite
def many_works(draw: st.DrawFn) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for number in range(draw(st.integers(0, 9))):
        needs = draw(st.lists(st.sampled_from(sorted(works)), max_size=2)) if works else []
        seconds, cpus, memory = draw(st.tuples(st.integers(1, 20), st.integers(1, 2), st.integers(0, 5)))
        works[f"w{number}"] = Work(f"w{number}", tuple(needs), seconds, cpus, memory)
    return works


@settings(max_examples=50)
@given(many_works())
def test_never_longer_than_plain_critical_paths_and_always_the_same(works: dict[str, Work]) -> None:
    found = improved_priorities(works, MACHINE)
    plain, ours = simulate(works, MACHINE), simulate(works, MACHINE, urgency=found)
    assert lower_bound(works, MACHINE) <= ours.makespan + 1e-9
    assert ours.makespan <= plain.makespan
    assert improved_priorities(dict(reversed(works.items())), MACHINE) == found
    for name, work in works.items():
        assert found[name] >= priorities(works)[name] - 1e-9
        assert all(found[need] > found[name] for need in work.needs)


def test_what_critical_paths_pack_badly_is_packed_tight() -> None:
    """Longest first puts 3 beside 3 and then three of 2 on two slots: 7. 3+3 beside 2+2+2 is 6."""
    assert simulate(BADLY, MACHINE).makespan == 7
    assert simulate(BADLY, MACHINE, urgency=improved_priorities(BADLY, MACHINE)).makespan == 6


@pytest.mark.parametrize(("seconds", "plain"), [(20, False), (150, True)])
def test_a_gain_of_less_than_a_hundredth_is_not_taken(seconds: float, *, plain: bool) -> None:
    """One second is gained before the last step, of 27 or of 157."""
    works = BADLY | {"last": Work("last", tuple(BADLY), seconds)}
    assert (improved_priorities(works, MACHINE) == priorities(works)) is plain


def test_a_circle_is_an_error() -> None:
    with pytest.raises(CycleError):
        improved_priorities({"a": Work("a", ("b",)), "b": Work("b", ("a",))}, MACHINE)


def test_two_hundred_graphs_come_within_the_limits() -> None:
    """The benchmark itself: median 1.01 and 95th percentile 1.06 of the bound, and quick enough."""
    result = subprocess.run(
        [sys.executable, "-P", BENCH, "builds", "random"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("  ok") == 6
