"""The one table of rules that say what a line of output means.

Rules of a class come first, in four parts by where a fault arises; the lines that only say that something
is wrong come last. Of several that fit a line the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from orchestrator.machine.faults import FaultClass
    from orchestrator.model.archvalues import Device

Role = Literal["cause", "echo", "silent", "error", "note"]
"""`cause` stops a build; `echo` reports that something else failed; `silent` lets the build go on; `error` is
an error that the table knows nothing about; `note` is no fault, but advice may need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an advice is made of."""

    text: str
    """The line that is the evidence."""
    names: tuple[str, ...]
    """What the lines name (group `what` of the patterns), in order, each once."""
    notes: Mapping[str, tuple[str, ...]]
    """What the notes say, by their names."""
    device: Device

    @property
    def first(self) -> str:
        """The first name; empty without one."""
        return self.names[0] if self.names else ""

    @property
    def listed(self) -> str:
        """The names with commas, the first six of them."""
        more = ", …" if len(self.names) > SHOWN_NAMES else ""
        return ", ".join(self.names[:SHOWN_NAMES]) + more


Advice = Callable[[Found], str]
SHOWN_NAMES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table. Rules that share class and advice make one fault."""

    fault: FaultClass
    pattern: re.Pattern[str]
    """Searched in a line without escapes and surrounding space, at most 4096 characters. It must take linear
    time, so it begins with fixed text or is anchored, and its repetitions are bounded."""
    hints: tuple[str, ...]
    """A line without any of these cannot fit; each holds, or is part of, one of `loglines.STEMS`."""
    advice: Advice = field(default=lambda found: found.first)
    role: Role = "cause"
    retry: bool = False
    name: str = ""
    """Of a note: the name under which advice finds it."""
    flush: bool = False
    """It fits only a line that is not indented."""
    concerns: Callable[[str, Device], bool] | None = None
    """Whether a name matters on a device; None: always."""


def row(
    fault: FaultClass,
    hints: str,
    pattern: str,
    advice: Advice,
    *,
    role: Role = "cause",
    retry: bool = False,
    flush: bool = False,
    concerns: Callable[[str, Device], bool] | None = None,
) -> Rule:
    """Return a rule; `hints` are separated by `|`."""
    return Rule(
        fault=fault,
        pattern=re.compile(pattern),
        hints=tuple(hints.split("|")),
        advice=advice,
        role=role,
        retry=retry,
        flush=flush,
        concerns=concerns,
    )


def note(name: str, hints: str, pattern: str) -> Rule:
    """Return a rule that only remembers its group `what` under `name`."""
    hinted = tuple(hints.split("|"))
    return Rule(fault="unknown", pattern=re.compile(pattern), hints=hinted, role="note", name=name)
