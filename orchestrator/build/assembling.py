"""Assemblers inside wheels: each is run, and must make machine code of every arch that it is there for."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.audit.report import SpecReport

CODE = "assembler"
"""Of a finding about one that does not assemble."""

_UNREADABLE = (
    *(FileNotFoundError, IsADirectoryError, NotADirectoryError),
    *(KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError),
)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What became of the assemblers of a step's wheels."""

    able: tuple[tuple[str, str], ...] = ()
    """(program inside a wheel, machine code that it made)."""
    findings: tuple[Finding, ...] = ()

    def judged(self, report: SpecReport) -> SpecReport:
        """Return the report with these findings, as such of the wheel as a whole."""
        if not self.findings:
            return report
        return replace(
            report,
            devices=tuple(
                replace(device, findings=(*device.findings, *self.findings)) for device in report.devices
            ),
        )

    def told(self, coverage: str) -> str:
        """Return what a wheel covers, with what its assemblers do, such as `ptxas assembles sm_121a`."""
        made: dict[str, list[str]] = {}
        for file, image in self.able:
            made.setdefault(PurePosixPath(file).name, []).append(image)
        able = [f"{name} assembles {', '.join(images)}" for name, images in made.items()]
        return "; ".join([coverage, *able, *(finding.text for finding in self.findings)])


def assemble(wanted: Sequence[tuple[str, str]], wheels: Mapping[str, Path], *, scratch: Path) -> Assembled:
    """Take assemblers out of wheels, and have each make machine code of an empty kernel.

    Args:
        wanted: (program inside a wheel, machine code such as `sm_121a`).
        wheels: name of a wheel -> the file, or the folder that holds what is in it. Programs of another
            platform than this one's are not run.
        scratch: where a temporary folder is made; programs must be able to run there.

    Raises:
        NoSpaceError, StoreError: it cannot be written there.
        MachineError: a program does not end.
    """
    places = [path for name, path in wheels.items() if _runs_here(name)]
    if not wanted or not places:
        return Assembled()
    from orchestrator.store.atomic import disk_errors, temporary_dir
    from orchestrator.toolchain.probe import ptxas_fault

    able: list[tuple[str, str]] = []
    findings: list[Finding] = []
    with disk_errors(scratch), temporary_dir(scratch, "assemblers") as folder:
        for file in dict.fromkeys(file for file, _ in wanted):
            program = folder / PurePosixPath(file).name
            if not any(_taken(place, file, program) for place in places):
                findings.append(Finding("error", CODE, f"{file} is not there, or cannot be read"))
                continue
            for image in [image for each, image in wanted if each == file]:
                try:
                    fault = ptxas_fault(program, image, folder)
                except ToolMissingError as error:
                    fault = error.message
                if fault is None:
                    able.append((file, image))
                else:
                    findings.append(Finding("error", CODE, f"{file} does not assemble {image}: {fault}"))
    return Assembled(tuple(able), tuple(findings))


def _taken(place: Path, file: str, program: Path) -> bool:
    """Copy one file of a wheel, runnable; say whether it is there and whole."""
    program.unlink(missing_ok=True)
    with suppress(*_UNREADABLE):
        if place.is_dir():
            shutil.copyfile(place / file, program)
        else:
            with zipfile.ZipFile(place) as wheel, wheel.open(file) as source, program.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        program.chmod(0o700)
        return True
    return False


def _runs_here(name: str) -> bool:
    """Say whether the programs of a wheel are of this platform, going by its name."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    from orchestrator.model.platform import Target

    machine = Target.here().platform.partition("-")[2]
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return False
    return any(tag.platform == "any" or tag.platform.endswith(f"_{machine}") for tag in tags)
