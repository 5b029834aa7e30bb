"""What a probe came to, by component."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.build.outcome import Failure, exit_code

if TYPE_CHECKING:
    from orchestrator.errors import InterruptedRunError

Result = Literal[
    "passes",
    "falls-short",
    "failed",
    "missing",
    "unfit",
    "skipped",
    "stopped",
    "host-only",
    "reuse",
    "prebuilt",
    "not-applicable",
]
"""`falls-short`: its object or flags do not serve. `missing`: something of it could not be had. `unfit`: this
machine lacks what it needs. `skipped`: it builds on what is not built yet. `host-only`: it compiles no device
code. `reuse`: it is built already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the probe of one component came to."""

    component: str
    version: str
    result: Result
    unit: str = ""
    images: tuple[str, ...] = ()
    """What nvcc was asked to make of it."""
    cpu_s: float | None = None
    peak_bytes: int | None = None
    cached: bool = False
    """The compiler cache had its object."""
    asked: int | None = None
    """Units of device code that the build had asked for, none for other GPUs alone."""
    coverage: str = ""
    """What its object holds."""
    note: str = ""
    """Why, where it does not pass."""
    log: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as `sparkbuild probe --json` shows it."""
        return {
            "name": self.component,
            "version": self.version,
            "result": self.result,
            "unit": self.unit or None,
            "images": list(self.images),
            "cpu_s": self.cpu_s,
            "peak_bytes": self.peak_bytes,
            "cached": self.cached,
            "asked": self.asked,
            "coverage": self.coverage or None,
            "note": self.note or None,
            "log": self.log,
        }


@dataclass(slots=True)
class ProbeOutcome:
    """What a whole probe came to."""

    rows: list[Probed] = field(default_factory=list)
    """In build order."""
    failures: list[Failure] = field(default_factory=list)
    interrupted: InterruptedRunError | None = None

    @property
    def exit_code(self) -> int:
        """0, or the code of the earliest stage that failed."""
        return exit_code(self.failures)
