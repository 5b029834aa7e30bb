"""What a recipe's placeholders stand for in one build: paths of its tree, layers and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.build.provide import own_requirements
from orchestrator.errors import RecipeError
from orchestrator.model import placeholders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.build.venv import Environment
    from orchestrator.plan.steps import Plan, Step

SCRATCH = "scratch"
"""The folder of a build tree that `{work}` names: for a recipe's own use."""


def words_of(
    step: Step, plan: Plan, *, tree: Path, main: Path, layers: Sequence[Path], environment: Environment
) -> dict[str, str]:
    """Return placeholder -> text for one step; without `requires` when it has no layer of requirements.

    Args:
        step: what is built.
        plan: the plan that it is part of.
        tree: its build tree.
        main: its main source.
        layers: those of its environment, the layer of its own requirements last.
        environment: its build environment.
    """
    words = {
        "src": str(main),
        "work": str(tree / SCRATCH),
        "python": str(environment.python),
        "out": str(tree / "out"),
        "version": step.keyed.version,
    }
    if layers and own_requirements(plan, step):
        words["requires"] = str(layers[-1] / "site")
    return words


def filled(text: str, words: Mapping[str, str], *, name: str) -> str:
    """Return a text of the recipe `name` with its placeholders filled in.

    Raises:
        RecipeError: it wants the folder of requirements, and the step has none of its own.
    """
    try:
        return placeholders.filled(text, words)
    except KeyError as error:
        raise RecipeError(
            f"recipe {name}: {{{error.args[0]}}} stands for nothing in this build",
            hint="all its build.requires come with what it is built on; name a file in another way",
        ) from error
