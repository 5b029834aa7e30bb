"""Whether a stack and its recipes fit together: who needs whom, and what can be built at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import RecipeError, near_miss
from orchestrator.plan.graph import build_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Component, Stack
    from orchestrator.plan.graph import Graph


def stack_graph(stack: Stack, recipes: Mapping[str, Recipe]) -> Graph:
    """Return component -> what it needs, to be built or to be used; a prebuilt one brings its own.

    Raises:
        RecipeError: a component cannot be had in the way the stack asks for; says what to write where.
        CycleError: components need each other.
    """
    graph = {}
    for name, component in stack.components.items():
        where = f"stack {stack.name}, component {name}"
        _check_component(component, recipes[name], where)
        needs = () if component.prebuilt else (*recipes[name].needs.build, *recipes[name].needs.run)
        for need in needs:
            if need not in stack.components:
                raise RecipeError(
                    f"needs {need}, which stack {stack.name} does not have",
                    where=where,
                    hint=f"add {need} to the stack's components",
                )
        graph[name] = tuple(dict.fromkeys(needs))
    build_order(graph)
    return graph


def _check_component(component: Component, recipe: Recipe, where: str) -> None:
    if not component.prebuilt and recipe.build is None:
        raise RecipeError("its recipe has no `build`", where=where, hint="say `prebuilt: true` in the stack")
    git = [source for source, value in recipe.sources.items() if value.git is not None]
    for source in component.commits:
        if source not in git:
            guess = near_miss(source, git)
            hint = f"did you mean {guess}?" if guess else f"git sources: {', '.join(git) or 'none'}"
            raise RecipeError(f"a commit for {source!r}, no git source of it", where=where, hint=hint)
