"""What `sparkbuild arch` tells: the normal form, what it means, and each build system's spelling."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from orchestrator.model.archvalues import runs_on
from orchestrator.model.dialects import DIALECTS, dialect_notes, translate

if TYPE_CHECKING:
    from orchestrator.model.arch import ArchNote, ArchRequest

SCHEMA = "sparkbuild.arch/1"


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """One entry: names of what is compiled (None: not compiled), and the known devices it runs on."""

    arch: str
    sass: str | None
    ptx: str | None
    runs_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArchReport:
    """The fields of the JSON, in its order."""

    schema: str
    input: str
    normal: str
    entries: tuple[EntryFacts, ...]
    notes: tuple[ArchNote, ...]
    translations: dict[str, str | tuple[str, ...] | None]

    def to_json(self) -> str:
        """Return the report as one JSON object of schema `sparkbuild.arch/1`."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


def arch_report(request: ArchRequest) -> ArchReport:
    """Gather all that is said of a request."""
    return ArchReport(
        schema=SCHEMA,
        input=request.input,
        normal=request.normal,
        entries=tuple(
            EntryFacts(
                arch=str(entry.arch),
                sass=entry.arch.name if entry.sass else None,
                ptx=entry.arch.ptx_name if entry.ptx else None,
                runs_on=tuple(map(str, runs_on(entry))),
            )
            for entry in request.entries
        ),
        notes=request.notes + dialect_notes(request.entries),
        translations={dialect: translate(request.entries, dialect) for dialect in DIALECTS},
    )
