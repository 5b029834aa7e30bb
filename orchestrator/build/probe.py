"""`sparkbuild probe`: of each step of a plan one unit is compiled and audited, in minutes, not hours."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from orchestrator.build import stages
from orchestrator.build.gated import Gatehouse
from orchestrator.build.gather import PACKAGES, gather
from orchestrator.build.interrupt import raise_if_interrupted
from orchestrator.build.job import Job
from orchestrator.build.outcome import Failure
from orchestrator.build.probed import Probed, ProbeOutcome
from orchestrator.build.provide import Provided, provide_layers, timed
from orchestrator.build.representative import try_unit
from orchestrator.build.venv import add_wheels, make_environment
from orchestrator.errors import (
    AuditFailedError,
    BuildFailedError,
    InterruptedRunError,
    SourceError,
    SparkbuildError,
    UnforeseenError,
)
from orchestrator.jobs import memory
from orchestrator.report.events import Note, RunStarted, StepEnded, StepStarted
from orchestrator.store.locks import key_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from orchestrator.build.gather import Gathered, Missing
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.probed import Result
    from orchestrator.build.session import Session
    from orchestrator.plan.steps import Step

LOOK_EVERY_S = 0.5
"""A signal that the kernel gave to another thread does not wake the main thread: it wakes up by itself."""
_MOST_AT_A_TIME = 4


def probe(
    prepared: Prepared,
    session: Session,
    *,
    offline: bool = False,
    unread: Mapping[tuple[str, str], SourceError] = MappingProxyType({}),
) -> ProbeOutcome:
    """Try out one unit of each step that would be built. What cannot be had stops nothing else.

    Args:
        prepared: the plan.
        session: a run that is `probing`.
        offline: use no network.
        unread: (recipe, source) -> why its commit could not be read.

    Raises:
        MachineError and its kin (4): before anything is compiled.
    """
    outcome = ProbeOutcome()
    plan = prepared.plan
    session.lease.use("artifacts", [step.keyed.key for step in plan.steps if step.keyed.key])
    there = _gathered(prepared, session, offline=offline, unread=unread)
    todo = []
    for step in plan.steps:
        row, errors = _unprobed(prepared, step, there)
        if row is None:
            todo.append(step)
            continue
        outcome.rows.append(row)
        outcome.failures += [Failure(step.name, error) for error in errors]
    if todo:
        provided = Provided(there.toolkit, there.layers, there.sources)
        with Gatehouse(session) as house:
            _Probes(prepared, session, provided, house, outcome).carry_out(todo)
    order = {step.name: number for number, step in enumerate(plan.steps)}
    outcome.rows.sort(key=lambda row: order[row.component])
    outcome.failures.sort(key=lambda failure: order[failure.step])
    return outcome


def _gathered(
    prepared: Prepared,
    session: Session,
    *,
    offline: bool,
    unread: Mapping[tuple[str, str], SourceError],
) -> Gathered:
    """Fetch what the steps need; packages that one of them lacks are no other's loss."""
    there = gather(prepared, session, offline=offline, published=False, unread=unread)
    if all(each.recipe != PACKAGES for each in there.missing):
        return there
    there.missing[:] = [each for each in there.missing if each.recipe != PACKAGES]
    for step in prepared.plan.builds:
        with there.noting(step.name, "toolkit and build requirements"):
            provided = provide_layers(prepared, [step], session, offline=offline)
            there.toolkit = provided.toolkit or there.toolkit
            there.layers.update(provided.layers)
    return there


def _unprobed(
    prepared: Prepared, step: Step, there: Gathered
) -> tuple[Probed | None, Sequence[SparkbuildError]]:
    """Return the row of a step of which nothing is compiled, and what is wrong; None of one that is tried."""
    keyed = step.keyed

    def row(result: Result, note: str) -> Probed:
        return Probed(component=step.name, version=keyed.version, result=result, note=note)

    if step.action != "build":
        note = f"nothing is compiled: {step.why}" if step.action == "prebuilt" else step.why
        return row(step.action, note), ()
    unfit = prepared.unfit.get(step.name)
    if unfit is None and not keyed.arch_env and keyed.view.probe is None:
        return row("host-only", "it compiles no device code that its recipe knows of"), ()
    lacks = [each for each in there.missing if each.recipe == step.name]
    unbuilt = [_unbuilt(prepared, need) for need in keyed.build_needs]
    unbuilt = [text for text in unbuilt if text]
    if lacks or unfit is not None:
        told = [f"{each.what} cannot be had: {each.error.message}" for each in lacks]
        errors: list[SparkbuildError] = [_joined(lacks)] if lacks else []
        if unfit is None:
            return row("missing", "; ".join([*told, *unbuilt])), errors
        return row("unfit", "; ".join([unfit.message, *told, *unbuilt])), [unfit, *errors]
    if keyed.key is None:
        return row("skipped", keyed.reason or ""), ()
    return (row("skipped", "; ".join(unbuilt)), ()) if unbuilt else (None, ())


def _joined(lacks: Sequence[Missing]) -> SourceError:
    """Return one error for all that a step lacks, each on a line of its own."""
    first = lacks[0].error
    if len(lacks) == 1:
        text, where = f"{lacks[0].what} cannot be had: {first.message}", first.where
    else:
        lines = [f"\n    {each.what}: {each.error.placed}" for each in lacks]
        text, where = f"{len(lacks)} things that it needs cannot be had:{''.join(lines)}", None
    error = SourceError(text, where=where, hint=first.hint)
    error.exit_code = first.exit_code
    return error


def _unbuilt(prepared: Prepared, need: str) -> str:
    """Return why one cannot build on a step yet; empty when one can."""
    if prepared.plan.step(need).action == "reuse" and not _rejected(prepared, need):
        return ""
    if prepared.plan.step(need).action == "prebuilt":
        return ""
    published = prepared.lock.components[need].prebuilt is not None
    return f"needs {need} built first" + (f", or --prebuilt {need}" if published else "")


def _rejected(prepared: Prepared, need: str) -> bool:
    past = prepared.known.get(prepared.plan.step(need).keyed.key or "")
    return past is None or past.rejected


@dataclass(slots=True)
class _Probes:
    """The steps that are tried, several at a time; the main thread's."""

    prepared: Prepared
    session: Session
    provided: Provided
    house: Gatehouse
    outcome: ProbeOutcome

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Try each; a signal ends them all, and the outcome says so."""
        at_a_time = min(_MOST_AT_A_TIME, max(1, memory.cpu_count() // 4))
        logs = self.session.log("").parent
        plan = self.prepared.plan
        names = tuple(step.name for step in steps)
        self.session.emit(RunStarted(plan.stack, plan.arch, names, str(logs)))
        with ThreadPoolExecutor(at_a_time, thread_name_prefix="probe") as pool:
            futures = {pool.submit(self._probe, step): step for step in steps}
            left = set(futures)
            try:
                while left:
                    finished, left = wait(left, LOOK_EVERY_S, FIRST_COMPLETED)
                    for future in finished:
                        self._ended(future, futures[future])
            except InterruptedRunError as error:
                self.outcome.interrupted = error
                pool.shutdown(cancel_futures=True)
        done = {row.component for row in self.outcome.rows}
        for step in steps:
            if step.name not in done:
                row = Probed(component=step.name, version=step.keyed.version, result="stopped")
                self.outcome.rows.append(row)

    def _ended(self, future: Future[Probed], step: Step) -> None:
        try:
            row = future.result()
        except InterruptedRunError:
            raise
        except SparkbuildError as error:
            row = self._fallen(step, error)
        except Exception as error:  # noqa: BLE001 (told with its kind; the others go on)
            unforeseen = UnforeseenError(
                f"{type(error).__name__}: {error}",
                hint="this is a mistake in sparkbuild; the same with --debug shows where",
            )
            unforeseen.__cause__ = error
            row = self._fallen(step, unforeseen)
        self.outcome.rows.append(row)

    def _fallen(self, step: Step, error: SparkbuildError) -> Probed:
        self.outcome.failures.append(Failure(step.name, error))
        log = self.session.log(step.name)
        return Probed(
            component=step.name,
            version=step.keyed.version,
            result="falls-short" if isinstance(error, AuditFailedError) else "failed",
            note=error.message.partition("\n")[0],
            log=str(log) if log.exists() else None,
        )

    def _probe(self, step: Step) -> Probed:
        raise_if_interrupted()
        begin = time.monotonic()
        self.session.emit(StepStarted(step.name))
        ending: Literal["probed", "failed", "rejected", "stopped"] = "stopped"
        text = ""
        try:
            row = self._tried(step)
            ending = "probed"
        except InterruptedRunError:
            raise
        except SparkbuildError as error:
            ending = "rejected" if isinstance(error, AuditFailedError) else "failed"
            text = error.message.partition("\n")[0]
            raise
        except Exception:
            ending = "failed"
            raise
        finally:
            self.session.emit(StepEnded(step.name, ending, time.monotonic() - begin, text))
        return row

    def _tried(self, step: Step) -> Probed:
        session, name = self.session, step.name
        tree = session.tree(step)
        session.lease.use("work", [tree.folder.parent.name])
        key = f"{step.keyed.key}-probe"  # a build of the same key goes on in a tree of its own
        what = f"the probe of {name}"
        with key_lock(session.home, key, what=what, emit=session.emit, check=raise_if_interrupted):
            tree.clear()
            wheels = [wheel for need in step.keyed.build_needs for wheel in self._wheels(need)]
            with timed(session, name, "lay sources and patch"):
                trees = stages.lay_sources(step, self.provided, tree.folder)
                stages.apply_patches(step, self.prepared, trees, session)
            environment = make_environment(tree.folder / "env", layers=self.provided.layers.get(name, ()))
            add_wheels(environment, wheels)
            job = Job(
                step=step,
                prepared=self.prepared,
                provided=self.provided,
                session=session,
                house=self.house,
                trees=trees,
                environment=environment,
            )
            tried = try_unit(job)
            tree.clear()
        for warning in tried.warnings:
            session.emit(Note("warning", warning, name))
        record = tried.record
        return Probed(
            component=name,
            version=step.keyed.version,
            result="passes",
            unit=record.unit.name,
            images=record.images,
            cpu_s=record.cpu_s,
            peak_bytes=record.peak_bytes or None,
            cached=record.how == "hit",
            asked=tried.asked,
            coverage=tried.coverage,
            log=str(session.log(name)),
        )

    def _wheels(self, need: str) -> list[Path]:
        """Return the wheels of a component that was built; none of one that lies in a layer."""
        planned = self.prepared.plan.step(need)
        if planned.action != "reuse":
            return []
        store = self.session.store
        artifact = store.get(planned.keyed.key or "")
        paths = store.verified(artifact) if artifact is not None else None
        if paths is None:
            raise BuildFailedError(
                f"needs {need}, of which nothing is stored any more",
                hint=f"`sparkbuild {need}` builds it",
            )
        return [path for path in paths if path.suffix == ".whl"]
