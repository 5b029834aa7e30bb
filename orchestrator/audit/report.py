"""The audit of one or more wheels as a value, and as JSON (`sparkbuild.audit/1`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.audit import hollow
from orchestrator.audit.containers import report_containers, report_cubins, served
from orchestrator.audit.coverage import Counts, Verdict, count, cover_cubin, judge
from orchestrator.audit.exceptions import Excused, excuse, pardon, unused
from orchestrator.audit.facts import Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.kernelfacts import kernel_facts
from orchestrator.audit.policy import (
    Expect,
    check_bare,
    check_listed,
    check_module,
    check_patterns,
    check_requested,
    check_unasked,
    excepted,
    expectation_of,
)
from orchestrator.audit.shortfall import reasons, short_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from orchestrator.audit.against import Comparison
    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.kernelfacts import KernelFacts
    from orchestrator.audit.policy import Expectation
    from orchestrator.audit.question import Question
    from orchestrator.model.archvalues import Device

SCHEMA = "sparkbuild.audit/1"
AUDIT_NUMBER = 3
"""Raised by hand when the audit judges differently; part of every audit key."""


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """One file that can hold device code, judged for one device."""

    path: str
    verdict: Verdict
    counts: Counts
    images: Mapping[str, Mapping[str, int]]
    """`sass` and `ptx` -> name -> how many, over containers that load."""
    relocatable: Mapping[str, int]
    """What never is coverage (`sass:90`, `lto:120f`, `tile`) -> how many."""
    cubins: Mapping[str, int]
    """Cubins that lie in the file outside any container -> how many."""
    expected: Expect | None = None
    excepted: int = 0
    findings: tuple[Finding, ...] = ()
    containers: tuple[ContainerReport, ...] = ()
    """Those that the runtime is meant to load, in their order."""
    kernels: KernelFacts | None = None
    """None when kernels were not read."""
    reasons: tuple[str, ...] = ()
    """What is known to lead to containers that load no SASS, and what to do."""

    @property
    def failed(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.level == "error" for finding in self.findings)

    @property
    def short(self) -> tuple[ContainerReport, ...]:
        """The containers that load no SASS."""
        return tuple(box for box in self.containers if not box.native)

    def to_json(self) -> dict[str, Any]:
        """Return the module's part of the audit JSON."""
        return {
            "path": self.path,
            "verdict": self.verdict,
            "excepted": self.excepted,
            "containers": self.counts.to_json(),
            "images": {kind: dict(found) for kind, found in self.images.items()},
            "relocatable": dict(self.relocatable),
            "cubins": dict(self.cubins),
            "expected": self.expected,
            "served": served(self.containers),
            "short": [box.to_json() for box in self.short],
            "kernels": self.kernels.to_json() if self.kernels is not None else None,
            "reasons": list(self.reasons),
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """All modules of one wheel for one device."""

    device: Device
    modules: tuple[ModuleReport, ...]
    cubins: Counts
    """Coverage of cubins outside containers, each by itself."""
    findings: tuple[Finding, ...] = ()
    """What concerns the wheel as a whole."""
    bare: Mapping[str, tuple[ContainerReport, ...]] = field(default_factory=dict)
    """Path -> its cubins outside containers, each judged by itself."""
    against: Comparison | None = None
    """What changed since an older wheel, if one was named."""

    @property
    def failed(self) -> bool:
        """Whether anything is an error."""
        return any(module.failed for module in self.modules) or any(
            finding.level == "error" for finding in self.findings
        )

    def to_json(self) -> dict[str, Any]:
        """Return the device's part of the audit JSON."""
        told = {
            "modules": [module.to_json() for module in self.modules],
            "bare_cubin_coverage": self.cubins.to_json(),
            "findings": [finding.to_json() for finding in self.findings],
        }
        return told if self.against is None else {**told, "against": self.against.to_json()}


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """A wheel that was read, so that a report can be told to be about it."""

    name: str
    size: int
    """Bytes."""
    sha256: str | None = None
    """Hexadecimal; None when nobody hashed it."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields under their names."""
        return {"name": self.name, "size": self.size, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class SpecReport:
    """One SPEC. `error` is set, and nothing else known, when it could not be read."""

    spec: str
    devices: tuple[DeviceReport, ...] = ()
    bare_cubins: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    files: tuple[AuditedFile, ...] = ()
    """The wheels, when it was wheels."""

    @property
    def verdict(self) -> Literal["pass", "fail"]:
        """`fail` when it could not be read, or anything is an error on any device."""
        return "fail" if self.error is not None or any(device.failed for device in self.devices) else "pass"

    def to_json(self) -> dict[str, Any]:
        """Return the spec's part of the audit JSON: the first device's, and all when there are several."""
        first: dict[str, Any] = self.devices[0].to_json() if self.devices else {"modules": [], "findings": []}
        head = {"spec": self.spec, "verdict": self.verdict, "bare_cubins": dict(self.bare_cubins), **first}
        if self.files:
            head["files"] = [file.to_json() for file in self.files]
        if self.error is not None:
            head["error"] = self.error
        if len(self.devices) > 1:
            head["devices"] = {str(report.device): report.to_json() for report in self.devices}
        return head


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All SPECs of one call."""

    devices: tuple[Device, ...]
    specs: tuple[SpecReport, ...]
    driver: str | None = None
    """The driver that was asked about, as it was said; None: any."""
    ptx_isa: tuple[int, int] | None = None
    """The newest PTX ISA that it compiles."""

    @property
    def failed(self) -> bool:
        """Whether any SPEC fails."""
        return any(spec.verdict == "fail" for spec in self.specs)

    def to_json(self) -> dict[str, Any]:
        """Return the audit JSON."""
        head: dict[str, Any] = {"schema": SCHEMA, "device": str(self.devices[0])}
        if self.driver is not None and self.ptx_isa is not None:
            head["driver"] = {"asked": self.driver, "ptx_isa": "{}.{}".format(*self.ptx_isa)}
        return {**head, "specs": [spec.to_json() for spec in self.specs]}


def judge_spec(
    spec: str,
    facts: Sequence[FileFacts],
    question: Question,
    *,
    files: Iterable[str],
    findings: Sequence[Finding] = (),
) -> SpecReport:
    """Turn facts into verdicts.

    Args:
        spec: how the wheel is called.
        facts: of each file that was looked into.
        question: what is asked.
        files: all paths of the wheel.
        findings: what is already known about the wheel as a whole.
    """
    policy, requested = question.policy, question.requested
    files = tuple(files)
    if question.deep and question.confirm is not None:
        facts = [question.confirm(file, question) for file in facts]
    # a cubin is no module, unless something is wrong with it
    modules = tuple(file for file in facts if file.kind not in ("cubin", "other") or file.findings)
    cubins = [image for file in facts for image in file.cubins]
    asked = check_requested(facts, requested) if requested is not None else {}
    wheel = [*findings, *asked.get("", ())]
    if policy is not None:
        paths = [file.path for file in facts if file.kind != "other"]
        wheel += check_patterns(policy, files=files, modules=paths)
        native = any(entry.required and entry.expect in ("native", "jit") for entry in policy)
        if native and not any(file.has_device_code for file in facts):
            wheel.append(Finding("error", "no-device-code", "the wheel holds no device code at all"))
    if question.only is not None:
        wheel += check_listed(files, question.only)
    judged = {
        device: [_module(file, device, question, asked.get(file.path, ())) for file in modules]
        for device in question.devices
    }
    wheel += _unused(policy or (), [one for ones in judged.values() for one in ones])
    reports = []
    for device in question.devices:
        outside = {file.path: report_cubins(file, device) for file in facts if file.cubins}
        bare = count(cover_cubin(image, device) for image in cubins)
        told = (*wheel, *check_bare(facts, device, policy), *_unconfirmed(judged[device], question))
        reports.append(DeviceReport(device, tuple(one.report for one in judged[device]), bare, told, outside))
    return SpecReport(spec, tuple(reports), _counted(image.name for image in cubins))


def _unconfirmed(judged: Iterable[_Judged], question: Question) -> Iterator[Finding]:
    """Say that no disassembler looked at kernels which are reported as hollow, if so."""
    codes = {finding.code for one in judged for finding in one.report.findings}
    if question.confirm is None and not codes.isdisjoint(("hollow", "hollow-units", "hollow-jit")):
        text = (
            "which kernels do no work is told by operation numbers; "
            "install sparkbuild[disassembly] to have them disassembled"
        )
        yield Finding("info", "not-disassembled", text)


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


@dataclass(frozen=True, slots=True)
class _Judged:
    """A module's report, and what an entry's exceptions did for it."""

    report: ModuleReport
    expectation: Expectation | None
    excused: Excused


def _unused(policy: Iterable[Expectation], judged: Sequence[_Judged]) -> list[Finding]:
    """Find exceptions that excuse nothing in any module that their entry is for, on any device."""
    findings: list[Finding] = []
    for entry in policy:
        found = [one.excused for one in judged if one.expectation is entry and one.report.verdict != "host"]
        if found:
            findings += unused(entry, found)
    return findings


def _module(facts: FileFacts, device: Device, question: Question, asked: Sequence[Finding]) -> _Judged:
    isa = question.ptx_isa
    verdict, counts = judge(facts, device, isa)
    policy = question.policy
    expectation = expectation_of(facts.path, policy, device) if policy is not None else None
    findings = [*facts.findings, *asked]
    idle, excused = None, Excused()
    if question.deep or (expectation is not None and expectation.exceptions):
        idle = hollow.find_hollow(facts, device, isa)
    if expectation is not None:
        short = short_of(facts, device, isa, allow_jit=expectation.expect == "jit")
        excused = excuse(short, idle, expectation)
    idle = pardon(idle, expectation) if idle is not None else None
    if question.policy is None:
        findings += check_unasked(facts, counts, device=device, ptx_isa=isa)
    elif facts.kind != "cubin":
        findings += check_module(
            facts,
            verdict,
            counts,
            device=device,
            ptx_isa=isa,
            expectation=expectation,
            excused=excused,
            others=[other for other in question.devices if other != device],
        )
    if idle is not None and question.deep:
        findings += hollow.findings(idle, device)
    containers = report_containers(facts, device, isa)
    images: dict[str, dict[str, int]] = {}
    apart: list[str] = []
    for box in facts.containers:
        for image in box.images:
            if box.relocatable or image.kind not in (Kind.SASS, Kind.PTX):
                apart.append(image.apart)
            else:
                held = images.setdefault(image.kind.value, {})
                held[image.name] = held.get(image.name, 0) + 1
    report = ModuleReport(
        facts.path,
        verdict,
        counts,
        {kind: dict(sorted(held.items())) for kind, held in images.items()},
        _counted(apart),
        _counted(image.name for image in facts.cubins),
        expected=expectation.expect if expectation else None,
        excepted=excepted(
            facts,
            counts,
            device=device,
            ptx_isa=isa,
            expectation=expectation,
            excused=excused,
            hollow=idle,
        ),
        findings=tuple(findings),
        containers=containers,
        kernels=kernel_facts(containers, idle),
        reasons=tuple(reasons(short_of(facts, device, isa), device, isa)),
    )
    return _Judged(report, expectation, excused)
