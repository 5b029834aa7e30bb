"""What units cost last time, kept between runs: memory and CPU by recipe, source, arch and compiler."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.jobs.units import printable

if TYPE_CHECKING:
    from orchestrator.jobs.units import Unit

_KEPT = 20_000
"""Units of one recipe that are remembered; vLLM has about 400."""


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

    def __init__(self, path: Path, *, root: Path, default: Cost) -> None:
        """Read what is known.

        Args:
            path: the file; one that is not there or damaged counts as empty.
            root: the step's folder, which is another in each run.
            default: what a unit that is not known is expected to take.
        """
        self._path = path
        self._root = root
        self._default = default
        self._costs = _read(path)
        self._learned: dict[str, Cost] = {}

    def key(self, unit: Unit, images: tuple[str, ...]) -> str:
        """Return what a unit is known by."""
        place = PurePosixPath(
            posixpath.normpath(posixpath.join(unit.folder, unit.source or unit.output or ""))
        )
        name = place.relative_to(self._root) if place.is_relative_to(self._root) else place
        return " ".join((printable(str(name)), PurePosixPath(unit.compiler).name, ",".join(images)))

    def expected(self, unit: Unit, images: tuple[str, ...]) -> Cost:
        """Return what a unit took last time, or what the recipe says."""
        return self._costs.get(self.key(unit, images), self._default)

    def learn(self, unit: Unit, images: tuple[str, ...], cost: Cost) -> None:
        """Remember what a unit took: the most of memory seen, so that a lucky sample does not mislead."""
        key = self.key(unit, images)
        known = self._costs.get(key)
        # three quarters of what was known: a unit that got smaller is believed after a few runs
        memory = max(cost.memory, known.memory * 3 // 4) if known else cost.memory
        self._costs[key] = self._learned[key] = Cost(memory, cost.seconds)

    @property
    def costs(self) -> dict[str, Cost]:
        """All that is known."""
        return dict(self._costs)

    def save(self) -> None:
        """Write down what was learned, beside what another run has written meanwhile.

        Losing it costs nothing but time, so an error is passed over.
        """
        from orchestrator.errors import SparkbuildError
        from orchestrator.store.atomic import write_bytes

        if not self._learned:
            return
        # the newest last: they are kept
        there = {key: cost for key, cost in _read(self._path).items() if key not in self._learned}
        newest = list((there | self._learned).items())[-_KEPT:]
        rows = {key: [cost.memory, round(cost.seconds, 2)] for key, cost in newest}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self._path, json.dumps(rows).encode(), durable=False)
        except (OSError, SparkbuildError):
            return


def _read(path: Path) -> dict[str, Cost]:
    try:
        rows = json.loads(path.read_bytes())
        return {str(key): Cost(int(row[0]), float(row[1])) for key, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError):
        return {}
