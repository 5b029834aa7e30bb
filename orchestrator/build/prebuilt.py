"""The audit of published wheels: made once from the layer in which one lies unpacked, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.build import verdict
from orchestrator.store.audits import keep_audit, read_audit
from orchestrator.store.manifest import Audit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.audit.report import DeviceReport, SpecReport
    from orchestrator.plan.steps import KeyedStep
    from orchestrator.store.home import Home


def known(home: Home, steps: Iterable[KeyedStep]) -> dict[str, str]:
    """Return component -> what an audit found, of those prebuilts that were audited for these devices."""
    found: dict[str, str] = {}
    for step in steps:
        if step.kind == "prebuilt" and step.key is not None:
            audit = read_audit(home, verdict.key_of(step, [step.key]))
            if audit is not None:
                found[step.name] = audit.coverage
    return found


def audited(home: Home, step: KeyedStep) -> tuple[Audit, SpecReport | None] | None:
    """Return the audit of a prebuilt, made now unless it is remembered; None when no layer holds it.

    The report is only there when it was made now.

    Args:
        home: where layers and audits lie.
        step: a prebuilt.

    Raises:
        SpecError: the layer does not hold what its name says.
    """
    if step.key is None or step.locked.prebuilt is None:
        return None
    key = verdict.key_of(step, [step.key])
    audit = read_audit(home, key)
    if audit is not None:
        return audit, None
    from orchestrator.build.layers import find_layer

    layer = find_layer((step.locked.prebuilt, *step.locked.run), home=home)
    if layer is None:
        return None
    from orchestrator.audit.question import Question
    from orchestrator.inspect.specs import audit_distribution

    # Without a policy it is a stranger's wheel: all device code must load.
    policy = verdict.expectations(step.policy, step.entries, step.devices) or None
    question = Question(devices=step.devices, policy=policy)
    report = audit_distribution(layer.site, step.locked.prebuilt.name, question)
    audit = Audit(key=key, verdict=report.verdict, coverage=coverage_of(report))
    keep_audit(home, audit)
    return audit, report


def coverage_of(report: SpecReport) -> str:
    """Return how the units of a wheel run, such as `1 exact, 540 compatible of 541 units on 12.1`."""
    return "; ".join(filter(None, map(_on, report.devices))) or "host only"


def _on(device: DeviceReport) -> str:
    counts = {"exact": 0, "compatible": 0, "by JIT": 0, "not at all": 0}
    for module in device.modules:
        counts["exact"] += module.counts.exact
        counts["compatible"] += module.counts.compatible
        counts["by JIT"] += module.counts.jit
        counts["not at all"] += module.counts.none
    total = sum(counts.values())
    told = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return f"{told} of {total} units on {device.device}" if total else ""
