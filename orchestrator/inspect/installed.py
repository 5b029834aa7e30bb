"""What is installed in an environment, going by its metadata, and what lies there without."""

from __future__ import annotations

import csv
import email
import json
import os
import re
from dataclasses import dataclass, replace
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from orchestrator.audit.findings import Finding
from orchestrator.inspect.folder import walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.inspect.environment import Environment

NOBODY = "(no distribution)"
"""Stands for the files that no distribution lists."""

_DEVICE_FILE = re.compile(r".*\.(?:so(?:\.[\w.]+)?|o|a|cubin|fatbin)", re.DOTALL | re.IGNORECASE)
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution that has, or should have, files that can hold device code, going by their names."""

    name: str
    """As its metadata spells it; `NOBODY` for files that no distribution lists."""
    version: str
    """Empty where it is not known."""
    root: Path
    """The folder that `files` are relative to."""
    files: tuple[str, ...]
    """Those that can hold device code and are there, sorted; `NOBODY`'s outside of `root` are absolute."""
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    @property
    def at_fault(self) -> bool:
        """Whether such files are missing, or could not be looked for."""
        return any(finding.code in ("missing-file", "unreadable") for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Listed:
    """One `.dist-info` or `.egg-info`; `binaries` are the paths in its RECORD that can hold device code."""

    name: str
    version: str
    root: Path
    binaries: tuple[str, ...] | None
    """None without a RECORD that can be read."""
    sources: Path | None
    """The folder of sources that it is used from (PEP 610); None for a usual one."""


def distributions(environment: Environment) -> tuple[Installed, ...]:
    """Return what is installed and has files that can hold device code, by name; `NOBODY` comes last.

    Only names are looked at, no file is opened but metadata. Of a distribution that is there twice, the
    one that is imported counts. Of one that is used from its sources, all that lies in their folder counts.
    """
    metadata = [listed for root in environment.roots for listed in _metadata(root, _metadata_folders(root))]
    found: dict[str, Installed] = {}
    for listed in metadata:
        key = re.sub(r"[-_.]+", "-", listed.name).lower()
        this = _from_sources(listed, listed.sources) if listed.sources else _installed(listed)
        found[key] = _with_second(found[key], this) if key in found else this
    every = [*(found[key] for key in sorted(found)), _nobodys(environment, metadata)]
    return tuple(one for one in every if one.files or one.at_fault)


def distribution(root: Path, name: str) -> Installed | None:
    """Return one distribution of a folder by its normalized name (PEP 503); None when it is not there."""
    for folder in _metadata_folders(root):
        if re.sub(r"[-_.]+", "-", folder.stem.partition("-")[0]).lower() == name:
            return _installed(*_metadata(root, [folder]))
    return None


def _metadata_folders(root: Path) -> list[Path]:
    """List all metadata in a folder. What pip could not remove starts with `~` or `-`."""
    return sorted(path for path in root.glob("[!~-]*-info") if path.suffix in (".dist-info", ".egg-info"))


def _metadata(root: Path, folders: Iterable[Path]) -> list[_Listed]:
    found = []
    for folder in folders:
        one = Distribution.at(folder)
        head = email.message_from_string(_text(one, "METADATA") or _text(one, "PKG-INFO") or "")
        name, _, version = folder.stem.partition("-")
        found.append(
            _Listed(
                str(head["Name"] or name),
                str(head["Version"] or version),
                root,
                _binaries(one, root),
                _sources(one),
            )
        )
    return found


def _text(one: Distribution, name: str) -> str | None:
    try:
        return one.read_text(name)
    except (OSError, ValueError):  # not permitted, or not UTF-8
        return None


def _binaries(one: Distribution, root: Path) -> tuple[str, ...] | None:
    if (text := _text(one, "RECORD")) is None:
        return None
    try:
        paths = {row[0] for row in csv.reader(text.splitlines()) if row}
    except csv.Error:
        return None
    return tuple(sorted(path for path in paths if "\0" not in path and _can_hold(root / path)))


def _sources(one: Distribution) -> Path | None:
    try:
        said = json.loads(_text(one, "direct_url.json") or "{}")
        if said["dir_info"]["editable"] is True:
            folder = Path(url2pathname(urlsplit(said["url"]).path))
            return folder if folder.is_dir() else None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _installed(listed: _Listed) -> Installed:
    # Links are followed: uv installs links to its cache when it is told so.
    files = tuple(file for file in listed.binaries or () if _is_file(listed.root / file))
    gone = sorted({*(listed.binaries or ())} - {*files})
    text = f"RECORD lists files that are not there: {_few(gone)}"
    findings = (Finding("warning", "missing-file", text),) if gone else ()
    return Installed(listed.name, listed.version, listed.root, files, findings)


def _from_sources(listed: _Listed, folder: Path) -> Installed:
    text = f"it is used from its sources (editable), so all that lies there counts: {folder}"
    findings = [Finding("info", "editable", text)]
    files = tuple(sorted(file for file in walk(folder, findings) if _can_hold(folder / file)))
    return Installed(listed.name, listed.version, folder, files, tuple(findings))


def _with_second(first: Installed, second: Installed) -> Installed:
    """Return the one that is imported, with a finding about the other; what is in one folder is all of it."""
    same = first.root == second.root
    if same and (first.version, first.files) == (second.version, second.files or first.files):
        return first  # both kinds of metadata, as Debian's packages have
    files = tuple(sorted({*first.files, *second.files})) if same else first.files
    text = f"{second} is installed too, in {second.root}" + ("" if same else ", and not imported")
    finding = Finding("warning", "installed-twice", text)
    return replace(first, files=files, findings=(*first.findings, finding))


def _nobodys(environment: Environment, metadata: Iterable[_Listed]) -> Installed:
    """Return the files below the roots that no RECORD lists; outside of the first root by absolute paths."""
    findings: list[Finding] = []
    files: set[str] = set()
    base = environment.roots[0] if environment.roots else Path()
    claimed = {os.path.realpath(one.root / file) for one in metadata for file in one.binaries or ()}
    sources = [os.path.realpath(one.sources) for one in metadata if one.sources]
    for root in environment.roots:
        for file in walk(root, findings):
            path = root / file
            if file.startswith("~") or not _can_hold(path):
                continue
            real = os.path.realpath(path)
            if real not in claimed and not any(real.startswith(folder + os.sep) for folder in sources):
                files.add(file if root == base else str(path))
    unlisted = sorted(one.name for one in metadata if one.binaries is None)
    if unlisted and files:
        text = f"without a RECORD, so their files are among these: {_few(unlisted)}"
        findings.append(Finding("warning", "no-record", text))
    return Installed(NOBODY, "", base, tuple(sorted(files)), tuple(findings))


def _can_hold(path: Path) -> bool:
    """Tell by its name whether a file can hold device code; a program has no suffix, but may be run."""
    if path.suffix:
        return _DEVICE_FILE.fullmatch(path.name) is not None
    return path.parent.suffix != ".dist-info" and os.access(path, os.X_OK) and _is_file(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, or a folder that may not be entered
        return False


def _few(words: list[str]) -> str:
    more = len(words) - _LISTED
    return ", ".join(words[:_LISTED]) + (f" and {more} more" if more > 0 else "")
