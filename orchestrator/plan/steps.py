"""What a plan is made of, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.arch import Device, Entry
    from orchestrator.model.lock import LockedComponent
    from orchestrator.model.recipe import ModulePolicy
    from orchestrator.model.when import ResolvedRecipe

Action = Literal["build", "reuse", "prebuilt", "not-applicable"]
Basis = Literal["seen", "unfinished", "recipe", "nothing"]
"""What an estimate of CPU time stands on: a finished build, a part of one, the recipe's figure, nothing."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a step took last time, or is thought to take; None where nobody knows. See `plan.estimate`."""

    cpu_s: float | None = None
    peak_bytes: int | None = None
    """Of its largest compiler call, or process."""
    disk_bytes: int | None = None
    units: int | None = None
    """Compiler calls, links among them; None where no build was finished, or none was counted."""
    longest_s: float = 0.0
    """CPU seconds of its longest unit: no number of CPUs makes it shorter."""
    typical_bytes: int | None = None
    """What one running unit takes on average; None of a step that compiles nothing."""
    total_bytes: int | None = None
    """All units together; None where they are not all known."""
    basis: Basis = "nothing"


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
    """Build key, or the sha256 of a prebuilt; None when not applicable, or a commit is not known yet."""
    reason: str | None = None
    """Why it is not applicable, or has no key."""
    entries: tuple[Entry, ...] = ()
    arch: str = ""
    """Normal form of the effective arches; empty when the arch does not reach the build."""
    devices: tuple[Device, ...] = ()
    needs: tuple[str, ...] = ()
    build_needs: tuple[str, ...] = ()
    recipe: ResolvedRecipe | None = None
    policy: tuple[ModulePolicy, ...] = ()
    """What is expected of its modules."""
    assembled: tuple[tuple[str, str], ...] = ()
    """(program inside its wheel, machine code that it must be able to make), sorted."""
    arch_env: Mapping[str, str] = field(default_factory=dict)
    ingredients: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unverified: Mapping[str, str] = field(default_factory=dict)
    """Patch -> why it is `unverified-at-pin`: nobody has judged it at what the stack pins of its source."""

    @property
    def unread(self) -> bool:
        """Whether it builds from a commit that nobody has read yet, or on something that does."""
        return self.kind == "build" and self.key is None

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
    saved: Estimate | None = None
    """Of a prebuilt that could be built: what its build is thought to take."""
    coverage: str | None = None
    """Of a prebuilt: what its audit found; None when it was never audited."""

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self.keyed.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be known of it. What was built before has shown that its patches apply."""
        unverified = self.keyed.unverified if self.action == "build" else {}
        return (*self.keyed.notes, *(f"patch {name} is {why}" for name, why in unverified.items()))

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
                "units": self.estimate.units,
            },
            "notes": list(self.notes),
            **self._published(),
        }

    def _published(self) -> dict[str, Any]:
        if self.action != "prebuilt":
            return {}
        saved = self.saved
        told = None if saved is None else {"cpu_s": saved.cpu_s, "basis": saved.basis}
        return {"published": {"saves": told, "coverage": self.coverage}}


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
