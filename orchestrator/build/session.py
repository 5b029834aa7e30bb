"""One run: its state folders, store, lease, logs, and who listens to its events."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.build.isolation import isolation
from orchestrator.build.tree import BuildTree
from orchestrator.store.artifacts import Store
from orchestrator.store.atomic import disk_errors, remove_tree
from orchestrator.store.facts import Facts
from orchestrator.store.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchestrator.build.isolation import Isolation
    from orchestrator.plan.steps import Step
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


@dataclass(frozen=True, slots=True)
class Session:
    """What every stage of a run needs at hand."""

    home: Home
    store: Store
    facts: Facts
    lease: Lease
    emit: Emit
    probing: bool = False
    """Whether it only tries out: its build trees are others than those of a build."""
    offline: bool = False
    """Whether the network is kept from commands, as far as this system lets us."""

    @classmethod
    @contextmanager
    def opened(
        cls, home: Home, emit: Emit, *, probing: bool = False, offline: bool = False
    ) -> Iterator[Session]:
        """Open a session; what it uses is safe from gc until the block is left.

        Args:
            home: its state folders.
            emit: hears what happens.
            probing: see the field.
            offline: see the field.

        Raises:
            StoreError, NoSpaceError: the state folder cannot be written.
        """
        with disk_errors(home.root):
            home.claim()
        with Lease(home) as lease:
            session = cls(home, Store(home, emit), Facts(home.facts), lease, emit, probing, offline)
            try:
                yield session
            finally:
                remove_tree(session.pycache)
                with suppress(OSError):
                    session.pycache.parent.rmdir()

    @property
    def network(self) -> Isolation:
        """What stands between commands and the network; tried once in a process."""
        return isolation(offline=self.offline)

    @property
    def pycache(self) -> Path:
        """Where this run's commands keep bytecode of the layers, which are read-only and have none."""
        return self.home.work / self.lease.run / ".pycache"

    def log(self, step: str) -> Path:
        """Return the path of a step's log; its folder is made by whoever opens it."""
        return self.home.logs / self.lease.run / f"{step}.log"

    def units(self, step: str) -> Path:
        """Return the path of the records of a step's units."""
        return self.log(step).with_suffix(".units.jsonl")

    def tree(self, step: Step) -> BuildTree:
        """Return the build tree of a step; nothing is made."""
        return BuildTree.of(self.home, step, probing=self.probing)

    def work(self, step: Step) -> Path:
        """Return the folder of a step's build tree."""
        return self.tree(step).folder
