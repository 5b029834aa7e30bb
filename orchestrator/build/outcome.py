"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.report.tables import Row

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from orchestrator.errors import InterruptedRunError, SparkbuildError
    from orchestrator.plan.steps import Step
    from orchestrator.store.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that did not go well."""

    step: str
    error: SparkbuildError

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON of a run or a probe shows it."""
        return {
            "name": self.step,
            "code": self.error.code,
            "exit_code": self.error.exit_code,
            "text": self.error.message,
            "where": self.error.where,
            "hint": self.error.hint,
        }


def exit_code(failures: Iterable[Failure]) -> int:
    """Return 0, or the code of the earliest stage that failed: 5 before 4 before 1 before 3."""
    codes = {failure.error.exit_code for failure in failures}
    return next((code for code in (70, 5, 4, 2, 1, 3) if code in codes), 0)


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    dist: Path
    """`dist/<stack>`: wheels and their index."""
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    worked: bool = False
    """False: everything was there already."""
    interrupted: InterruptedRunError | None = None
    """A signal or a deadline came; the rows tell how far it had got."""

    @property
    def exit_code(self) -> int:
        """0, or the code of the earliest stage that failed: 5 before 4 before 1 before 3."""
        return exit_code(self.failures)


def row_of(step: Step, action: str, manifest: Manifest | None, *, note: str = "") -> Row:
    """Return the row of a step of which there is an artifact; its cost is shown where it was made now."""
    now = manifest if action != "reuse" else None
    return Row(
        step.name,
        step.keyed.version,
        action,
        wall_s=now.cost.wall_s if now else None,
        cpu_s=now.cost.cpu_s if now else None,
        peak_bytes=now.cost.peak_bytes if now else None,
        coverage=manifest.audit.coverage if manifest and manifest.audit else "",
        note=note,
        wheels=tuple(item.name for item in manifest.files) if manifest and action != "rejected" else (),
        key=step.keyed.key,
        log=now.log if now else None,
    )
