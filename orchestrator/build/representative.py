"""The probe of one step: its build begins, one unit of it is compiled, and what came of that is judged."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from orchestrator.build import logfile, verdict
from orchestrator.build.commands import run_commands
from orchestrator.build.gated import refused_error
from orchestrator.errors import AuditFailedError, BuildFailedError, TorchReplacedError, UnitFailedError
from orchestrator.jobs.pick import Pick
from orchestrator.jobs.served import serves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.report import SpecReport
    from orchestrator.build.job import Job
    from orchestrator.jobs.units import Record, Unit
    from orchestrator.plan.steps import Step

OBJECT: Final = "object"
"""Folder of a probe's build tree that keeps the object."""
_GRACE_S = 5.0
"""A build whose compiler failed ends by itself, and says why."""
_SHOWN = 10


class _EnoughError(Exception):
    """All is known: the command that still runs is stopped."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a unit came to that passed."""

    record: Record
    asked: int
    """Units of device code that the build had asked for until then, each with flags for what is served."""
    coverage: str
    """What its object holds, such as `sm_121a 1/1`."""
    warnings: tuple[str, ...]


class Watch:
    """Reads what a build writes, and says when there is enough of it."""

    def __init__(self, log: Path, refuse: Sequence[str], pick: Pick) -> None:
        self._log, self._refuse, self._pick = log, refuse, pick
        self._offset = log.stat().st_size if log.exists() else 0
        self._rest = b""

    def __call__(self, _line: str) -> None:
        """Look again.

        Raises:
            AuditFailedError: the build has said what the recipe refuses.
            _EnoughError: the probe is over.
        """
        self.read()
        over_at = self._pick.over_at
        if over_at is None:
            return
        record = self._pick.cause
        well = record is not None and record is self._pick.record and not record.code
        if well or time.monotonic() - over_at > _GRACE_S:
            raise _EnoughError

    def read(self) -> None:
        """Read what is new, whole lines only.

        Raises:
            AuditFailedError: one is what the recipe refuses.
        """
        if not self._refuse:
            return
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:  # a build can do anything, remove its log too
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").strip()
            if line.startswith(logfile.MARK.strip()):  # the environment may name anything
                continue
            pattern = next((glob for glob in self._refuse if fnmatchcase(line, glob)), None)
            if pattern is not None:
                raise AuditFailedError(
                    f"the build says what its recipe refuses ({pattern}): {line}",
                    where=str(self._log),
                    hint="what it leaves out would be missing in the wheel: mend the recipe (arch, patches), "
                    "or its `probe.refuse` if that is right for this arch",
                )


def wanted(step: Step) -> Callable[[Unit, tuple[str, ...]], bool]:
    """Return what tells the representative unit: the recipe's, or else any that holds code for a device."""
    probe = step.keyed.view.probe
    glob = probe.unit if probe is not None else None
    devices = step.keyed.devices

    def fits(unit: Unit, images: tuple[str, ...]) -> bool:
        if not unit.is_cuda:
            return False
        if glob is None:
            return any(serves(image, devices, jit=True) for image in images)
        return fnmatchcase(str(PurePosixPath(unit.folder, unit.source or "")), f"*/{glob}")

    return fits


def try_unit(job: Job) -> Tried:
    """Begin a step's build, compile its representative unit with all that the build gives it, and audit it.

    Raises:
        BuildFailedError (1): the build failed before, or the unit does not compile.
        AuditFailedError (3): the object holds nothing for a device, a unit was stopped for its arch, the
            build said what the recipe refuses, or it never asked for the unit.
    """
    step = job.step
    log, probe = job.log, step.keyed.view.probe
    keep = job.work / OBJECT
    keep.mkdir(exist_ok=True)
    pick = Pick(wanted(step), probe.unit if probe is not None else None, keep / "unit.o")
    watch = Watch(log, probe.refuse if probe is not None else (), pick)
    try:
        run_commands(job, pick=pick, on_line=watch)
    except _EnoughError:
        pass
    except TorchReplacedError:
        raise
    except BuildFailedError:
        watch.read()
        if not pick.over or (pick.cause is not None and pick.cause.how in {"failed", "lost"}):
            raise
    watch.read()
    tried = _outcome(step, pick, log)
    _conclude(log, f"the probe is over: {tried.record.unit.name} was compiled, and all else was stopped")
    return tried


def _conclude(log: Path, line: str) -> None:
    """End the log with what it came to: a build that was stopped looks like one that failed."""
    descriptor = logfile.open_log(log)
    try:
        logfile.write(log, descriptor, [line])
    finally:
        os.close(descriptor)


def _outcome(step: Step, pick: Pick, log: Path) -> Tried:
    record, cause = pick.record, pick.cause
    if cause is not None and cause.how == "refused":
        raise refused_error(cause, log)
    if cause is not None and cause.how in {"failed", "lost"}:
        raise UnitFailedError(
            f"{cause.unit.name} does not compile (exit code {cause.code})",
            where=str(log),
            hint="the log shows what the compiler said",
        )
    if record is None:
        probe = step.keyed.view.probe
        name = (probe.unit if probe is not None else None) or "a unit of device code"
        others = (
            f"{pick.asked:,} other unit{'' if pick.asked == 1 else 's'} of device code" if pick.asked else ""
        )
        raise AuditFailedError(
            f"the build never asked for {name}" + (f", only for {others}" if others else ""),
            where=str(log),
            hint="its configure step leaves the unit out for this arch, or this version calls it otherwise: "
            "see the log, then mend the recipe (arch, patches, `probe.unit`)",
        )
    return _audited(step, record, pick)


def _audited(step: Step, record: Record, pick: Pick) -> Tried:
    report, coverage = judge_object(step, pick.keep, PurePosixPath(record.unit.made).name)
    found = verdict.problems(report) if report.verdict == "fail" else []
    if found:
        listed = "".join(f"\n    {problem}" for problem in found[:_SHOWN])
        raise AuditFailedError(
            f"the object of {record.unit.name} does not hold what is asked for:{listed}",
            where=str(pick.keep),
            hint="so would all others be; mend the recipe (arch, patches)",
        )
    return Tried(record, pick.asked, coverage, tuple(verdict.warnings(report)))


def judge_object(step: Step, path: Path, name: str) -> tuple[SpecReport, str]:
    """Audit an object of a step; return the report, and what it holds in a few words.

    It must load as machine code, unless all that the recipe has for this arch is left to the driver. Which
    module it will be linked into is not known, so that exceptions for single kernels do not count.

    Args:
        step: what it was compiled for.
        path: the object.
        name: how the report calls it.
    """
    from orchestrator.audit.coverage import loadable
    from orchestrator.audit.findings import Finding
    from orchestrator.audit.policy import Expectation
    from orchestrator.audit.question import Question
    from orchestrator.audit.report import SpecReport, judge_spec
    from orchestrator.inspect.confirm import Disassembler
    from orchestrator.inspect.folder import read_file
    from orchestrator.model.arch import image_names

    if not path.is_file():
        return SpecReport(name, error="the compiler said that all went well, and left no object"), ""
    keyed = step.keyed
    expected = {module.expect for module in keyed.policy}
    jit = "jit" in expected and "native" not in expected
    question = Question(
        devices=tuple(keyed.devices),
        policy=(Expectation("*", "jit" if jit else "native"),),
        requested=frozenset(image_names(keyed.entries)) if keyed.arch else None,
        deep=True,
        confirm=Disassembler.find(),
    )
    facts = read_file(path, name, question, linked=False)
    if facts.containers and not loadable(facts):  # it becomes code that loads when it is linked
        names = _names(facts)
        fits = any(serves(image, keyed.devices) for image in names)
        text = f"nothing in it can be linked to what loads: it holds {', '.join(names)}"
        findings = () if fits else (Finding("error", "not-loadable", text),)
        none = Question(devices=question.devices)
        return judge_spec(
            name, [facts], none, files=[name], findings=findings
        ), f"{', '.join(names)}, to be linked"
    report = judge_spec(name, [facts], question, files=[name])
    return report, verdict.coverage_line(report)


def _names(facts: FileFacts) -> list[str]:
    return sorted({image.name for box in facts.containers for image in box.images})
