"""A whole run: what is stored is served, the rest is built, several components at a time."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.build import prebuilt, verdict
from orchestrator.build.component import Components
from orchestrator.build.gated import Gatehouse
from orchestrator.build.outcome import Failure, Outcome
from orchestrator.build.provide import provide, provide_published
from orchestrator.build.serving import Dist
from orchestrator.errors import (
    AuditFailedError,
    InterruptedRunError,
    MachineError,
    OfflineError,
    SparkbuildError,
    UnforeseenError,
)
from orchestrator.jobs import memory
from orchestrator.plan.improve import improved_priorities
from orchestrator.plan.schedule import UNKNOWN_SECONDS, Limits, Running, Work, remaining, start_next
from orchestrator.report.events import Note, RunStarted, StepEnded, StepStarted
from orchestrator.report.tables import Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from orchestrator.audit.report import SpecReport
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.session import Session
    from orchestrator.model.lock import LockedFile
    from orchestrator.plan.schedule import Priorities
    from orchestrator.plan.steps import Step
    from orchestrator.store.manifest import Audit

LOOK_EVERY_S = 0.5
"""A signal that the kernel gave to another thread does not wake the main thread: it wakes up by itself."""
_MOST_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Way:
    """How a run goes about it."""

    offline: bool = False
    """Use no network."""
    keep_going: bool = True
    """After a failure, build all that does not depend on it; else start nothing more."""
    at_a_time: int | None = None
    """Components that build at a time; None: by the CPUs."""


def carry_out(prepared: Prepared, session: Session, *, dist: Path, way: Way | None = None) -> Outcome:
    """Build what the plan says must be built, audit, store and serve it.

    A step that fails takes those that build on it with it. When a signal or a deadline comes, running
    commands are stopped, what is finished is served, and the outcome says so.

    Args:
        prepared: the plan.
        session: the run.
        dist: folder for wheels and their index, without the stack's name.
        way: how.

    Raises:
        SourceError and its kin (5), MachineError and its kin (4): before anything is built.
        InterruptedRunError: a signal came before anything is built.
    """
    served = Dist.opened(dist / prepared.stack.name, prepared.target.tag)
    session.lease.use("artifacts", [step.keyed.key for step in prepared.plan.steps if step.keyed.key])
    outcome = Outcome(dist=served.folder)
    with Gatehouse(session) as house:
        components = Components(prepared, session, served, house, outcome)
        run = _Run(prepared, session, components, outcome, way or Way())
        builds = [step for step in prepared.plan.steps if not run.settled(step)]
        if builds:
            components.provided = provide(prepared, builds, session, offline=run.way.offline)
        for step in prepared.plan.steps:
            if step.action == "prebuilt":
                run.take_published(step)
        if builds:
            try:
                run.build(builds)
            except InterruptedRunError as error:
                outcome.interrupted = error
    order = {step.name: number for number, step in enumerate(prepared.plan.steps)}
    outcome.rows.sort(key=lambda row: order[row.component])
    if served.update(components.handed_on(), run.failed, session.emit):
        outcome.worked = True
    return outcome


@dataclass(slots=True)
class _Active:
    """A step that is being built."""

    step: Step
    begin: float


@dataclass(slots=True)
class _Run:
    """The course of one run; the main thread's."""

    prepared: Prepared
    session: Session
    components: Components
    outcome: Outcome
    way: Way
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    stopped: SparkbuildError | None = None
    """Why nothing more is started."""
    _active: dict[Future[str], _Active] = field(default_factory=dict)

    def settled(self, step: Step) -> bool:
        """Deal with a step of which nothing has to be built; return False of one that must be."""
        keyed = step.keyed
        if step.action == "not-applicable":
            row = Row(step.name, keyed.version, step.action, note=step.why, key=keyed.key)
            self.outcome.rows.append(row)
        if step.action in {"prebuilt", "not-applicable"}:
            self.done.add(step.name)
            return True
        if step.action == "build":
            return False
        try:
            if not self.components.reuse(step):
                return False
        except (MachineError, InterruptedRunError):
            raise
        except SparkbuildError as error:
            self._fail(step, error, 0)
        else:
            self.done.add(step.name)
        return True

    def take_published(self, step: Step) -> None:
        """Audit what is taken as published, once; what falls short is a failure, and is built against.

        Without the network, what is not here is not audited, which is told.

        Raises:
            MachineError and its kin (4), InterruptedRunError.
        """
        note, found = "", None
        try:
            found = self._audited(step)
        except OfflineError as fault:
            note = f"not audited: {fault.message}"
            self.session.emit(Note("warning", note, step.name))
        except (MachineError, InterruptedRunError):
            raise
        except SparkbuildError as fault:
            note = "not audited"
            self.outcome.failures.append(Failure(step.name, fault))
        coverage = found[0].coverage if found else ""
        row = Row(
            step.name, step.keyed.version, step.action, coverage=coverage, note=note, key=step.keyed.key
        )
        self.outcome.rows.append(row)
        if found is None or found[0].verdict == "pass":
            return
        problems = verdict.problems(found[1]) if found[1] else [found[0].coverage]
        listed = "".join(f"\n    {problem}" for problem in problems[:10])
        error = AuditFailedError(
            f"{step.name} as published does not hold what its policy demands:{listed}",
            hint="build it instead of taking it as published, or mend its policy in the recipe",
        )
        self.outcome.failures.append(Failure(step.name, error))

    def _audited(self, step: Step) -> tuple[Audit, SpecReport | None] | None:
        def fetch(file: LockedFile) -> Path:
            found = provide_published([file], self.prepared, self.session, offline=self.way.offline)
            return found[file.sha256]

        found = prebuilt.audited(self.session.home, step.keyed, fetch)
        if found is not None and found[1] is not None:
            self.outcome.worked = True
        return found

    def build(self, steps: Sequence[Step]) -> None:
        """Build these steps, the most urgent first, each as soon as all that it builds on is there.

        Raises:
            InterruptedRunError: a signal came; all threads have ended.
        """
        by_name = {step.name: step for step in steps}
        cpus = memory.cpu_count()
        at_a_time = self.way.at_a_time or min(_MOST_AT_A_TIME, max(2, cpus // 4))
        limits = Limits(at_a_time, max(0, memory.read_memory().total - memory.reserve()))
        works = {step.name: _work(step, cpus) for step in steps}
        urgency = improved_priorities(works, limits)
        logs = self.session.log("").parent
        self.session.emit(
            RunStarted(self.prepared.plan.stack, self.prepared.plan.arch, tuple(by_name), str(logs))
        )
        try:
            with ThreadPoolExecutor(at_a_time, thread_name_prefix="step") as pool:
                while True:
                    self._start(pool, by_name, works, limits, urgency)
                    if not self._active:
                        break
                    finished, _ = wait(self._active, LOOK_EVERY_S, FIRST_COMPLETED)
                    for future in finished:
                        self._ended(future)
        except InterruptedRunError:
            for name in [name for name in by_name if name not in self.done | self.failed]:
                active = next((one for one in self._active.values() if one.step.name == name), None)
                self._cut(by_name[name], active)
            raise
        for name in [name for name in by_name if name not in self.done | self.failed]:
            self._skip(by_name[name])

    def _start(
        self,
        pool: ThreadPoolExecutor,
        steps: dict[str, Step],
        works: dict[str, Work],
        limits: Limits,
        urgency: Priorities,
    ) -> None:
        if self.stopped is not None:
            return
        now = time.monotonic()
        running = [
            Running(active.step.name, remaining(works[active.step.name].seconds, now - active.begin))
            for active in self._active.values()
        ]
        for name in start_next(works, running, limits, done=self.done, failed=self.failed, urgency=urgency):
            step = steps[name]
            known = step.estimate.cpu_s is not None
            seconds = works[name].seconds if known else None
            self.session.emit(StepStarted(name, step.estimate.units, seconds))
            future = pool.submit(self.components.build, step, urgency=urgency[name])
            self._active[future] = _Active(step, now)

    def _ended(self, future: Future[str]) -> None:
        active = self._active[future]
        step, wall_s = active.step, time.monotonic() - active.begin
        try:
            action = future.result()
        except InterruptedRunError:
            raise
        except SparkbuildError as error:
            self._fail(step, error, wall_s)
        except Exception as error:  # noqa: BLE001 (told with its kind; what does not depend on it goes on)
            unforeseen = UnforeseenError(
                f"{type(error).__name__}: {error}",
                hint="this is a mistake in sparkbuild; the same with --debug shows where",
            )
            unforeseen.__cause__ = error
            self._fail(step, unforeseen, wall_s)
        else:
            self.done.add(step.name)
            self.session.emit(StepEnded(step.name, "reuse" if action == "reuse" else "built", wall_s))
        del self._active[future]

    def _fail(self, step: Step, error: SparkbuildError, wall_s: float) -> None:
        self.failed.add(step.name)
        self.outcome.failures.append(Failure(step.name, error))
        rejected = isinstance(error, AuditFailedError)
        if not any(row.component == step.name for row in self.outcome.rows):
            log = self.session.log(step.name)
            shown = str(log) if log.exists() else None
            action = "rejected" if rejected else "failed"
            row = Row(step.name, step.keyed.version, action, key=step.keyed.key, log=shown)
            self.outcome.rows.append(row)
        # A full disk or a missing tool is everybody's: nothing that follows would go better.
        if isinstance(error, MachineError) or not self.way.keep_going:
            self.stopped = self.stopped or error
        text = error.message.partition("\n")[0]
        self.session.emit(StepEnded(step.name, "rejected" if rejected else "failed", wall_s, text))

    def _skip(self, step: Step) -> None:
        """Tell why a step was not begun."""
        lost = [need for need in step.keyed.build_needs if need in self.failed]
        if lost:
            note = f"needs {', '.join(sorted(lost))}, which failed"
        elif self.stopped is not None:
            first = self.outcome.failures[0].step
            note = f"not started, since {first} failed"
        else:
            note = "needs what was skipped"
        if lost or self.stopped is None:  # else it may be as good as it was
            self.failed.add(step.name)
        self.outcome.rows.append(Row(step.name, step.keyed.version, "skipped", note=note))
        self.session.emit(StepEnded(step.name, "skipped", 0.0, note))

    def _cut(self, step: Step, active: _Active | None) -> None:
        """Tell that a signal has stopped a step, or came before it was begun."""
        action = "not started" if active is None else "stopped"
        log = self.session.log(step.name)
        shown = str(log) if active is not None and log.exists() else None
        self.outcome.rows.append(Row(step.name, step.keyed.version, action, log=shown))
        if active is not None:
            self.session.emit(StepEnded(step.name, "stopped", time.monotonic() - active.begin))


def _work(step: Step, cpus: int) -> Work:
    """Return a step as the schedule sees it: how many run at a time is limited, CPUs the gate shares out."""
    seen = step.estimate.cpu_s
    seconds = UNKNOWN_SECONDS if seen is None else seen / cpus
    return Work(step.name, step.keyed.build_needs, seconds, memory=step.keyed.view.build.memory_per_unit)
