"""Whether a wheel is what its name says, and installs as meant: name, metadata, tags, links, RECORD."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.inspect.misplaced import check_members
from orchestrator.inspect.record import check_record
from orchestrator.inspect.tags import check_machines, check_python, check_tags
from orchestrator.inspect.zipped import Damage

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Mapping

    from packaging.tags import Tag
    from packaging.version import Version

    from orchestrator.inspect.zipped import WheelFile

_METADATA = {"METADATA": 4 << 20, "WHEEL": 1 << 20, "RECORD": 64 << 20}
"""Metadata file -> bytes that are read at most; the largest RECORD seen has 2 MB."""


def check_archive(wheel: WheelFile, machines: Mapping[str, int], *, record: bool) -> list[Finding]:
    """Check what shows without looking into modules.

    Args:
        wheel: the open wheel. A file not called `.whl` need not be one: it has no name to live up to.
        machines: path -> e_machine of its ELF files for hosts.
        record: also read every byte, and compare with RECORD. Missing metadata are an error then: what a
            strict check holds against a wheel, a look at its device code only mentions.

    Returns:
        Findings about the wheel as a whole: `bad-name`, `no-metadata`, `tag-mismatch`, `wrong-machine`,
        `wrong-python`, `bundled-driver`, `bundled-torch`, `bundled-cuda`, `dangling-link`, `record-mismatch`.
    """
    findings = check_members(wheel)
    named = wheel.path.suffix == ".whl"
    parsed = _parsed(wheel.path.name, findings) if named else None
    tags = parsed[2] if parsed else None
    if tags is not None:
        findings += check_machines(tags, machines)
        findings += check_python(tags, (info.filename for info in wheel.members))
    texts: dict[str, str] = {}
    folder = _dist_info(wheel, findings, required=named)
    if folder is not None:
        texts = _texts(wheel, folder, findings)
        findings += _check_identity(folder, texts, parsed)
    if tags is not None and "WHEEL" in texts:
        findings += check_tags(tags, _field(texts["WHEEL"], "Tag"))
    if record and folder is not None and "RECORD" in texts:
        findings += check_record(wheel, folder, texts["RECORD"])
    if record:
        return findings
    return [
        replace(finding, level="warning") if finding.code == "no-metadata" else finding
        for finding in findings
    ]


def tags_of(name: str) -> frozenset[Tag]:
    """Return the tags of a wheel's file name; none when it is no wheel's name."""
    parsed = _parsed(name, [])
    return parsed[2] if parsed else frozenset()


def _parsed(name: str, findings: list[Finding]) -> tuple[str, Version, frozenset[Tag]] | None:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        project, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename as error:
        findings.append(Finding("error", "bad-name", f"it is not called as a wheel must be: {error}"))
        return None
    return project, version, tags


def _dist_info(wheel: WheelFile, findings: list[Finding], *, required: bool) -> str | None:
    names = {info.filename.partition("/")[0] for info in wheel.members if "/" in info.filename}
    folders = sorted(name for name in names if name.endswith(".dist-info"))
    if len(folders) == 1:
        return folders[0]
    if required or folders:
        said = (
            f"{len(folders)} .dist-info folders: {', '.join(folders)}" if folders else "no .dist-info folder"
        )
        findings.append(Finding("error", "no-metadata", f"the wheel has {said}"))
    return None


def _texts(wheel: WheelFile, folder: str, findings: list[Finding]) -> dict[str, str]:
    """Return the metadata files that can be read; others become findings."""
    members: dict[str, zipfile.ZipInfo] = {info.filename: info for info in wheel.members}
    found: dict[str, str] = {}
    for name, limit in _METADATA.items():
        info = members.get(f"{folder}/{name}")
        if info is None:
            findings.append(Finding("error", "no-metadata", f"the wheel has no {folder}/{name}"))
            continue
        damage = Damage(f"it has {info.file_size:,} bytes" if info.file_size > limit else "")
        try:
            text = "" if damage.text else b"".join(wheel.chunks(info, damage)).decode()
        except UnicodeDecodeError:
            text, damage.text = "", "it is not UTF-8"
        if damage.text:
            text = f"{folder}/{name} cannot be read: {damage.text}"
            findings.append(Finding("error", "no-metadata", text))
        else:
            found[name] = text
    return found


def _check_identity(
    folder: str, texts: Mapping[str, str], parsed: tuple[str, Version, frozenset[Tag]] | None
) -> list[Finding]:
    """Check that the folder and METADATA name the project and version of the file name."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    if parsed is None:
        return []
    project, version, _ = parsed
    said = {folder: folder.removesuffix(".dist-info").rpartition("-")[::2]}
    if "METADATA" in texts:
        said["METADATA"] = (
            next(iter(_field(texts["METADATA"], "Name")), ""),
            next(iter(_field(texts["METADATA"], "Version")), ""),
        )
    found = []
    for where, (name, number) in said.items():
        try:
            same = canonicalize_name(name) == project and Version(number) == version
        except InvalidVersion:
            same = False
        if not same:
            text = f"{where} is of {name or 'nothing'} {number}, the file name of {project} {version}"
            found.append(Finding("error", "no-metadata", text))
    return found


def _field(text: str, name: str) -> list[str]:
    """Return the values of a header field of METADATA or WHEEL."""
    from installer.utils import parse_metadata_file

    head = text.replace("\r\n", "\n").partition("\n\n")[0]
    return [str(value).strip() for value in parse_metadata_file(head).get_all(name, [])]
