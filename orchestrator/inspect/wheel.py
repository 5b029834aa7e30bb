"""Audit a wheel, streamed: nothing is unpacked to disk, and no member is held in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.audit.claims import check_claim
from orchestrator.audit.findings import Finding
from orchestrator.audit.linkage import check_linkage
from orchestrator.audit.report import AuditedFile, judge_spec
from orchestrator.audit.scan import scan
from orchestrator.inspect.tags import check_glibc, check_symbol_versions
from orchestrator.inspect.wheelchecks import check_archive, tags_of
from orchestrator.inspect.zipped import Damage, WheelFile

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.question import Question
    from orchestrator.audit.report import SpecReport


_LIBRARY = re.compile(r"\.so(?:\.\d+)*$")


def audit_wheels(paths: Sequence[Path], question: Question, *, spec: str) -> SpecReport:
    """Read all device code of wheels, and judge them as one: what a pattern asks for may be in any of them.

    Args:
        paths: the wheels.
        question: what is asked.
        spec: how to call them in the report.

    Raises:
        SpecError: one is not there, or no complete zip archive.
    """
    facts, files, findings = read_wheels(paths, question)
    report = judge_spec(spec, facts, question, files=files, findings=findings)
    told = tuple(AuditedFile(path.name, path.stat().st_size) for path in paths)
    return replace(report, files=told)


def read_wheels(
    paths: Sequence[Path], question: Question
) -> tuple[list[FileFacts], list[str], list[Finding]]:
    """Return what members hold, the paths of all members, and what is wrong with the wheels as such.

    Args:
        paths: the wheels.
        question: what is asked.

    Raises:
        SpecError: one is not there, or no complete zip archive.
    """
    facts: list[FileFacts] = []
    files: list[str] = []
    findings: list[Finding] = []
    for path in paths:
        with WheelFile(path, hashed=question.deep) as wheel:
            read = (_member(wheel, info, inside=question.inside) for info in wheel.members)
            found = [file for file in read if file is not None]
            files += [info.filename for info in wheel.members]
            machines = {file.path: file.machine for file in found if file.machine}
            findings += wheel.findings()
            findings += check_archive(wheel, machines, record=question.deep)
        linked = {file.path: file.linkage for file in found if file.linkage is not None}
        tags = tags_of(path.name)
        facts += _with_more(found, check_glibc(tags, linked))
        findings += check_symbol_versions(tags, linked)
        if question.policy is None:
            findings += _claims(path, found)
    return linked_together(facts, question), files, findings


def linked_together(facts: Sequence[FileFacts], question: Question) -> list[FileFacts]:
    """Return facts with what is wrong with how the files are linked: with each other, torch, and CUDA."""
    linked = {file.path: file.linkage for file in facts if file.linkage is not None}
    found = check_linkage(linked, torch=question.torch, cuda_major=question.cuda_major)
    return _with_more(facts, found)


def _with_more(facts: Sequence[FileFacts], found: Mapping[str, Sequence[Finding]]) -> list[FileFacts]:
    return [
        replace(file, findings=(*file.findings, *found[file.path])) if file.path in found else file
        for file in facts
    ]


def _claims(path: Path, facts: Sequence[FileFacts]) -> list[Finding]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        return []
    needed = {one for file in facts if file.linkage is not None for one in file.linkage.needed}
    has_device_code = any(file.has_device_code for file in facts)
    return check_claim(name, str(version), needed, has_device_code=has_device_code)


def _member(wheel: WheelFile, info: zipfile.ZipInfo, *, inside: bool) -> FileFacts | None:
    """Return the facts of one member, or None when it is of no interest."""
    damage = Damage()
    facts = scan(info.filename, partial(wheel.stream, info, damage), inside=inside, linked=True)
    if facts.kind == "other" and not damage.text:
        if not _LIBRARY.search(info.filename):
            return None
        text = "it is empty" if not info.file_size else "it is no library, in spite of its name"
        return replace(facts, findings=(Finding("warning", "not-a-library", text),))
    if not damage.text:
        return facts
    return replace(facts, findings=(*facts.findings, _damaged(damage)))


def _damaged(damage: Damage) -> Finding:
    return Finding("error", "damaged-member", f"the member is damaged: {damage.text}")
