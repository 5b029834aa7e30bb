"""What a SPEC of `sparkbuild audit` can be: a wheel, a folder, or a single file."""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.facts import FileFacts
from orchestrator.audit.findings import Finding
from orchestrator.audit.report import judge_spec
from orchestrator.audit.scan import HEAD, recognize, scan
from orchestrator.audit.stream import MappedStream
from orchestrator.errors import SpecError
from orchestrator.inspect.wheel import audit_wheel, read_wheels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.audit.policy import Expectation
    from orchestrator.audit.report import SpecReport
    from orchestrator.model.archvalues import Device

_INDEX_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?==\S+")


def audit_spec(
    spec: str,
    *,
    devices: Sequence[Device],
    policy: Sequence[Expectation] | None = None,
    requested: frozenset[str] | None = None,
) -> SpecReport:
    """Audit whatever `spec` names.

    Args:
        spec: the path of a wheel (`.whl` or `.zip`), of a folder that is searched, or of one file.
        devices: the devices to serve, at least one.
        policy: what the modules must be; None for a stranger's.
        requested: names of the images that were asked for.

    Raises:
        SpecError: it is not there, cannot be read, or is no wheel though its name says so.
    """
    path = Path(spec)
    if not path.exists():
        raise SpecError("there is no such file or folder", where=spec, hint=_missing_hint(spec))
    if path.is_file() and path.suffix in (".whl", ".zip"):
        return audit_wheel(path, devices=devices, policy=policy, requested=requested, spec=spec)
    findings: list[Finding] = []
    if path.is_dir():
        files = sorted(_walk(path, findings))
        facts = [found for name in files for found in _found(path / name, name, findings)]
    elif path.is_file():
        files, facts = [path.name], [_read(path, path.name)]
    else:
        raise SpecError(
            "it is neither a file nor a folder", where=spec, hint="name a wheel, a folder, or a file"
        )
    kept = [found for found in facts if found.kind != "other" or found.findings]
    if not kept and not findings:
        raise SpecError(
            "nothing in it can hold device code"
            if path.is_dir()
            else "it is nothing that can hold device code",
            where=spec,
            hint="name wheels, folders with them or with .so files, or a .so, .o, .a, .cubin or .fatbin file",
        )
    return judge_spec(
        spec, kept, devices=devices, files=files, policy=policy, requested=requested, findings=findings
    )


def _missing_hint(spec: str) -> str:
    if _INDEX_NAME.fullmatch(spec):
        return "names on an index are not read yet: pip download it with --no-deps, then audit the file"
    return "name the wheel, folder or file to audit"


def _walk(root: Path, findings: list[Finding]) -> Iterator[str]:
    """Yield the regular files below `root`, as paths relative to it. Links are not followed.

    A folder that cannot be read is added to `findings`.
    """

    def unreadable(error: OSError) -> None:
        findings.append(Finding("error", "unreadable", f"{error.filename}: {error.strerror}"))

    for folder, _, names in os.walk(root, onerror=unreadable):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(root).as_posix()


def _found(path: Path, name: str, findings: list[Finding]) -> list[FileFacts]:
    """Return what a file of a folder holds; a wheel is looked into, and its members are named after it."""
    if path.suffix != ".whl":
        return [_read(path, name)]
    try:
        facts, _, told = read_wheels([path])
    except SpecError as error:
        findings.append(Finding("error", "unreadable", f"{name}: {error.message}"))
        return []
    findings += told
    return [replace(found, path=f"{name}/{found.path}") for found in facts]


def _read(path: Path, name: str) -> FileFacts:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size or recognize(file.read(HEAD)) == "other":
                return FileFacts(name, "other")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return scan(name, lambda: MappedStream(data))
    except OSError as error:
        text = f"the file cannot be read: {error.strerror or error}"
        return FileFacts(name, "other", findings=(Finding("error", "unreadable", text),))
