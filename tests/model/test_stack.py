"""What a stack changes about its recipes, and what a request changes about a stack."""

from __future__ import annotations

import msgspec
import pytest
from samples import KERNELS, STACK

from orchestrator.errors import RecipeError, UnknownNameError
from orchestrator.model.recipe import Source, When
from orchestrator.model.stack import Component, OtherSource, recipe_in, with_prebuilt

HERE = Source(sdist="kernels", env="KERNELS_SRC", when=When(version=">=1"))
RECIPE = msgspec.structs.replace(KERNELS, sources={"main": HERE, "cutlass": Source(git="https://a/cutlass")})


def test_a_stack_says_where_a_source_comes_from_and_the_recipe_how_it_is_used() -> None:
    other = OtherSource(git="https://b/kernels", submodules=False)
    found = recipe_in(RECIPE, Component(version="1.0", sources={"main": other}))
    assert found.sources["main"] == Source(
        git="https://b/kernels", submodules=False, env="KERNELS_SRC", when=When(version=">=1")
    )
    assert found.sources["cutlass"] == RECIPE.sources["cutlass"]
    assert recipe_in(found, Component(version="1.0", sources={"main": other})) == found


def test_a_stack_that_names_no_source_changes_nothing() -> None:
    assert recipe_in(RECIPE, Component(version="1.0")) is RECIPE


def test_a_source_that_the_recipe_does_not_have() -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_in(RECIPE, Component(version="1.0", sources={"cutlas": OtherSource(sdist="x")}))
    assert "'cutlas' of kernels" in caught.value.message
    assert caught.value.hint == "did you mean cutlass?"


def test_what_is_named_is_taken_as_published() -> None:
    found = with_prebuilt(STACK, ("kernels", "pytorch"))
    assert [name for name, each in found.components.items() if each.prebuilt] == ["pytorch", "kernels"]
    assert found.components["kernels"].version == STACK.components["kernels"].version
    assert with_prebuilt(STACK, ()) is STACK
    with pytest.raises(UnknownNameError, match="no recipe in stack demo named 'kernel'"):
        with_prebuilt(STACK, ("kernel",))
