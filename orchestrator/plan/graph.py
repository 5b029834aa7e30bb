"""The graph of components: what a request takes in, in which order, and no circles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.errors import CycleError

Graph = Mapping[str, tuple[str, ...]]
"""Name -> the names that must be there before it."""


def closure(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return `roots` and all that they need, however far."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph[name])
    return seen


def build_order(graph: Graph) -> tuple[str, ...]:
    """Return every name after all that it needs; among equals, alphabetical, so that plans are stable.

    Raises:
        CycleError: names need each other; the message shows the circle.
    """
    import heapq

    missing = {name: len(set(needs)) for name, needs in graph.items()}
    dependents: dict[str, list[str]] = {name: [] for name in graph}
    for name, needs in graph.items():
        for need in set(needs):
            dependents[need].append(name)
    ready = [name for name, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for dependent in dependents[name]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                heapq.heappush(ready, dependent)
    if len(order) < len(graph):
        circle = _circle(graph, {name for name, count in missing.items() if count})
        raise CycleError(
            f"recipes need each other: {' -> '.join(circle)}",
            hint="take one of these out of the other's `needs`",
        )
    return tuple(order)


def _circle(graph: Graph, stuck: set[str]) -> list[str]:
    """Return one circle among `stuck`, its first name repeated at the end, smallest name first."""
    path: list[str] = []
    name = min(stuck)
    while name not in path:
        path.append(name)
        name = min(need for need in graph[name] if need in stuck)
    circle = path[path.index(name) :]
    start = circle.index(min(circle))
    circle = circle[start:] + circle[:start]
    return [*circle, circle[0]]
