"""The audit of published wheels: made once, of what lies unpacked, else of the wheel, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.build import verdict
from orchestrator.store.audits import keep_audit, read_audit
from orchestrator.store.manifest import Audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from orchestrator.audit.question import Question
    from orchestrator.audit.report import DeviceReport, SpecReport
    from orchestrator.model.lock import LockedFile
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


def audited(
    home: Home, step: KeyedStep, fetch: Callable[[LockedFile], Path] | None = None
) -> tuple[Audit, SpecReport | None] | None:
    """Return the audit of a prebuilt, made now unless it is remembered; None when it is not here.

    The report is only there when it was made now.

    Args:
        home: where layers and audits lie.
        step: a prebuilt.
        fetch: returns the published wheel, and is asked for what lies nowhere unpacked. Without it that is
            not audited.

    Raises:
        SpecError: it does not hold what its name says.
        MachineError and its kin: there is no room, or an assembler does not end.
        SparkbuildError: what `fetch` raises.
    """
    if step.key is None or step.locked.prebuilt is None:
        return None
    key = verdict.key_of(step, [step.key])
    audit = read_audit(home, key)
    if audit is not None:
        return audit, None
    file = step.locked.prebuilt
    place = _unpacked(home, step)
    if place is None and fetch is not None:
        place = fetch(file)
    if place is None:
        return None
    from orchestrator.audit.question import Question
    from orchestrator.build.assembling import assemble

    # Without a policy it is a stranger's wheel: all device code must load.
    policy = verdict.expectations(step.policy, step.entries, step.devices) or None
    report = _read(place, file.name, Question(devices=step.devices, policy=policy))
    made = assemble(step.assembled, {file.file: place}, scratch=home.work)
    report, coverage = made.judged(report), made.told(coverage_of(report))
    audit = Audit(key=key, verdict=report.verdict, coverage=coverage)
    keep_audit(home, audit)
    return audit, report


def _unpacked(home: Home, step: KeyedStep) -> Path | None:
    """Return a folder from which a prebuilt can be imported, if something that was built laid it there."""
    from orchestrator.build.layers import find_layer

    file = step.locked.prebuilt
    if file is None:
        return None
    layer = find_layer((file, *step.locked.run), home=home)
    site = layer.site if layer is not None else home.wheels / file.sha256 / "site"
    return site if site.is_dir() else None


def _read(place: Path, name: str, question: Question) -> SpecReport:
    """Audit a distribution in a folder, or a wheel."""
    from orchestrator.inspect.specs import audit_distribution
    from orchestrator.inspect.wheel import audit_wheels

    if place.is_dir():
        return audit_distribution(place, name, question)
    return audit_wheels([place], question, spec=name)


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
