"""What a lock was made from, as one digest: a lock whose digest differs is stale. Pure and cheap."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.model.stack import recipe_in
from orchestrator.model.when import holds, main_kind, requirements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import Recipe, Source
    from orchestrator.model.stack import Component, Stack

FORMAT = 1
"""Raised by hand when locks are resolved differently and all must be made anew."""


def lock_inputs(stack: Stack, recipes: Mapping[str, Recipe], target: Target) -> str:
    """Return the sha256 of all that reaches the resolver and the source lookup.

    That is pins, prebuilt flags, commits, constraints, the toolkit's packages, build requirements, what of
    the stack is built upon, and where sources come from. A summary, a policy, patches, commands or variables
    do not make a lock stale.

    Args:
        stack: the stack.
        recipes: at least the recipes of its components, by name.
        target: the platform and Python of the lock.
    """
    components = {
        name: _component(component, recipes[name], target) for name, component in stack.components.items()
    }
    for name in built_upon(stack, recipes):
        if not stack.components[name].prebuilt:
            components[name]["built upon"] = True
    packages = sorted(stack.toolkit.packages) if stack.toolkit else []
    inputs = [FORMAT, stack.name, target.platform, target.python, packages, components]
    if stack.constraints:
        inputs.append(sorted(stack.constraints))
    return hashlib.sha256(msgspec.json.encode(inputs, order="sorted")).hexdigest()


def built_upon(stack: Stack, recipes: Mapping[str, Recipe]) -> tuple[str, ...]:
    """Return the components that others of the stack have in their build environment, sorted."""
    needed = {
        need
        for name, component in stack.components.items()
        if not component.prebuilt
        for need in recipes[name].needs.build
    }
    return tuple(sorted(needed & stack.components.keys()))


def locked_sources(recipe: Recipe, *, version: str, platform: str) -> dict[str, Source]:
    """Return the sources that a lock for this version and platform holds, those of every arch together."""
    return {
        name: source
        for name, source in recipe.sources.items()
        if holds(source.when, version=version, arches=None, platform=platform, source=main_kind(recipe))
    }


def _component(component: Component, recipe: Recipe, target: Target) -> dict[str, Any]:
    if component.prebuilt:
        return {"version": component.version, "prebuilt": recipe.wheel_name}
    recipe = recipe_in(recipe, component)
    sources = locked_sources(recipe, version=component.version, platform=target.platform)
    more = {"published": recipe.wheel_name} if component.published else {}
    return {
        **more,
        "version": component.version,
        "commits": component.commits,
        "requires": sorted(requirements(recipe, version=component.version, platform=target.platform)),
        "sources": {
            name: [source.sdist, source.git, source.archive, source.local, source.submodules]
            for name, source in sources.items()
        },
    }
