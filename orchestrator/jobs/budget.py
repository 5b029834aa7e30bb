"""Which units may run now, and which must end: pure functions of what waits, what runs, and what is free.

Memory is what a build runs out of. A unit may start when what it is expected to take fits into what is
available now, less a reserve, less what the running ones are still expected to grow by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 60.0
"""Seconds after which no other unit may overtake one that waits for memory."""
_AHEAD = 32
"""Waiting units that are planned for; the others come later anyway."""
_TRIED = 100
"""Orders that are tried at most beside the three plain ones: 0.25 ms each for 32 units."""
_TRIED_PER_S = 8
"""Orders that are tried for each second of a unit that waits: short units are not thought about for long."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A unit that waits for its turn."""

    unit: int
    memory: int
    """Bytes that it is expected to take at its peak."""
    seconds: float
    """Seconds that it is expected to run."""
    since: float
    """When it asked; seconds on a clock that only goes forward."""
    urgency: float = 0.0
    """Of its step: the more, the sooner."""
    alone: bool = False
    """It failed for want of memory, or crashed, and is tried again with nothing beside it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A unit that runs."""

    unit: int
    memory: int
    """Bytes that it was expected to take at its peak."""
    used: int
    """Bytes that it takes now."""
    since: float
    """When it started."""
    seconds: float = 0.0
    """Seconds that it was expected to run."""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What there is."""

    slots: int
    """Units that may run at a time."""
    available: int
    """Bytes that can be had now, on top of what the running units take."""
    reserve: int
    """Bytes that are left to everything else."""
    budget: int | None = None
    """Bytes that all units together may take; None: whatever is available."""

    def left(self, running: Sequence[Grant]) -> int:
        """Return the bytes that a new unit may take; below zero when too much was promised."""
        left = self.available - self.reserve - sum(max(0, grant.memory - grant.used) for grant in running)
        if self.budget is not None:
            left = min(left, self.budget - sum(max(grant.memory, grant.used) for grant in running))
        return left


def start_now(waiting: Sequence[Wish], running: Sequence[Grant], room: Room, now: float) -> tuple[Wish, ...]:
    """Return the units that may start now.

    The units of the most urgent step come first; among these, what lets all of them end soonest. One that
    does not fit lets others pass, but not for ever. When nothing runs, one unit always starts, whatever
    it takes: it could never fit better.
    """
    if not waiting or len(running) >= room.slots or any(grant.alone for grant in running):
        return ()
    if running and min(wish.memory for wish in waiting) > room.left(running):
        return ()
    late = [wish for wish in waiting if now - wish.since > PATIENCE_S]
    oldest = min(late, key=lambda wish: (wish.since, wish.unit), default=None)
    if oldest is not None and (oldest.alone or oldest.memory > room.left(running)):
        return () if running else (oldest,)
    # what is tried alone comes last, so that it stops nobody
    others = [wish for wish in waiting if not wish.alone]
    if not others:
        return () if running else (min(waiting, key=lambda wish: (wish.since, wish.unit)),)
    urgency = max(wish.urgency for wish in others)
    first = _soonest([wish for wish in others if wish.urgency == urgency], running, room, now)
    chosen = [oldest] if oldest is not None and oldest not in first else []
    for wish in (*first, *sorted(others, key=lambda wish: (-wish.urgency, -wish.seconds, wish.unit))):
        taken = [*running, *(Grant(one.unit, one.memory, 0, now) for one in chosen)]
        if len(taken) >= room.slots:
            break
        if wish not in chosen and (not taken or wish.memory <= room.left(taken)):
            chosen.append(wish)
    return tuple(chosen)


def end_now(running: Sequence[Grant], room: Room) -> Grant | None:
    """Return the unit to end before the machine runs out of memory: the newest; never the only one."""
    if len(running) < 2 or room.available >= room.reserve // 2:  # noqa: PLR2004 - one may take what there is
        return None
    return max(running, key=lambda grant: (grant.since, grant.unit))


def _soonest(waiting: Sequence[Wish], running: Sequence[Grant], room: Room, now: float) -> tuple[Wish, ...]:
    """Return what starts now in the order that ends soonest, of several that are tried.

    Packing seconds and bytes is hard (it holds bin packing); the largest first by their share of the
    scarcer resource is good, and the best of a few orders near that is within a few percent.
    """
    space = max(1, room.left(running) + sum(max(grant.memory, grant.used) for grant in running))
    waiting = sorted(waiting, key=lambda wish: (-_share(wish, room.slots, space), wish.unit))[:_AHEAD]
    orders = [
        waiting,
        sorted(waiting, key=lambda wish: (-wish.seconds, wish.unit)),
        sorted(waiting, key=lambda wish: (-wish.seconds * wish.memory**0.5, wish.unit)),
    ]
    mean = sum(wish.seconds for wish in waiting) / len(waiting)
    for number in range(min(_TRIED, int(_TRIED_PER_S * mean)) if len(waiting) > 1 else 0):
        key = {wish.unit: -_share(wish, room.slots, space) * _weight(wish.unit, number) for wish in waiting}
        orders.append(sorted(waiting, key=lambda wish: key[wish.unit]))
    busy = [(max(now, grant.since + grant.seconds) - now, max(grant.memory, grant.used)) for grant in running]
    plans = (_played(order, busy, room.slots, space) for order in orders)
    return min(plans, key=lambda plan: plan[0])[1]


def _weight(unit: int, number: int) -> float:
    """Return a number from 0.5 to 1.5 that looks like chance, the same each time.

    So the order that was best remains among those that are tried, however few units are left of it.
    """
    mixed = (unit * 0x9E3779B1 + number * 0x85EBCA77) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 15) * 0x2C1B3C6D) & 0xFFFFFFFF
    return 0.5 + ((mixed ^ mixed >> 12) & 0xFFFF) / 0x10000


def _share(wish: Wish, slots: int, space: int) -> float:
    return wish.seconds * max(wish.memory / space, 1 / slots)


def _played(
    order: Sequence[Wish], busy: Sequence[tuple[float, int]], slots: int, space: int
) -> tuple[float, tuple[Wish, ...]]:
    """Return the seconds that it takes when units start in this order as they fit, and who starts now."""
    running, waiting = list(busy), list(order)
    used = sum(memory for _, memory in running)
    clock, first = 0.0, None
    while waiting or running:
        started = []
        for wish in waiting:
            if len(running) >= slots:
                break
            if used + wish.memory <= space or not running:
                started.append(wish)
                running.append((clock + wish.seconds, wish.memory))
                used += wish.memory
        first = tuple(started) if first is None else first
        waiting = [wish for wish in waiting if wish not in started]
        clock = min(end for end, _ in running)
        used -= sum(memory for end, memory in running if end <= clock)
        running = [item for item in running if item[0] > clock]
    return clock, first or ()
