"""Simulated runs: ours, and those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import CycleError
from orchestrator.plan.schedule import Limits, Running, Work, remaining, start_next
from orchestrator.plan.simulate import Policy, lower_bound, simulate

if TYPE_CHECKING:
    from orchestrator.plan.schedule import Works

POLICIES: tuple[Policy, ...] = get_args(Policy)
MACHINE = Limits(4, 6)


@st.composite
def many_works(draw: st.DrawFn, *, most_cpus: int = 6, most_memory: int = 8) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for number in range(draw(st.integers(0, 10))):
        needs = draw(st.lists(st.sampled_from(sorted(works)), max_size=2)) if works else []
        works[f"w{number}"] = Work(
            f"w{number}",
            tuple(needs),
            float(draw(st.integers(0, 20))),
            draw(st.integers(1, most_cpus)),
            draw(st.integers(0, most_memory)),
        )
    return works


durations = st.dictionaries(
    st.sampled_from([f"w{number}" for number in range(10)]), st.integers(0, 40).map(float)
)


def stepped(works: Works, actual: dict[str, float]) -> dict[str, float]:
    """Return the starts of a run that asks `start_next` by the clock."""
    now, starts, ends, done = 0.0, dict[str, float](), dict[str, float](), set[str]()
    while True:
        running = [
            Running(name, remaining(works[name].seconds, now - starts[name]))
            for name in starts
            if name not in done
        ]
        for name in start_next(works, running, MACHINE, done=done):
            starts[name], ends[name] = now, now + actual.get(name, works[name].seconds)
        if len(done) == len(works):
            return starts
        now = min(end for name, end in ends.items() if name not in done)
        done |= {name for name, end in ends.items() if end <= now}


@given(many_works(), durations)
def test_ours_is_what_start_next_says_however_wrong_the_estimates(
    works: dict[str, Work], actual: dict[str, float]
) -> None:
    assert simulate(works, MACHINE, actual=actual).starts == stepped(works, actual)


@pytest.mark.parametrize("policy", POLICIES)
@given(many_works(), durations)
def test_needs_and_limits_hold_under_every_policy(
    policy: Policy, works: dict[str, Work], actual: dict[str, float]
) -> None:
    schedule = simulate(works, MACHINE, policy, actual=actual)
    starts, ends = schedule.starts, schedule.ends
    assert starts.keys() == ends.keys() == works.keys()
    for name, work in works.items():
        assert ends[name] == starts[name] + actual.get(name, work.seconds)
        assert all(ends[need] <= starts[name] for need in work.needs)
        beside = [works[other] for other in works if starts[other] <= starts[name] < ends[other]]
        if len(beside) > 1:
            assert sum(other.cpus for other in beside) <= MACHINE.cpus
            assert sum(other.memory for other in beside) <= MACHINE.memory


@pytest.mark.parametrize("policy", POLICIES)
@given(many_works())
def test_nothing_beats_the_lower_bound(policy: Policy, works: dict[str, Work]) -> None:
    assert simulate(works, MACHINE, policy).makespan >= lower_bound(works, MACHINE) - 1e-9


@given(many_works(most_cpus=1, most_memory=0))
def test_with_slots_alone_a_run_keeps_the_bound_of_list_schedules(works: dict[str, Work]) -> None:
    """No list schedule is longer than the longest path and all work spread evenly together (Graham, 1966)."""
    spread = sum(work.seconds for work in works.values()) / MACHINE.cpus
    endless = Limits(1000, 0)
    longest = simulate(works, endless).makespan
    assert longest == lower_bound(works, endless)
    for policy in ("urgent", "fifo"):
        assert simulate(works, MACHINE, policy).makespan <= longest + spread


def chains() -> dict[str, Work]:
    """Return two chains of three, 6 1 1 and 1 6 1 seconds: a round waits for the slower of two."""
    works = {}
    for chain, lengths in (("a", (6, 1, 1)), ("b", (1, 6, 1))):
        for number, seconds in enumerate(lengths):
            needs = (f"{chain}{number - 1}",) if number else ()
            works[f"{chain}{number}"] = Work(f"{chain}{number}", needs, seconds)
    return works


@pytest.mark.parametrize(("policy", "makespan"), [("urgent", 8), ("fifo", 8), ("barrier", 13)])
def test_rounds_wait_for_the_slowest(policy: Policy, makespan: float) -> None:
    assert simulate(chains(), MACHINE, policy).makespan == makespan


@pytest.mark.parametrize(("policy", "makespan"), [("urgent", 10), ("fifo", 13), ("barrier", 13)])
def test_only_ours_starts_the_longest_first(policy: Policy, makespan: float) -> None:
    works = {name: Work(name, (), seconds) for name, seconds in (("a", 3), ("b", 3), ("c", 3), ("z", 10))}
    assert simulate(works, Limits(2, 0), policy).makespan == makespan


def test_a_big_step_does_not_starve_behind_small_ones() -> None:
    """Small ones come and go on both CPUs; one that wants both starts when the first two are over."""
    works = {f"s{number:02d}": Work(f"s{number:02d}", (), 5 + number % 2) for number in range(20)}
    works["root"] = Work("root", (), 4)
    works["big"] = Work("big", ("root",), 1000, cpus=2)
    ours, fifo = simulate(works, Limits(2, 0)), simulate(works, Limits(2, 0), "fifo")
    assert ours.starts["big"] == 6
    assert fifo.starts["big"] > 50


def test_the_bound_counts_path_cpus_and_memory() -> None:
    works = {name: Work(name, (), 10, memory=3) for name in "abcd"}
    assert lower_bound(works, Limits(4, 100)) == 10
    assert lower_bound(works, Limits(2, 100)) == 20
    assert lower_bound(works, Limits(4, 4)) == 30
    assert lower_bound(works | {"e": Work("e", ("a",), 25, memory=1)}, Limits(4, 100)) == 35
    assert lower_bound({}, MACHINE) == 0


def test_given_priorities_are_followed() -> None:
    works = {"a": Work("a", (), 1), "b": Work("b", (), 2)}
    assert simulate(works, Limits(1, 0), urgency={"a": 2, "b": 1}).starts == {"a": 0, "b": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_circle_is_an_error(policy: Policy) -> None:
    with pytest.raises(CycleError):
        simulate({"a": Work("a", ("b",)), "b": Work("b", ("a",))}, MACHINE, policy)
