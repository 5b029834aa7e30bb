"""What a plan is made of, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.arch import Device, Entry
    from orchestrator.model.lock import LockedComponent
    from orchestrator.model.when import ResolvedRecipe

Action = Literal["build", "reuse", "prebuilt", "not-applicable"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a step took last time; None where it was never seen."""

    cpu_s: float | None = None
    peak_bytes: int | None = None
    disk_bytes: int | None = None


UNSEEN = Estimate()


@dataclass(frozen=True, slots=True)
class KeyedStep:
    """One component with its key, before anything is known of the store."""

    name: str
    version: str
    distribution: str
    kind: Literal["build", "prebuilt", "not-applicable"]
    locked: LockedComponent
    key: str | None = None
    """Build key, or the sha256 of a prebuilt; None when not applicable."""
    reason: str | None = None
    """Why it is not applicable."""
    entries: tuple[Entry, ...] = ()
    arch: str = ""
    """Normal form of the effective arches; empty when the arch does not reach the build."""
    devices: tuple[Device, ...] = ()
    needs: tuple[str, ...] = ()
    build_needs: tuple[str, ...] = ()
    recipe: ResolvedRecipe | None = None
    arch_env: Mapping[str, str] = field(default_factory=dict)
    ingredients: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def view(self) -> ResolvedRecipe:
        """The recipe of a step that builds; ValueError for others."""
        if self.recipe is None:
            raise ValueError(f"{self.name} is not built")
        return self.recipe


@dataclass(frozen=True, slots=True)
class Step:
    """One component in a plan: what is done about it, and why."""

    keyed: KeyedStep
    action: Action
    why: str
    estimate: Estimate = UNSEEN

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self.keyed.name

    def to_json(self) -> dict[str, Any]:
        """Return the step as the plan JSON shows it."""
        keyed = self.keyed
        return {
            "name": keyed.name,
            "version": keyed.version,
            "action": self.action,
            "effective_arches": keyed.arch.split(";") if keyed.arch else [],
            "key": keyed.key,
            "why": self.why,
            "needs": list(keyed.needs),
            "estimate": {
                "cpu_s": self.estimate.cpu_s,
                "peak_bytes": self.estimate.peak_bytes,
                "disk_bytes": self.estimate.disk_bytes,
            },
            "notes": list(keyed.notes),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in build order."""

    stack: str
    arch: str
    target: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step:
        """Return the step of one recipe; KeyError when the plan has none."""
        return next(step for step in self.steps if step.name == name)

    @property
    def builds(self) -> tuple[Step, ...]:
        """The steps that build something."""
        return tuple(step for step in self.steps if step.action == "build")

    def to_json(self) -> dict[str, Any]:
        """Return the plan JSON, schema `sparkbuild.plan/1`."""
        return {
            "schema": "sparkbuild.plan/1",
            "arch": self.arch,
            "stack": self.stack,
            "target": self.target,
            "steps": [step.to_json() for step in self.steps],
        }
