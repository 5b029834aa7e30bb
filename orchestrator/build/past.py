"""What the store knows of steps: under their keys, and of a component's last artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.plan.planner import Past
from orchestrator.plan.steps import Estimate
from orchestrator.store.listing import entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.plan.steps import KeyedStep
    from orchestrator.store.artifacts import Artifact, Store


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


def _past(artifact: Artifact, *, rejected: bool) -> Past:
    cost = artifact.manifest.cost
    estimate = Estimate(cost.cpu_s, cost.peak_bytes, artifact.size)
    return Past(artifact.manifest.ingredients, rejected=rejected, estimate=estimate)
