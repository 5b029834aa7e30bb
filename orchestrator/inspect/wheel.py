"""Audit a wheel, streamed: nothing is unpacked to disk, and no member is held in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.audit.facts import FileFacts
from orchestrator.audit.findings import Finding
from orchestrator.audit.report import judge_spec
from orchestrator.audit.scan import HEAD, recognize, scan
from orchestrator.inspect.zipped import Damage, WheelFile

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.audit.policy import Expectation
    from orchestrator.audit.report import SpecReport
    from orchestrator.model.archvalues import Device


def audit_wheel(
    path: Path,
    *,
    devices: Sequence[Device],
    policy: Sequence[Expectation] | None = None,
    requested: frozenset[str] | None = None,
    spec: str | None = None,
) -> SpecReport:
    """Read all device code of the wheel at `path`, and judge it.

    Args:
        path: the wheel.
        devices: the devices to serve, at least one.
        policy: what its modules must be; None for a stranger's wheel.
        requested: names of the images that were asked for, such as `sm_121a`; see `image_names`.
        spec: how to call it in the report; otherwise its file name.

    Raises:
        SpecError: it is not there, or no complete zip archive.
    """
    return audit_wheels([path], spec=spec or path.name, devices=devices, policy=policy, requested=requested)


def audit_wheels(
    paths: Sequence[Path],
    *,
    spec: str,
    devices: Sequence[Device],
    policy: Sequence[Expectation] | None = None,
    requested: frozenset[str] | None = None,
) -> SpecReport:
    """Read and judge several wheels as one: what a pattern asks for may be in any of them.

    Arguments and errors are those of `audit_wheel`.
    """
    facts, files, findings = read_wheels(paths)
    return judge_spec(
        spec, facts, devices=devices, files=files, policy=policy, requested=requested, findings=findings
    )


def read_wheels(paths: Sequence[Path]) -> tuple[list[FileFacts], list[str], list[Finding]]:
    """Return what members hold, the paths of all members, and what is wrong with the wheels as such.

    Raises:
        SpecError: one is not there, or no complete zip archive.
    """
    facts: list[FileFacts] = []
    files: list[str] = []
    findings: list[Finding] = []
    for path in paths:
        with WheelFile(path) as wheel:
            facts += [found for info in wheel.members if (found := _member(wheel, info)) is not None]
            files += [info.filename for info in wheel.members]
            findings += wheel.findings()
    return facts, files, findings


def _member(wheel: WheelFile, info: zipfile.ZipInfo) -> FileFacts | None:
    """Return the facts of one member, or None when it is of no interest."""
    early = Damage()
    head = wheel.head(info, early, HEAD)
    if early.text:
        return FileFacts(info.filename, "other", findings=(_damaged(early),))
    if recognize(head) == "other":
        return None
    damage = Damage()
    facts = scan(info.filename, partial(wheel.stream, info, damage))
    if not damage.text:
        return facts
    return replace(facts, findings=(*facts.findings, _damaged(damage)))


def _damaged(damage: Damage) -> Finding:
    return Finding("error", "damaged-member", f"the member is damaged: {damage.text}")
