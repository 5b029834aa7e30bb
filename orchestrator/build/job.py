"""One step that is built, and what is there for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.build.words import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.build.gated import Gatehouse
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.provide import Provided
    from orchestrator.build.session import Session
    from orchestrator.build.venv import Environment
    from orchestrator.plan.steps import Step


@dataclass(frozen=True, slots=True)
class Trees:
    """Where a step's sources lie."""

    main: Path
    sources: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the commands of a step need at hand."""

    step: Step
    prepared: Prepared
    """The plan that it is part of."""
    provided: Provided
    """Layers and toolkit."""
    session: Session
    house: Gatehouse
    """The run's broker, which every compiler asks for a turn."""
    trees: Trees
    """Patched sources."""
    environment: Environment
    """Holds layers and the wheels of built components."""
    urgency: float = 0.0
    """The compilers of the most urgent step go first."""

    @property
    def work(self) -> Path:
        """The folder of its build tree."""
        return self.session.work(self.step)

    @property
    def log(self) -> Path:
        """Its log."""
        return self.session.log(self.step.name)

    def words(self) -> dict[str, str]:
        """Return what stands for the placeholders of its recipe."""
        return words_of(
            self.step,
            self.prepared.plan,
            tree=self.work,
            main=self.trees.main,
            layers=self.provided.layers.get(self.step.name, ()),
            environment=self.environment,
        )
