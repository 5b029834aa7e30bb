"""A wheel against its RECORD: every file listed, with its size and a hash that is right.

What a RECORD must hold: the binary distribution format, "The .dist-info directory". Every byte is read.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.inspect.zipped import Damage

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable

    from installer.records import RecordEntry

    from orchestrator.inspect.zipped import WheelFile

_HASHES = frozenset(("sha256", "sha384", "sha512"))
_SHOWN = 3


def check_record(wheel: WheelFile, folder: str, text: str) -> list[Finding]:
    """Compare all files of a wheel with its RECORD (`record-mismatch`).

    Args:
        wheel: the open wheel; members are streamed.
        folder: its dist-info folder. RECORD itself, and its signatures, need not be listed.
        text: what RECORD says.
    """
    wrong: dict[str, list[str]] = {}
    listed = _listed(text, wrong)
    exempt = {f"{folder}/RECORD{suffix}" for suffix in ("", ".jws", ".p7s")}
    members = {info.filename: info for info in wheel.members if info.filename not in exempt}
    for path in listed.keys() - members.keys() - exempt:
        wrong.setdefault("lists files that are not there", []).append(path)
    for path, info in members.items():
        entry = listed.get(path)
        reason = "does not list" if entry is None else _compared(wheel, info, entry)
        if reason:
            wrong.setdefault(reason, []).append(path)
    return [
        Finding("error", "record-mismatch", f"RECORD {reason}: {_named(paths)}")
        for reason, paths in sorted(wrong.items())
    ]


def _listed(text: str, wrong: dict[str, list[str]]) -> dict[str, RecordEntry]:
    from installer.records import InvalidRecordEntry, RecordEntry, parse_record_file

    listed: dict[str, RecordEntry] = {}
    try:
        for row in parse_record_file(io.StringIO(text, newline="")):
            entry = RecordEntry.from_elements(*row)
            if entry.path in listed:
                wrong.setdefault("lists twice", []).append(entry.path)
            listed[entry.path] = entry
    except (InvalidRecordEntry, csv.Error) as error:
        wrong.setdefault("cannot be read to its end", []).append(str(error))
    return listed


def _compared(wheel: WheelFile, info: zipfile.ZipInfo, entry: RecordEntry) -> str | None:
    """Return what RECORD says wrong about a member, or None."""
    if entry.hash_ is None:
        return "has no hash of"
    if entry.hash_.name not in _HASHES:
        return f"has no hash but {entry.hash_.name} of"
    if entry.size is not None and entry.size != info.file_size:
        return "has another size of"
    found = wheel.digests.get(info.filename) if entry.hash_.name == "sha256" else None
    if found is None:
        damage = Damage()
        hasher = hashlib.new(entry.hash_.name)
        for chunk in wheel.chunks(info, damage):
            hasher.update(chunk)
        if damage.text:
            return "cannot be compared with damaged files"
        found = hasher.digest()
    digest = base64.urlsafe_b64encode(found).rstrip(b"=").decode()
    return None if digest == entry.hash_.value.rstrip("=") else "has another hash of"


def _named(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
