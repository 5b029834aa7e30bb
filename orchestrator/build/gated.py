"""A step's compilers behind the gate: scripts that stand for them, costs, and what must not be compiled."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orchestrator.build import interrupt
from orchestrator.errors import AuditFailedError
from orchestrator.jobs import memory
from orchestrator.jobs.broker import Broker
from orchestrator.jobs.compilercache import find_ccache, settings
from orchestrator.jobs.history import Cost, History
from orchestrator.jobs.served import refusal
from orchestrator.jobs.tools import narrow_ninja, shadow, variables, write_tools
from orchestrator.jobs.turns import StepJobs
from orchestrator.jobs.units import hit_rate
from orchestrator.report.events import Note, UnitEnded, Usage
from orchestrator.store.atomic import disk_errors, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.build.prepare import Prepared
    from orchestrator.build.session import Session
    from orchestrator.jobs.broker import Use
    from orchestrator.jobs.pick import Pick
    from orchestrator.jobs.units import Record, Unit
    from orchestrator.plan.steps import Step

_FIRST_GUESS_S = 60.0
"""CPU seconds that a unit is expected to take which was never compiled before."""


_PROBE_JOBS = 64
"""Launchers that wait take about 9 MB each."""


def jobs_offered(*, probing: bool = False) -> int:
    """Return how many jobs builds may start: more than run at a time, so that the gate has a choice.

    In a probe far more: all but one unit wait, and the one should be among them.
    """
    offered = 2 * memory.cpu_count()
    return max(_PROBE_JOBS, offered) if probing else offered


class Gatehouse:
    """The broker of a run, which starts when the first step compiles."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._broker: Broker | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._broker is not None:
            self._broker.__exit__(*error)

    @property
    def broker(self) -> Broker:
        """The broker; started when it is not yet there. Any thread may ask."""
        with self._lock:
            if self._broker is None:
                self._broker = Broker(
                    slots=memory.cpu_count(), reserve=memory.reserve(), warn=self._warn, watch=self._watch
                ).__enter__()
            return self._broker

    def _watch(self, use: Use) -> None:
        self._session.emit(Usage(use.units, use.slots, use.used, use.budget))

    def _warn(self, step: str, text: str) -> None:
        if not interrupt.interrupted():  # then its compilers are killed by us
            self._session.emit(Note("warning", text, step))


@dataclass(frozen=True, slots=True)
class Gated:
    """The way of a step's compilers."""

    jobs: StepJobs
    tools: Path
    variables: dict[str, str]
    toolkit: Path | None = None
    """What stands for CUDA_HOME, where the step compiles device code."""

    def into(self, env: dict[str, str]) -> dict[str, str]:
        """Return a command's environment with this in it; none of it is in the key."""
        homes = {name: str(self.toolkit) for name in ("CUDA_HOME", "CUDA_PATH") if self.toolkit is not None}
        if self.jobs.pick is not None and self.jobs.pick.unit is not None:
            prefix = Path(env["VIRTUAL_ENV"])
            narrow_ninja(self.tools, search=env["PATH"], prefix=prefix, unit=self.jobs.pick.unit)
        return {**env, **self.variables, **homes, "PATH": f"{self.tools}:{env['PATH']}"}

    @property
    def unit_failed(self) -> bool:
        """Whether a compiler has failed."""
        return any(record.how == "failed" for record in self.jobs.records)

    def raise_refused(self, log: Path) -> None:
        """Tell of a unit that was stopped, as the reason why a command failed.

        Raises:
            AuditFailedError: there was one.
        """
        refused = next((record for record in self.jobs.records if record.how == "refused"), None)
        if refused is not None:
            raise refused_error(refused, log)


def refused_error(record: Record, log: Path) -> AuditFailedError:
    """Return what is told of a unit that was stopped."""
    return AuditFailedError(
        f"stopped before hours are lost: {record.why}",
        where=str(log),
        hint="tell the build the arch (the recipe's `arch.env`), patch what sets another one, or "
        "except the source under the recipe's `build.elsewhere`, with a reason",
    )


@contextmanager
def gated(
    step: Step,
    prepared: Prepared,
    toolkit: Path | None,
    session: Session,
    house: Gatehouse,
    *,
    urgency: float = 0.0,
    pick: Pick | None = None,
) -> Iterator[Gated]:
    """Put a step's compilers behind the gate, and keep the records of its units when it is done.

    Args:
        step: what is built.
        prepared: the plan that it is part of.
        toolkit: CUDA_HOME; None when the step compiles no device code.
        session: the run.
        house: the run's broker.
        urgency: the units of the most urgent step go first.
        pick: the one unit that is compiled in a probe; None: all are.
    """
    view, tree = step.keyed.view, session.tree(step)
    work = tree.folder
    tools = work / "tools"
    cc, cxx = prepared.compiler.cc, prepared.compiler.cxx
    compilers = {"gcc": cc, "cc": cc, cc.name: cc, "g++": cxx, "c++": cxx, cxx.name: cxx}
    identity = [prepared.compiler.identity]
    if toolkit is not None:
        compilers["nvcc"] = toolkit / "bin" / "nvcc"
        identity.append(prepared.toolkit.identity if prepared.toolkit else "")
    with disk_errors(tools):
        write_tools(tools, compilers)
        stand_in = shadow(tools, toolkit) if toolkit is not None else None
    excepted = [entry.source for entry in view.build.elsewhere]
    jit = any(module.expect == "jit" for module in view.modules)

    def judge(unit: Unit, images: tuple[str, ...]) -> str | None:
        if not step.keyed.devices:
            return None
        return refusal(unit, images, step.keyed.devices, excepted=excepted, jit=jit)

    def listen(record: Record) -> None:
        session.emit(UnitEnded(step.name, record.unit.name, record.how, record.cpu_s, record.peak_bytes))

    jobs = StepJobs(
        step.name,
        History(
            session.home.units / f"{step.name}.json",
            root=work,
            default=Cost(view.build.memory_per_unit, _FIRST_GUESS_S),
            build=step.keyed.key or "",
        ),
        urgency=urgency,
        judge=judge,
        listen=listen,
        journal=tree.journal,
        pick=pick,
    )
    house.broker.open(jobs)
    cache = settings(session.home.ccache, base=work, tools=identity)
    try:
        yield Gated(
            jobs,
            tools,
            {
                **variables(tools, broker=house.broker.address, step=step.name, ccache=find_ccache()),
                **cache,
            },
            stand_in,
        )
        if pick is None:
            jobs.history.finish()
    finally:
        house.broker.close(jobs)
        _keep(jobs.records, step.name, session)


def _keep(records: list[Record], step: str, session: Session) -> None:
    """Write down what became of each unit, and say how many the cache had."""
    if not records:
        return
    lines = "".join(json.dumps(record.to_json()) + "\n" for record in records)
    write_bytes(session.units(step), lines.encode(), durable=False)
    rate = hit_rate(records)
    hits = f", {rate:.0%} of them from the compiler cache" if rate else ""
    many = "1 unit" if len(records) == 1 else f"{len(records):,} units"
    session.emit(Note("info", f"{many} compiled{hits}", step))
