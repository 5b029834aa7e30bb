"""The graph of components: order, closure, circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import CycleError
from orchestrator.plan.graph import build_order, closure

DIAMOND = {"vllm": ("torch", "triton"), "triton": ("base",), "torch": ("base",), "base": ()}


def test_needs_come_first_and_equals_are_alphabetical() -> None:
    assert build_order(DIAMOND) == ("base", "torch", "triton", "vllm")


def test_closure_takes_what_is_needed_and_no_more() -> None:
    assert closure(DIAMOND, ["torch"]) == {"torch", "base"}


@pytest.mark.parametrize(
    ("graph", "shown"),
    [
        ({"a": ("a",)}, "a -> a"),
        ({"a": ("b",), "b": ("c",), "c": ("a",), "free": ()}, "a -> b -> c -> a"),
        ({"x": ("b",), "b": ("c",), "c": ("b",)}, "b -> c -> b"),
    ],
)
def test_a_circle_is_shown_from_its_smallest_name(graph: dict[str, tuple[str, ...]], shown: str) -> None:
    with pytest.raises(CycleError) as caught:
        build_order(graph)
    assert caught.value.message == f"recipes need each other: {shown}"
    assert caught.value.exit_code == 2


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    count = draw(st.integers(1, 12))
    names = [f"n{i:02d}" for i in draw(st.permutations(range(count)))]
    return {
        name: tuple(draw(st.lists(st.sampled_from(names[:i]), max_size=4))) if i else ()
        for i, name in enumerate(names)
    }


@given(graphs())
def test_every_graph_without_circles_is_ordered_whatever_its_spelling(
    graph: dict[str, tuple[str, ...]],
) -> None:
    order = build_order(graph)
    assert sorted(order) == sorted(graph)
    for name, needs in graph.items():
        assert all(order.index(need) < order.index(name) for need in needs)
    assert build_order(dict(reversed(graph.items()))) == order
