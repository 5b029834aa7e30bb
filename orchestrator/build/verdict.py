"""The audit of a step's wheels against its recipe's policy, and what the manifest keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.audit.policy import Exempt, Expectation
from orchestrator.model.arch import image_names
from orchestrator.model.archvalues import loads_sass
from orchestrator.plan.key import audit_key
from orchestrator.store.manifest import Audit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from orchestrator.audit.report import SpecReport
    from orchestrator.model.archvalues import Device, Entry
    from orchestrator.model.recipe import ModulePolicy, When
    from orchestrator.plan.steps import KeyedStep


def expectations(
    modules: Iterable[ModulePolicy], entries: Sequence[Entry] = (), devices: Sequence[Device] = ()
) -> tuple[Expectation, ...]:
    """Return the policy of a recipe in the audit's terms.

    Args:
        modules: the entries that hold for the request.
        entries: the request's arches. An entry for one of several holds on the devices which that serves.
        devices: the devices to be served.
    """

    def on(when: When | None) -> frozenset[Device] | None:
        if when is None or not when.arch or len(devices) < 2:  # noqa: PLR2004 - one needs no telling apart
            return None
        named = [entry.arch for entry in entries if str(entry.arch) in when.arch]
        served = [device for device in devices if any(loads_sass(arch, device) for arch in named)]
        return frozenset(served) or None

    return tuple(
        Expectation(
            item.match,
            item.expect,
            item.reason,
            tuple(Exempt(each.kernels, each.reason, on(each.when)) for each in item.exceptions),
            item.required,
            on(item.when),
        )
        for item in modules
    )


def key_of(step: KeyedStep, wheels: Sequence[str]) -> str:
    """Return the audit key of a step's artifact, given the sha256 of each wheel."""
    devices = [str(device) for device in step.devices]
    return audit_key(wheels, step.policy, devices, step.arch, only=_only(step), assembled=step.assembled)


def _only(step: KeyedStep) -> tuple[str, ...] | None:
    files = step.recipe.files if step.recipe is not None else None
    return files.only if files is not None else None


def audit(
    step: KeyedStep,
    wheels: Sequence[Path],
    digests: Sequence[str],
    *,
    torch: Path | None = None,
    cuda_major: int | None = None,
    scratch: Path,
) -> tuple[Audit, SpecReport]:
    """Read the wheels of a step to the last byte and judge them; what fails is in the report's findings.

    The wheels of one artifact are judged as one: a pattern may match in any of them.

    Args:
        step: what they were made by.
        wheels: the wheels.
        digests: sha256 of each.
        torch: folder that holds the torch that they were built against, whose symbols they may use.
        cuda_major: of the toolkit that they were built with: libraries of another are a fault.
        scratch: a folder in which programs can run, for assemblers that the recipe names.

    Raises:
        MachineError and its kin: there is no room, or an assembler does not end.
    """
    from orchestrator.audit.question import Question
    from orchestrator.build.assembling import assemble
    from orchestrator.inspect.confirm import Disassembler
    from orchestrator.inspect.torchexports import torch_exports
    from orchestrator.inspect.wheel import audit_wheels

    policy = expectations(step.policy, step.entries, step.devices)
    # What an entry asks nvcc for is what its wheels should hold, and nothing else.
    requested = frozenset(image_names(step.entries) if step.arch else ())
    question = Question(
        devices=tuple(step.devices),
        policy=policy,
        only=_only(step),
        requested=requested,
        deep=True,
        cuda_major=cuda_major,
        torch=torch_exports(torch) if torch is not None else None,
        confirm=Disassembler.find(),
    )
    wheels = [wheel for wheel in wheels if wheel.suffix == ".whl"]
    report = audit_wheels(wheels, question, spec=step.name)
    made = assemble(step.assembled, {wheel.name: wheel for wheel in wheels}, scratch=scratch)
    report, coverage = made.judged(report), made.told(coverage_line(report))
    return Audit(key=key_of(step, digests), verdict=report.verdict, coverage=coverage), report


def coverage_line(report: SpecReport) -> str:
    """Return what the wheels hold for their devices in a few words, such as `sm_121a 3/3`."""
    parts = []
    for device in report.devices:
        total = sum(module.counts.total for module in device.modules)
        if not total:
            continue
        native = sum(module.counts.native for module in device.modules)
        names = sorted({name for module in device.modules for name in module.images.get("sass", {})})
        shown = ", ".join(names) if len(names) <= 3 else f"{len(names)} archs"  # noqa: PLR2004
        parts.append(
            f"{shown or 'no SASS'} {native}/{total}"
            + (f" on {device.device}" if len(report.devices) > 1 else "")
        )
    return "; ".join(parts) or "host only"


def problems(report: SpecReport) -> list[str]:
    """Return every finding of level error as one line."""
    found = []
    for device in report.devices:
        found += [f"{item.text}" for item in device.findings if item.level == "error"]
        found += [
            f"{module.path}: {item.text}"
            for module in device.modules
            for item in module.findings
            if item.level == "error"
        ]
    return list(dict.fromkeys(found)) or ([report.error] if report.error else [])


def warnings(report: SpecReport) -> list[str]:
    """Return every finding of level warning as one line."""
    found = []
    for device in report.devices:
        found += [item.text for item in device.findings if item.level == "warning"]
        found += [
            f"{module.path}: {item.text}"
            for module in device.modules
            for item in module.findings
            if item.level == "warning"
        ]
    return list(dict.fromkeys(found))
