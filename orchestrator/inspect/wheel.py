"""Audit a wheel, streamed: nothing is unpacked to disk, and no member is held in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.audit.report import judge_spec
from orchestrator.audit.scan import scan
from orchestrator.inspect.zipped import Damage, WheelFile

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.question import Question
    from orchestrator.audit.report import SpecReport


def audit_wheels(paths: Sequence[Path], question: Question, *, spec: str) -> SpecReport:
    """Read all device code of wheels, and judge them as one: what a pattern asks for may be in any of them.

    Args:
        paths: the wheels.
        question: what is asked.
        spec: how to call them in the report.

    Raises:
        SpecError: one is not there, or no complete zip archive.
    """
    facts, files, findings = read_wheels(paths, inside=question.inside)
    return judge_spec(spec, facts, question, files=files, findings=findings)


def read_wheels(
    paths: Sequence[Path], *, inside: bool = False
) -> tuple[list[FileFacts], list[str], list[Finding]]:
    """Return what members hold, the paths of all members, and what is wrong with the wheels as such.

    Args:
        paths: the wheels.
        inside: also unpack the images, and list their kernels.

    Raises:
        SpecError: one is not there, or no complete zip archive.
    """
    facts: list[FileFacts] = []
    files: list[str] = []
    findings: list[Finding] = []
    for path in paths:
        with WheelFile(path) as wheel:
            found = (_member(wheel, info, inside=inside) for info in wheel.members)
            facts += [file for file in found if file is not None]
            files += [info.filename for info in wheel.members]
            findings += wheel.findings()
    return facts, files, findings


def _member(wheel: WheelFile, info: zipfile.ZipInfo, *, inside: bool) -> FileFacts | None:
    """Return the facts of one member, or None when it is of no interest."""
    damage = Damage()
    facts = scan(info.filename, partial(wheel.stream, info, damage), inside=inside)
    if facts.kind == "other" and not damage.text:
        return None
    if not damage.text:
        return facts
    return replace(facts, findings=(*facts.findings, _damaged(damage)))


def _damaged(damage: Damage) -> Finding:
    return Finding("error", "damaged-member", f"the member is damaged: {damage.text}")
