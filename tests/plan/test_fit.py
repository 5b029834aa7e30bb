"""Whether a stack and its recipes fit together."""

from __future__ import annotations

import msgspec
import pytest
from samples import KERNELS, PURE, STACK, TORCH

from orchestrator.errors import CycleError, RecipeError
from orchestrator.model.recipe import Needs, Recipe, Source
from orchestrator.model.stack import Component
from orchestrator.plan.fit import stack_graph

RECIPES = {"pytorch": TORCH, "kernels": KERNELS, "pure": PURE}


def changed(recipe: Recipe, **changes: object) -> dict[str, Recipe]:
    return RECIPES | {recipe.name: msgspec.structs.replace(recipe, **changes)}


def test_needs_to_build_and_to_run_are_edges_and_a_prebuilt_has_none() -> None:
    recipes = changed(TORCH, needs=Needs(run=("pure",)))
    assert stack_graph(STACK, recipes) == {"pytorch": (), "kernels": ("pytorch",), "pure": ()}


def test_a_need_that_the_stack_lacks() -> None:
    lonely = msgspec.structs.replace(STACK, components={"kernels": Component(version="1.0")})
    with pytest.raises(RecipeError, match="needs pytorch, which stack demo does not have"):
        stack_graph(lonely, RECIPES)


def test_what_has_no_build_can_only_be_prebuilt() -> None:
    built = msgspec.structs.replace(STACK, components={"pytorch": Component(version="1")})
    with pytest.raises(RecipeError, match="has no `build`") as caught:
        stack_graph(built, RECIPES)
    assert caught.value.hint == "say `prebuilt: true` in the stack"


def test_a_commit_is_for_a_git_source() -> None:
    recipes = changed(PURE, sources={"main": Source(git="https://example.test/x")})
    commits = {"mian": "1" * 40}
    stack = msgspec.structs.replace(STACK, components={"pure": Component(version="1", commits=commits)})
    with pytest.raises(RecipeError, match="no git source") as caught:
        stack_graph(stack, recipes)
    assert caught.value.hint == "did you mean main?"


def test_a_circle() -> None:
    with pytest.raises(CycleError, match="kernels -> pure -> kernels"):
        stack_graph(
            STACK,
            changed(PURE, needs=Needs(run=("kernels",)))
            | {"kernels": msgspec.structs.replace(KERNELS, needs=Needs(build=("pure",)))},
        )
