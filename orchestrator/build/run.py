"""A whole run: the plan carried out step by step, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.build import stages, verdict
from orchestrator.build.gated import Gatehouse
from orchestrator.build.provide import Provided, provide, timed
from orchestrator.build.serving import Dist
from orchestrator.errors import (
    AuditFailedError,
    InterruptedRunError,
    MachineError,
    SparkbuildError,
    StoreError,
    UnforeseenError,
)
from orchestrator.report.events import Note
from orchestrator.report.tables import Row
from orchestrator.store.atomic import sha256_file
from orchestrator.store.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.audit.report import SpecReport
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.session import Session
    from orchestrator.plan.steps import Step
    from orchestrator.store.artifacts import Artifact
    from orchestrator.store.manifest import Audit


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that did not go well."""

    step: str
    error: SparkbuildError


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    dist: Path
    """`dist/<stack>`: wheels and their index."""
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    worked: bool = False
    """False: everything was there already."""

    @property
    def exit_code(self) -> int:
        """0, or the code of the earliest stage that failed: 5 before 4 before 1 before 3."""
        codes = {failure.error.exit_code for failure in self.failures}
        return next((code for code in (70, 5, 4, 2, 1, 3) if code in codes), 0)


def carry_out(prepared: Prepared, session: Session, *, dist: Path, offline: bool = False) -> Outcome:
    """Build what the plan says must be built, audit, store and serve it.

    A step that fails takes those that need it with it; the others go on.

    Args:
        prepared: the plan.
        session: the run.
        dist: folder for wheels and their index, without the stack's name.
        offline: use no network.

    Raises:
        SourceError and its kin (5), MachineError and its kin (4): before anything is built.
        InterruptedRunError: a signal came; what was finished is kept.
    """
    served = Dist.opened(dist / prepared.stack.name, prepared.target.tag)
    session.lease.use("artifacts", [step.keyed.key for step in prepared.plan.steps if step.keyed.key])
    with Gatehouse(session) as house:
        run = _Run(prepared, session, served, house)
        run.provided = provide(prepared, prepared.plan.builds, session, offline=offline)
        for step in prepared.plan.steps:
            run.step(step, offline=offline)
    if run.dist.update(run.handed_on(), run.failed, session.emit):
        run.outcome.worked = True
    return run.outcome


class _Run:
    """What is known so far. One run, one thread."""

    def __init__(self, prepared: Prepared, session: Session, dist: Dist, house: Gatehouse) -> None:
        self.house = house
        self.prepared = prepared
        self.session = session
        self.dist = dist
        self.outcome = Outcome(dist=dist.folder)
        self.provided: Provided
        self.failed: set[str] = set()
        self._artifacts: dict[str, Artifact] = {}
        self._verified: dict[str, list[Path]] = {}

    def handed_on(self) -> dict[str, dict[Path, str]]:
        """Return component -> wheels whose bytes were hashed in this run, and their sha256."""
        return {
            name: {path: file.sha256 for path, file in zip(paths, artifact.manifest.files, strict=True)}
            for name, paths in self._verified.items()
            if (artifact := self._artifacts.get(name)) is not None
        }

    def step(self, step: Step, *, offline: bool) -> None:
        keyed = step.keyed
        if step.action in {"prebuilt", "not-applicable"}:
            note = step.why if step.action == "not-applicable" else ""
            self.outcome.rows.append(Row(step.name, keyed.version, step.action, note=note, key=keyed.key))
            return
        lost = sorted(self.failed.intersection(keyed.needs))
        if lost:
            self.failed.add(step.name)
            note = f"needs {', '.join(lost)}, which failed"
            self.outcome.rows.append(Row(step.name, keyed.version, "skipped", note=note))
            return
        try:
            if step.action == "reuse":
                self._reuse(step, offline=offline)
            else:
                self._build(step)
        except (MachineError, InterruptedRunError):
            # A full disk or a missing tool is everybody's: nothing that follows would go better.
            raise
        except SparkbuildError as error:
            self._fail(step, error)
        except Exception as error:  # noqa: BLE001 (told with its kind; what does not depend on it goes on)
            unforeseen = UnforeseenError(
                f"{type(error).__name__}: {error}",
                hint="this is a mistake in sparkbuild; the same with --debug shows where",
            )
            unforeseen.__cause__ = error
            self._fail(step, unforeseen)

    def _fail(self, step: Step, error: SparkbuildError) -> None:
        self.failed.add(step.name)
        self.outcome.failures.append(Failure(step.name, error))
        action = "rejected" if isinstance(error, AuditFailedError) else "failed"
        if not any(row.component == step.name for row in self.outcome.rows):
            log = self.session.log(step.name)
            shown = str(log) if log.exists() else None
            row = Row(step.name, step.keyed.version, action, key=step.keyed.key, log=shown)
            self.outcome.rows.append(row)

    def _reuse(self, step: Step, *, offline: bool) -> None:
        """Serve what is stored, or build it anew when it is gone or its bytes prove wrong."""
        artifact = self._stored(step)
        if artifact is None:
            # The store has told why. Only now it is known that this step needs sources and layers.
            more = provide(self.prepared, [step], self.session, offline=offline)
            self.provided = self.provided.joined(more)
            self._build(step)
        else:
            self._take(step, artifact, "reuse")

    def _stored(self, step: Step) -> Artifact | None:
        """Return a step's artifact, fit to be handed on; None when it must be built.

        Another policy, device or audit judges it again, and so is told anew what a rejected one lacks.

        Raises:
            AuditFailedError: it is there, and its audit fails.
        """
        key = step.keyed.key or ""
        store = self.session.store
        artifact = store.get(key) or store.get_rejected(key)
        if artifact is None:
            return None
        digests = [item.sha256 for item in artifact.manifest.files]
        audit = artifact.manifest.audit
        rejected = artifact.folder.parent == store.home.rejected
        if rejected or audit is None or audit.key != verdict.key_of(step.keyed, digests):
            return self._audit_again(step, artifact)
        return self._hashed(step, artifact)

    def _hashed(self, step: Step, artifact: Artifact) -> Artifact | None:
        """Hash an artifact that will be handed on; None when its bytes are wrong."""
        wheels = {item.name: item.sha256 for item in artifact.manifest.files}
        needed = any(step.name in other.keyed.build_needs for other in self.prepared.plan.builds)
        if not needed and self.dist.serves(step.name, wheels):
            return artifact
        paths = self.session.store.verified(artifact)
        if paths is None:
            return None
        self._verified[step.name] = paths
        return artifact

    def _audit_again(self, step: Step, artifact: Artifact) -> Artifact | None:
        store = self.session.store
        paths = store.verified(artifact)
        if paths is None:
            return None
        self.outcome.worked = True
        with timed(self.session, step.name, "audit again"):
            digests = [item.sha256 for item in artifact.manifest.files]
            audit, report = self._judged(step, paths, digests)
        for text in verdict.warnings(report):
            self.session.emit(Note("warning", text, step.name))
        store.update_audit(artifact.key, audit)
        moved = store.promote(artifact.key) if audit.verdict == "pass" else store.demote(artifact.key)
        found = moved or store.get(artifact.key) or store.get_rejected(artifact.key)
        if audit.verdict != "pass":
            self._reject(step, found, verdict.problems(report))
        if found is not None:
            self._verified[step.name] = found.paths
        return found

    def _build(self, step: Step) -> None:
        """Build one step, or wait for another run that does and take what it made."""
        with self.session.store.lock(step.keyed.key or "", step.name):
            artifact = self._stored(step)
            action = "reuse"
            if artifact is None:
                self.outcome.worked = True
                work = self.session.work(step.name)
                artifact = self._made(step, work)
                stages.clear(work)
                # Hashed a moment ago, when it was stored.
                self._verified[step.name] = artifact.paths
                action = "built"
        self._take(step, artifact, action)

    def _made(self, step: Step, work: Path) -> Artifact:
        session, keyed = self.session, step.keyed
        with timed(session, step.name, "lay sources and patch"):
            trees = stages.lay_sources(step, self.provided, work)
            stages.apply_patches(step, self.prepared, trees, session)
        needed = [path for need in keyed.build_needs for path in self._needed(need)]
        built = stages.build(
            step, self.prepared, self.provided, trees, session, needed=needed, house=self.house
        )
        with timed(session, step.name, "audit"):
            digests = [sha256_file(wheel) for wheel in built.wheels]
            audit, report = self._judged(step, built.wheels, digests)
        for text in verdict.warnings(report):
            session.emit(Note("warning", text, step.name))
        manifest = Manifest(
            name=step.name,
            version=keyed.version,
            ingredients=dict(keyed.ingredients),
            audit=audit,
            cost=built.cost,
            log=str(built.log),
        )
        put = session.store.put if audit.verdict == "pass" else session.store.reject
        artifact = put(keyed.key or "", built.wheels, manifest, move=True)
        if audit.verdict != "pass":
            stages.clear(work)
            self._reject(step, artifact, verdict.problems(report))
        return artifact

    def _judged(self, step: Step, wheels: Sequence[Path], digests: Sequence[str]) -> tuple[Audit, SpecReport]:
        """Audit a step's wheels, given what they were built with."""
        toolkit = self.prepared.toolkit if step.keyed.arch_env else None
        major = toolkit.version.partition(".")[0] if toolkit else ""
        return verdict.audit(
            step.keyed,
            wheels,
            digests,
            torch=self._torch(step),
            cuda_major=int(major) if major.isdigit() else None,
        )

    def _torch(self, step: Step) -> Path | None:
        """Return the folder with the prebuilt torch that a step is built against, if its layers are here."""
        layers = self.provided.layers.get(step.name, ())
        return next(
            (layer / "site" for layer in layers if (layer / "site/torch/lib/libc10.so").is_file()), None
        )

    def _needed(self, need: str) -> list[Path]:
        """Return the verified wheels of a built component that another is built against; none of a prebuilt.

        Raises:
            StoreError: their bytes are wrong.
        """
        artifact = self._artifacts.get(need)
        if artifact is None:
            return []
        paths = self._verified.get(need) or self.session.store.verified(artifact)
        if paths is None:
            raise StoreError(
                f"the stored wheel of {need} had changed and was put into quarantine",
                hint="run the same command again: it builds it anew",
            )
        return [path for path in paths if path.suffix == ".whl"]

    def _reject(self, step: Step, artifact: Artifact | None, problems: list[str]) -> None:
        """Tell what a wheel lacks. It is kept as rejected: not served, not lost."""
        manifest = artifact.manifest if artifact else None
        self.outcome.rows.append(
            Row(
                step.name,
                step.keyed.version,
                "rejected",
                wall_s=manifest.cost.wall_s if manifest else None,
                cpu_s=manifest.cost.cpu_s if manifest else None,
                peak_bytes=manifest.cost.peak_bytes if manifest else None,
                coverage=manifest.audit.coverage if manifest and manifest.audit else "",
                key=step.keyed.key,
                log=manifest.log if manifest else None,
            )
        )
        listed = "".join(f"\n    {problem}" for problem in problems[:10])
        raise AuditFailedError(
            f"{step.name} was built, but does not hold what its policy demands:{listed}",
            where=str(artifact.folder) if artifact else None,
            hint="it is kept there as rejected and not served; mend the recipe (arch, patches) or its policy",
        )

    def _take(self, step: Step, artifact: Artifact, action: str) -> None:
        manifest = artifact.manifest
        self._artifacts[step.name] = artifact
        self.outcome.rows.append(
            Row(
                step.name,
                step.keyed.version,
                action,
                wall_s=manifest.cost.wall_s if action == "built" else None,
                cpu_s=manifest.cost.cpu_s if action == "built" else None,
                peak_bytes=manifest.cost.peak_bytes if action == "built" else None,
                coverage=manifest.audit.coverage if manifest.audit else "",
                wheels=tuple(item.name for item in manifest.files),
                key=step.keyed.key,
                log=manifest.log if action == "built" else None,
            )
        )
