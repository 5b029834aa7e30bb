"""What can be wrong, as values: a fault with its evidence, and the answer of `sparkbuild diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

SCHEMA: Final = "sparkbuild.diagnose/1"

FaultClass = Literal[
    "oom",
    "compiler-crash",
    "wrong-suffix",
    "toolchain-too-old",
    "missing-header",
    "patch-conflict",
    "network",
    "bad-pin",
    "disk-full",
    "version-from-git",
    "torch-replaced",
    "torch-abi",
    "own-symbol",
    "cuda-major-mix",
    "arch-corruption",
    "arch-dropped",
    "ptx-newer-than-driver",
    "runtime-guard",
    "wrong-arch-image",
    "cache-tool",
    "upstream-protocol",
    "timeout",
    "unknown",
]

CLASSES: Final[tuple[FaultClass, ...]] = get_args(FaultClass)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    fault_class: FaultClass
    evidence: str
    """The line that says so, without escapes and surrounding space, at most 300 characters."""
    advice: str
    """What to do next."""
    retry: bool
    """Whether to run the same once more, alone."""
    line: int | None = None
    """Number of that line, from 1; None: it is an exit code, or the last line of the output."""
    count: int = 1
    """How many lines say the same."""

    def to_json(self) -> dict[str, Any]:
        """Return class, evidence, advice and retry, and also line and count."""
        return {
            "class": self.fault_class,
            "evidence": self.evidence,
            "advice": self.advice,
            "retry": self.retry,
            "line": self.line,
            "count": self.count,
        }

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return what a person is told: pairs of a word and a text."""
        where = "" if self.line is None else f", line {self.line}"
        many = f", {self.count} times" if self.count > 1 else ""
        return (
            ("fault", f"{self.fault_class}{where}{many}"),
            ("evidence", self.evidence),
            ("advice", self.advice),
            ("retry", "once, alone" if self.retry else "no, it would fail again"),
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log, or pasted output, says."""

    faults: tuple[Fault, ...]
    """First cause first."""
    summary: str
    """One line."""
    last_line: str | None = None
    """The last line of the output, for when no line says what is wrong; None without output."""
    blank: bool = False
    """There was nothing to read but space."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that `sparkbuild diagnose --json` prints."""
        return {
            "schema": SCHEMA,
            "faults": [fault.to_json() for fault in self.faults],
            "summary": self.summary,
        }
