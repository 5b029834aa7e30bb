"""Which units may run now, and which must end."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.jobs.budget import PATIENCE_S, Grant, Room, Wish, end_now, start_now

ROOM = Room(slots=4, available=100, reserve=10)


def wish(unit: int, memory: int, seconds: float = 1.0, *, since: float = 0.0, alone: bool = False) -> Wish:
    return Wish(unit, memory, seconds, since, alone=alone)


def started(waiting: list[Wish], running: list[Grant], room: Room, now: float = 0.0) -> set[int]:
    return {one.unit for one in start_now(waiting, running, room, now)}


def test_what_is_left_counts_what_running_units_will_still_take() -> None:
    assert ROOM.left([]) == 90
    assert ROOM.left([Grant(1, 30, 10, 0.0)]) == 70
    assert ROOM.left([Grant(1, 30, 50, 0.0)]) == 90
    assert Room(4, 1000, 0, budget=100).left([Grant(1, 30, 50, 0.0), Grant(2, 20, 5, 0.0)]) == 30


def test_as_many_start_as_fit() -> None:
    waiting = [wish(n, 40) for n in range(5)]
    assert len(started(waiting, [], ROOM)) == 2
    assert len(started(waiting, [], Room(4, 1000, 0))) == 4
    assert len(started(waiting, [Grant(9, 40, 0, 0.0)], ROOM)) == 1
    assert not started([], [], ROOM)


def test_a_small_one_passes_a_large_one_but_not_for_ever() -> None:
    running = [Grant(9, 60, 60, 0.0, 100.0)]
    room = Room(4, 50, 10)
    waiting = [wish(1, 80), wish(2, 5, since=50.0)]
    assert started(waiting, running, room, now=PATIENCE_S - 1) == {2}
    assert not started(waiting, running, room, now=PATIENCE_S + 1)
    assert started(waiting, [], room, now=PATIENCE_S + 1) == {1}


def test_one_always_starts_when_nothing_runs() -> None:
    assert started([wish(1, 10**12)], [], Room(1, 0, 100)) == {1}
    assert len(started([wish(1, 10**12), wish(2, 10**12)], [], Room(4, 0, 100))) == 1
    assert not started([wish(2, 1)], [Grant(1, 10, 10, 0.0)], Room(4, 0, 100))


def test_what_is_tried_alone_has_nothing_beside_it() -> None:
    assert not started([wish(1, 1, alone=True)], [Grant(9, 1, 1, 0.0)], ROOM)
    assert not started([wish(1, 1)], [Grant(9, 1, 1, 0.0, alone=True)], ROOM)
    assert started([wish(1, 1, alone=True), wish(2, 1)], [], ROOM) == {2}
    assert started([wish(1, 1, alone=True), wish(2, 1, alone=True)], [], ROOM) == {1}
    late = [wish(1, 1, alone=True), wish(2, 1, since=PATIENCE_S)]
    assert not started(late, [Grant(9, 1, 1, 0.0)], ROOM, now=PATIENCE_S + 1)
    assert started(late, [], ROOM, now=PATIENCE_S + 1) == {1}


def test_the_most_urgent_step_comes_first() -> None:
    waiting = [Wish(1, 80, 9.0, 0.0, urgency=1.0), Wish(2, 80, 1.0, 0.0, urgency=2.0)]
    assert started(waiting, [], ROOM) == {2}


def test_the_newest_is_ended_and_never_the_only_one() -> None:
    old, new = Grant(1, 10, 10, 0.0), Grant(2, 10, 10, 5.0)
    assert end_now([old, new], Room(4, 4, 10)) == new
    assert end_now([old, new], Room(4, 5, 10)) is None
    assert end_now([old], Room(4, 0, 10)) is None
    assert end_now([], Room(4, 0, 10)) is None


UNITS = st.lists(
    st.tuples(st.integers(0, 60), st.floats(0, 50), st.floats(0, 200), st.booleans()), min_size=1, max_size=12
)


@given(
    waiting=UNITS,
    running=UNITS | st.just([]),
    slots=st.integers(1, 6),
    available=st.integers(0, 200),
    budget=st.none() | st.integers(1, 200),
)
def test_whatever_waits_and_runs(
    waiting: list[tuple[int, float, float, bool]],
    running: list[tuple[int, float, float, bool]],
    slots: int,
    available: int,
    budget: int | None,
) -> None:
    wishes = [Wish(n, m, s, since, alone=alone) for n, (m, s, since, alone) in enumerate(waiting)]
    grants = [Grant(100 + n, m, m // 2, since, s) for n, (m, s, since, _) in enumerate(running)]
    room = Room(slots, available, 10, budget)
    chosen = start_now(wishes, grants, room, 200.0)
    assert len({one.unit for one in chosen}) == len(chosen)
    assert set(chosen) <= set(wishes)
    assert len(chosen) <= max(0, slots - len(grants))
    if not grants:
        assert chosen, "nothing would ever run"
    if chosen and len(chosen) + len(grants) > 1:
        assert room.left(grants) >= sum(one.memory for one in chosen)
    if any(one.alone for one in chosen):
        assert len(chosen) == 1
        assert not grants


def test_many_that_wait_are_answered_quickly() -> None:
    wishes = [wish(n, 1 + n % 40, 1.0 + n % 7) for n in range(200)]
    begin = time.process_time()
    for _ in range(20):
        start_now(wishes, [], ROOM, 0.0)
    assert (time.process_time() - begin) / 20 < 0.05
