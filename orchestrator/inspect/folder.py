"""Files of a folder: which there are, and what device code they hold. They are mapped, nothing is copied."""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.facts import FileFacts
from orchestrator.audit.findings import Finding
from orchestrator.audit.scan import HEAD, recognize, scan
from orchestrator.audit.stream import MappedStream
from orchestrator.errors import SpecError
from orchestrator.inspect.wheel import read_wheels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.audit.question import Question


def walk(root: Path, findings: list[Finding]) -> Iterator[str]:
    """Yield the files below `root`, as paths relative to it. Links to folders are not followed.

    A link to a file below `root` is left out: it is read where it lies. A folder that cannot be read is
    added to `findings`.
    """
    inside = root.resolve()

    def unreadable(error: OSError) -> None:
        findings.append(Finding("error", "unreadable", f"{error.filename}: {error.strerror}"))

    for folder, _, names in os.walk(root, onerror=unreadable):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not (path.is_symlink() and path.resolve().is_relative_to(inside)):
                yield path.relative_to(root).as_posix()


def read_found(path: Path, name: str, findings: list[Finding], question: Question) -> list[FileFacts]:
    """Return what a file of a folder holds; a wheel is looked into, and its members are named after it.

    Args:
        path: where it lies.
        name: how the facts call it.
        findings: gets what is wrong with a wheel as such.
        question: what is asked.
    """
    if path.suffix != ".whl":
        return [read_file(path, name, question)]
    try:
        facts, _, told = read_wheels([path], question)
    except SpecError as error:
        findings.append(Finding("error", "unreadable", f"{name}: {error.message}"))
        return []
    findings += told
    return [replace(found, path=f"{name}/{found.path}") for found in facts]


def read_file(path: Path, name: str, question: Question, *, linked: bool = True) -> FileFacts:
    """Return what one file holds; one that cannot be read has a finding that says so.

    Args:
        path: where it lies.
        name: how the facts call it.
        question: what is asked.
        linked: also read what a library says to the dynamic linker.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size or recognize(file.read(HEAD)) == "other":
                return FileFacts(name, "other")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return scan(name, lambda: MappedStream(data), inside=question.inside, linked=linked)
    except OSError as error:
        text = f"the file cannot be read: {error.strerror or error}"
        return FileFacts(name, "other", findings=(Finding("error", "unreadable", text),))
