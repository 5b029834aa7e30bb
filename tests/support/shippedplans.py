"""Plans of the shipped recipes on a published torch. Only the hashes of their sources are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from samples import LOCK, STACK, locked_file, plan_inputs

from orchestrator.model.arch import parse_request
from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.lock import LockedComponent, LockedSource
from orchestrator.model.stack import Component
from orchestrator.plan.planner import decide, keyed_steps

if TYPE_CHECKING:
    from orchestrator.model.recipe import Recipe
    from orchestrator.plan.steps import Plan

VERSIONS = {
    "causal-conv1d": "1.7.0",
    "flash-attn": "2.8.3.post2",
    "flash-attn-3": "3.0.0",
    "flashmla": "1.0.0",
    "mamba-ssm": "2.3.2.post1",
    "qutlass": "0.2.0",
}


def shipped_catalog() -> Catalog:
    """Return what is shipped, without a user's own folders."""
    return Catalog(find_places()[-1:])


def shipped_plan(arch: str, *names: str) -> Plan:
    """Plan for `arch` what `names` take in; all recipes of `VERSIONS` where none is named.

    Raises:
        What `keyed_steps` raises.
    """
    catalog = shipped_catalog()
    recipes = {name: catalog.recipe(name) for name in ("pytorch", *VERSIONS)}
    torch = {"pytorch": STACK.components["pytorch"]}
    versions = {name: Component(version=version) for name, version in VERSIONS.items()}
    locked = {name: _locked(recipes[name], version) for name, version in VERSIONS.items()}
    inputs = plan_inputs(
        stack=msgspec.structs.replace(STACK, components=torch | versions),
        lock=msgspec.structs.replace(LOCK, components={"pytorch": LOCK.components["pytorch"]} | locked),
        recipes=recipes,
        arch=parse_request(arch),
    )
    return decide(inputs, keyed_steps(inputs, names), {}, {})


def _locked(recipe: Recipe, version: str) -> LockedComponent:
    sources = {
        name: LockedSource(commit="c0ffee" * 6 + "c0ff", submodules={})
        if source.git
        else LockedSource(file=locked_file(recipe.name, version))
        for name, source in recipe.sources.items()
    }
    return LockedComponent(version=version, sources=sources)
