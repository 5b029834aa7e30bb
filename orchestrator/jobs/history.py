"""What units cost last time, kept between runs: memory and CPU by recipe, source, arch and compiler.

A file is JSON: what a unit is known by -> [bytes, CPU seconds, number of the last finished build that asked
for it (0: none), key of a build that asked for it and is not finished yet].
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.jobs.units import printable

if TYPE_CHECKING:
    from orchestrator.jobs.units import Unit

_KEPT = 20_000
"""Units of one recipe that are remembered; vLLM has about 400."""
_SHORT = 16
"""Letters of a key that are written down with each unit."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a unit took."""

    memory: int
    """Bytes at its peak, of its whole tree."""
    seconds: float
    """CPU seconds."""


class History:
    """The costs of one recipe's units.

    A unit is known by its source, relative to its step's folder, its compiler, and what it makes. What is new
    is expected to take what the recipe says. Not for several threads at a time.
    """

    def __init__(self, path: Path, *, root: Path, default: Cost, build: str = "") -> None:
        """Read what is known.

        Args:
            path: the file; one that is not there or damaged counts as empty.
            root: the step's folder, which may be another in each run.
            default: what a unit that is not known is expected to take.
            build: the build's key: one that goes on where another was stopped has all units of both.
        """
        self._path = path
        self._root = root
        self._default = default
        self._build = build[:_SHORT]
        self._costs = {key: row.cost for key, row in _read(path).items()}
        self._learned: dict[str, Cost] = {}
        self._asked: set[str] = set()
        self._finished = False
        self._number = 0

    def key(self, unit: Unit, images: tuple[str, ...]) -> str:
        """Return what a unit is known by."""
        place = PurePosixPath(
            posixpath.normpath(posixpath.join(unit.folder, unit.source or unit.output or ""))
        )
        name = place.relative_to(self._root) if place.is_relative_to(self._root) else place
        return " ".join((printable(str(name)), PurePosixPath(unit.compiler).name, ",".join(images)))

    def expected(self, unit: Unit, images: tuple[str, ...]) -> Cost:
        """Return what a unit took last time, or what the recipe says."""
        key = self.key(unit, images)
        self._asked.add(key)
        return self._costs.get(key, self._default)

    def learn(self, unit: Unit, images: tuple[str, ...], cost: Cost) -> None:
        """Remember what a unit took: the most of memory seen, so that a lucky sample does not mislead."""
        key = self.key(unit, images)
        self._asked.add(key)
        known = self._costs.get(key)
        # three quarters of what was known: a unit that got smaller is believed after a few runs
        memory = max(cost.memory, known.memory * 3 // 4) if known else cost.memory
        self._costs[key] = self._learned[key] = Cost(memory, cost.seconds)

    @property
    def costs(self) -> dict[str, Cost]:
        """All that is known."""
        return dict(self._costs)

    def finish(self) -> None:
        """Say that the build went well: the units that were asked for are all that it has.

        They are counted at the next `save`, those that the compiler cache had too.
        """
        self._finished = True

    def save(self) -> None:
        """Write down what was learned, beside what another run has written meanwhile.

        Losing it costs nothing but time, so an error is passed over.
        """
        from orchestrator.errors import SparkbuildError
        from orchestrator.store.atomic import write_bytes

        if not self._asked:
            return
        known = _read(self._path)
        for key, cost in self._learned.items():  # the newest last: they are kept
            known[key] = replace(known.pop(key, _Row(cost)), cost=cost)
        for key in self._asked.intersection(known):
            known[key] = replace(known[key], open=self._build)
        if self._finished:
            self._number = self._number or 1 + max((row.number for row in known.values()), default=0)
            for key, row in known.items():
                if key in self._asked or (row.open and row.open == self._build):
                    known[key] = _Row(row.cost, self._number)
        if not known:
            return
        rows = {key: row.to_json() for key, row in list(known.items())[-_KEPT:]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self._path, json.dumps(rows).encode(), durable=False)
        except (OSError, SparkbuildError):
            return


@dataclass(frozen=True, slots=True)
class Compiled:
    """The units of a component."""

    costs: tuple[Cost, ...]
    whole: bool
    """They are those of the newest finished build; otherwise no build was ever finished."""


def last_build(path: Path) -> Compiled:
    """Return what the units of the newest finished build took, and no others.

    Units of older versions, and those for images that it did not ask for, do not count. Where no build was
    finished, each source and compiler counts once, with the images that were compiled last.

    Args:
        path: a component's file; one that is not there or damaged holds no units.
    """
    rows = _read(path)
    newest = max((row.number for row in rows.values()), default=0)
    if newest:
        return Compiled(tuple(row.cost for row in rows.values() if row.number == newest), whole=True)
    last = {key.rpartition(" ")[0]: row.cost for key, row in rows.items()}
    return Compiled(tuple(last.values()), whole=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """A unit, as the file has it."""

    cost: Cost
    number: int = 0
    open: str = ""

    def to_json(self) -> list[object]:
        row: list[object] = [self.cost.memory, round(self.cost.seconds, 2), self.number]
        return [*row, self.open] if self.open else row


def _read(path: Path) -> dict[str, _Row]:
    try:
        rows = json.loads(path.read_bytes())
        return {str(key): _row(*row) for key, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return {}


def _row(memory: float, seconds: float, number: int = 0, key: str = "", *_: object) -> _Row:
    return _Row(Cost(int(memory), float(seconds)), int(number), str(key))
