"""What is known of steps: in the store under their keys, of a component's last artifact, and of its units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.plan.estimate import UnitCosts
from orchestrator.plan.planner import Past
from orchestrator.plan.steps import Estimate
from orchestrator.store.listing import entries

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from orchestrator.plan.steps import KeyedStep
    from orchestrator.store.artifacts import Artifact, Store
    from orchestrator.store.home import Home


def known(store: Store, steps: Sequence[KeyedStep]) -> dict[str, Past]:
    """Return what the store holds under the keys of these steps."""
    found: dict[str, Past] = {}
    for step in steps:
        if step.kind != "build" or step.key is None:
            continue
        if artifact := store.get(step.key):
            found[step.key] = _past(artifact, rejected=False)
        elif artifact := store.get_rejected(step.key):
            found[step.key] = _past(artifact, rejected=True)
    return found


def latest(store: Store) -> dict[str, Past]:
    """Return recipe -> its newest artifact, served or rejected, of whatever key."""
    newest: dict[str, tuple[str, Past]] = {}
    for entry in entries(store.home):
        if entry.artifact is None:
            continue
        manifest = entry.artifact.manifest
        if manifest.name not in newest or manifest.created >= newest[manifest.name][0]:
            newest[manifest.name] = (manifest.created, _past(entry.artifact, rejected=entry.rejected))
    return {name: past for name, (_, past) in newest.items()}


def units(home: Home, names: Collection[str]) -> dict[str, UnitCosts]:
    """Return recipe -> what its compiler calls took, of those of `names` that compiled any."""
    if not names or not home.units.is_dir():
        return {}
    from orchestrator.jobs.history import last_build

    found = {}
    for name in sorted({path.stem for path in home.units.iterdir()}.intersection(names)):
        compiled = last_build(home.units / f"{name}.json")
        costs = UnitCosts.of(((cost.memory, cost.seconds) for cost in compiled.costs), whole=compiled.whole)
        if costs is not None:
            found[name] = costs
    return found


def _past(artifact: Artifact, *, rejected: bool) -> Past:
    cost = artifact.manifest.cost
    estimate = Estimate(cost.cpu_s, cost.peak_bytes, cost.disk_bytes or None, basis="seen")
    return Past(artifact.manifest.ingredients, rejected=rejected, estimate=estimate)
