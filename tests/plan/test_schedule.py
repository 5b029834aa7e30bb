"""Which step starts next."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import CycleError
from orchestrator.plan.schedule import Limits, Running, Work, Works, priorities, remaining, start_next

FOUR = Limits(4, 8)


def table(*works: Work) -> dict[str, Work]:
    return {work.name: work for work in works}


@st.composite
def many_works(draw: st.DrawFn) -> dict[str, Work]:
    works: list[Work] = []
    for number in range(draw(st.integers(1, 10))):
        needs = draw(st.lists(st.sampled_from(works), max_size=2)) if works else []
        works.append(
            Work(
                f"w{number}",
                tuple(need.name for need in needs),
                float(draw(st.integers(1, 20))),
                draw(st.integers(1, 6)),
                draw(st.integers(0, 10)),
            )
        )
    return table(*draw(st.permutations(works)))


limits = st.builds(Limits, st.integers(1, 5), st.integers(0, 9))


@dataclass(frozen=True)
class Decision:
    """What was asked of `start_next`, and what it said."""

    running: tuple[Running, ...]
    done: frozenset[str]
    failed: frozenset[str]
    started: tuple[str, ...]


def walk(works: Works, machine: Limits, failing: frozenset[str] = frozenset()) -> list[Decision]:
    """Let a run go by the clock; return all decisions."""
    now = 0.0
    heap: list[tuple[float, str]] = []
    done: set[str] = set()
    failed: set[str] = set()
    decisions: list[Decision] = []
    while True:
        running = tuple(Running(name, end - now) for end, name in heap)
        started = start_next(works, running, machine, done=done, failed=failed)
        decisions.append(Decision(running, frozenset(done), frozenset(failed), started))
        for name in started:
            heapq.heappush(heap, (now + works[name].seconds, name))
        if not heap:
            return decisions
        now = heap[0][0]
        while heap and heap[0][0] == now:
            _, name = heapq.heappop(heap)
            (failed if name in failing else done).add(name)


def spoiled(works: Works, failing: frozenset[str]) -> set[str]:
    """Return what needs one of `failing`, however far."""
    found: set[str] = set()
    for _ in works:
        found |= {name for name, work in works.items() if {*work.needs} & (failing | found)}
    return found


def earliest(work: Work, busy: list[tuple[float, Work]], machine: Limits) -> float:
    """Return when a work can start beside what runs, tried time by time."""
    wanted = machine.held(work)
    for time in sorted({0.0, *(left for left, _ in busy)}):
        held = [machine.held(other) for left, other in busy if left > time]
        cpus, memory = sum(item[0] for item in held), sum(item[1] for item in held)
        if cpus + wanted[0] <= machine.cpus and memory + wanted[1] <= machine.memory:
            return time
    raise AssertionError


@given(many_works(), limits, st.sets(st.integers(0, 9), max_size=3))
def test_all_that_can_be_done_is_done_once_within_the_limits(
    works: dict[str, Work], machine: Limits, chosen: set[int]
) -> None:
    failing = frozenset(f"w{number}" for number in chosen) & works.keys()
    decisions = walk(works, machine, failing)
    for step in decisions:
        now = [works[name] for name in (*(item.name for item in step.running), *step.started)]
        if len(now) > 1:
            assert sum(work.cpus for work in now) <= machine.cpus
            assert sum(work.memory for work in now) <= machine.memory
        for name in step.started:
            assert {*works[name].needs} <= step.done
    started = [name for step in decisions for name in step.started]
    assert sorted(started) == sorted(works.keys() - spoiled(works, failing))


@given(many_works(), limits)
def test_what_is_less_urgent_never_delays_what_waits(works: dict[str, Work], machine: Limits) -> None:
    urgent = priorities(works)
    for step in walk(works, machine):
        over = {*step.done, *step.started, *(item.name for item in step.running)}
        waiting = [work for name, work in works.items() if name not in over and {*work.needs} <= step.done]
        if not waiting:
            continue
        head = min(waiting, key=lambda work: (-urgent[work.name], work.name))
        busy = [(item.left, works[item.name]) for item in step.running]
        started = [works[name] for name in step.started]
        before = [
            work for work in started if (-urgent[work.name], work.name) < (-urgent[head.name], head.name)
        ]
        with_urgent = busy + [(work.seconds, work) for work in before]
        with_all = busy + [(work.seconds, work) for work in started]
        assert earliest(head, with_all, machine) == earliest(head, with_urgent, machine) > 0


@given(many_works(), limits)
def test_the_order_of_the_works_does_not_matter(works: dict[str, Work], machine: Limits) -> None:
    assert walk(dict(reversed(works.items())), machine) == walk(works, machine)


@given(many_works())
def test_a_priority_is_the_longest_path_to_the_end(works: dict[str, Work]) -> None:
    def longest(name: str) -> float:
        after = (longest(other) for other, work in works.items() if name in work.needs)
        return works[name].seconds + max(after, default=0.0)

    assert priorities(works) == {name: longest(name) for name in works}


def test_the_longest_way_to_the_end_goes_first_and_equals_go_by_name() -> None:
    works = table(
        Work("short", seconds=30),
        Work("b", seconds=10),
        Work("c", seconds=10),
        Work("a", seconds=10),
        Work("root", seconds=1),
        Work("long", ("root",), 100),
    )
    assert start_next(works, (), Limits(4, 0), done=()) == ("root", "short", "a", "b")
    assert start_next(works, (), Limits(4, 0), done=("root",)) == ("long", "short", "a", "b")


def test_given_priorities_are_followed() -> None:
    works = table(Work("a", seconds=10), Work("b", seconds=20))
    assert start_next(works, (), Limits(1, 0), done=(), urgency={"a": 2, "b": 1}) == ("a",)


def test_a_need_outside_the_run_is_there_already() -> None:
    assert start_next(table(Work("vllm", ("torch",))), (), FOUR, done=()) == ("vllm",)


def test_what_needs_a_failed_one_never_starts_and_the_rest_goes_on() -> None:
    works = table(Work("torch"), Work("vllm", ("torch",)), Work("top", ("vllm",)), Work("other"))
    assert start_next(works, (), FOUR, done=(), failed=("torch",)) == ("other",)
    assert start_next(works, (), FOUR, done=("other",), failed=("torch",)) == ()


def test_one_larger_than_the_machine_runs_alone() -> None:
    works = table(Work("huge", seconds=100, memory=99), Work("small", seconds=1))
    assert start_next(works, (), FOUR, done=()) == ("huge",)
    assert start_next(works, [Running("huge", 100)], FOUR, done=()) == ()
    assert start_next(works, [Running("small", 1)], FOUR, done=()) == ()


def test_nothing_starts_while_what_runs_holds_more_than_there_is() -> None:
    works = table(Work("old", cpus=4), Work("new"))
    assert start_next(works, [Running("old", 5)], Limits(2, 0), done=()) == ()


@pytest.mark.parametrize(("seconds", "started"), [(9, ("filler",)), (10, ("filler",)), (11, ())])
def test_a_gap_is_filled_only_by_what_ends_before_the_reserved_one_starts(
    seconds: float, started: tuple[str, ...]
) -> None:
    works = table(Work("runs", cpus=3), Work("all", seconds=1000, cpus=4), Work("filler", seconds=seconds))
    assert start_next(works, [Running("runs", 10)], FOUR, done=()) == started


def test_what_the_reserved_one_leaves_free_is_used_for_as_long_as_one_likes() -> None:
    works = table(
        Work("runs", cpus=2),
        Work("big", seconds=1000, cpus=3),
        Work("long1", seconds=500),
        Work("long2", seconds=500),
    )
    assert start_next(works, [Running("runs", 10)], FOUR, done=()) == ("long1",)


def test_memory_is_reserved_as_cpus_are() -> None:
    works = table(
        Work("runs", memory=5),
        Work("big", seconds=1000, memory=7),
        Work("fat", seconds=500, memory=2),
        Work("thin1", seconds=400, memory=1),
        Work("thin2", seconds=400, memory=1),
    )
    assert start_next(works, [Running("runs", 10)], FOUR, done=()) == ("thin1",)


def test_all_that_ends_when_the_reserved_one_starts_makes_room_beside_it() -> None:
    works = table(
        Work("runs1", cpus=2), Work("runs2"), Work("big", seconds=1000, cpus=3), Work("long", seconds=500)
    )
    assert start_next(works, [Running("runs1", 10), Running("runs2", 10)], FOUR, done=()) == ("long",)


def test_the_reserved_one_starts_at_the_first_end_that_makes_room() -> None:
    works = table(
        Work("late", cpus=2), Work("soon"), Work("big", seconds=1000, cpus=2), Work("filler", seconds=50)
    )
    assert start_next(works, [Running("late", 100), Running("soon", 10)], FOUR, done=()) == ()


def test_a_step_past_its_estimate_is_never_thought_to_end_at_once() -> None:
    assert remaining(100, 0) == 100
    assert remaining(100, 60) == 40
    assert remaining(100, 100) == 10
    assert remaining(100, 1000) == 100


def test_a_circle_is_an_error() -> None:
    with pytest.raises(CycleError):
        priorities(table(Work("a", ("b",)), Work("b", ("a",))))


@pytest.mark.parametrize(
    ("seconds", "cpus", "memory"), [(-1, 1, 0), (float("nan"), 1, 0), (1, 0, 0), (1, 1, -1)]
)
def test_a_work_without_sense_is_refused(seconds: float, cpus: int, memory: int) -> None:
    with pytest.raises(ValueError, match=r"^odd: "):
        Work("odd", (), seconds, cpus, memory)


@pytest.mark.parametrize(("cpus", "memory"), [(0, 0), (1, -1)])
def test_a_machine_without_sense_is_refused(cpus: int, memory: int) -> None:
    with pytest.raises(ValueError, match="no machine"):
        Limits(cpus, memory)
