"""One component of a run: served from the store, or built, audited and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.build import stages, verdict
from orchestrator.build.interrupt import raise_if_interrupted
from orchestrator.build.job import Job
from orchestrator.build.outcome import row_of
from orchestrator.build.provide import Provided, timed
from orchestrator.build.venv import add_wheels, environment_at, make_environment
from orchestrator.errors import (
    AuditFailedError,
    BuildFailedError,
    StoreError,
    ToolMissingError,
    TorchReplacedError,
    UnitFailedError,
)
from orchestrator.report.events import Note
from orchestrator.store.atomic import disk_errors, sha256_file
from orchestrator.store.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.audit.report import SpecReport
    from orchestrator.build.gated import Gatehouse
    from orchestrator.build.job import Trees
    from orchestrator.build.outcome import Outcome
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.serving import Dist
    from orchestrator.build.session import Session
    from orchestrator.build.stages import Built
    from orchestrator.build.tree import BuildTree
    from orchestrator.build.venv import Environment
    from orchestrator.plan.steps import Step
    from orchestrator.store.artifacts import Artifact
    from orchestrator.store.manifest import Audit


class Components:
    """What is known of the components of a run so far.

    Steps may be worked on in several threads, each step in one. What one leaves is read by another only
    when it has ended.
    """

    def __init__(
        self, prepared: Prepared, session: Session, dist: Dist, house: Gatehouse, outcome: Outcome
    ) -> None:
        self._prepared = prepared
        self._session = session
        self._dist = dist
        self._house = house
        self._outcome = outcome
        self.provided = Provided(None, {}, {})
        self._artifacts: dict[str, Artifact] = {}
        self._verified: dict[str, list[Path]] = {}

    def handed_on(self) -> dict[str, dict[Path, str]]:
        """Return component -> wheels whose bytes were hashed in this run, and their sha256."""
        return {
            name: {path: file.sha256 for path, file in zip(paths, artifact.manifest.files, strict=True)}
            for name, paths in self._verified.items()
            if (artifact := self._artifacts.get(name)) is not None
        }

    def reuse(self, step: Step) -> bool:
        """Serve what is stored; return False when it is gone or its bytes prove wrong, which was told.

        Raises:
            AuditFailedError: it is there, and its audit fails.
        """
        artifact = self._stored(step)
        if artifact is None:
            return False
        self._take(step, artifact, "reuse")
        return True

    def build(self, step: Step, *, urgency: float = 0.0) -> str:
        """Build one step, or wait for another run that does and take what it made; say which.

        Raises:
            SparkbuildError: it did not go well.
        """
        with self._session.store.lock(step.keyed.key or "", step.name, check=raise_if_interrupted):
            artifact = self._stored(step)
            action = "reuse"
            if artifact is None:
                self._outcome.worked = True
                tree = self._session.tree(step)
                artifact = self._made(step, tree, urgency)
                tree.clear()
                # Hashed a moment ago, when it was stored.
                self._verified[step.name] = artifact.paths
                action = "built"
        self._take(step, artifact, action)
        return action

    def _stored(self, step: Step) -> Artifact | None:
        """Return a step's artifact, fit to be handed on; None when it must be built.

        Another policy, device or audit judges it again, and so is told anew what a rejected one lacks.

        Raises:
            AuditFailedError: it is there, and its audit fails.
        """
        key = step.keyed.key or ""
        store = self._session.store
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
        needed = any(step.name in other.keyed.build_needs for other in self._prepared.plan.builds)
        if not needed and self._dist.serves(step.name, wheels):
            return artifact
        paths = self._session.store.verified(artifact)
        if paths is None:
            return None
        self._verified[step.name] = paths
        return artifact

    def _audit_again(self, step: Step, artifact: Artifact) -> Artifact | None:
        store = self._session.store
        paths = store.verified(artifact)
        if paths is None:
            return None
        self._outcome.worked = True
        with timed(self._session, step.name, "audit again"):
            digests = [item.sha256 for item in artifact.manifest.files]
            audit, report = self._judged(step, paths, digests)
        for text in verdict.warnings(report):
            self._session.emit(Note("warning", text, step.name))
        store.update_audit(artifact.key, audit)
        moved = store.promote(artifact.key) if audit.verdict == "pass" else store.demote(artifact.key)
        found = moved or store.get(artifact.key) or store.get_rejected(artifact.key)
        if audit.verdict != "pass":
            self._reject(step, found, verdict.problems(report))
        if found is not None:
            self._verified[step.name] = found.paths
        return found

    def _made(self, step: Step, tree: BuildTree, urgency: float) -> Artifact:
        """Build a step, audit and store it; in the tree that was left under its key, where that can be."""
        session, keyed = self._session, step.keyed
        needed = [pair for need in keyed.build_needs for pair in self._needed(need)]
        digests = [digest for _, digest in needed]
        session.lease.use("work", [tree.folder.parent.name])
        resumed, told = tree.resumes(digests)
        if told:
            session.emit(Note("info", told, step.name))
        try:
            built = self._built(step, tree, needed, urgency, resumed=resumed)
        except TorchReplacedError:
            tree.spend()
            raise
        except (BuildFailedError, ToolMissingError) as error:
            if resumed:
                tree.spend()
            if not resumed or isinstance(error, UnitFailedError):
                raise
            session.emit(Note("warning", f"{error.message}; it is built again from clean sources", step.name))
            built = self._built(step, tree, needed, urgency, resumed=False)
        return self._kept(step, tree, built)

    def _built(
        self,
        step: Step,
        tree: BuildTree,
        needed: Sequence[tuple[Path, str]],
        urgency: float,
        *,
        resumed: bool,
    ) -> Built:
        layers = self.provided.layers.get(step.name, ())
        if resumed:
            trees = stages.trees_of(step, tree.folder)
            left = tree.settle([trees.main / step.keyed.view.build.directory])
            if left:
                text = f"{left} outputs of compilers that were cut off are made anew"
                self._session.emit(Note("info", text, step.name))
            environment = environment_at(tree.folder / "env", layers)
        else:
            tree.clear()
            trees, environment = self._laid(step, tree, layers, [wheel for wheel, _ in needed])
        tree.ready([digest for _, digest in needed], self._session.lease.run)
        return stages.build(
            Job(
                step=step,
                prepared=self._prepared,
                provided=self.provided,
                session=self._session,
                house=self._house,
                trees=trees,
                environment=environment,
                urgency=urgency,
            )
        )

    def _laid(
        self, step: Step, tree: BuildTree, layers: Sequence[Path], needed: Sequence[Path]
    ) -> tuple[Trees, Environment]:
        with timed(self._session, step.name, "lay sources and patch"), disk_errors(tree.folder):
            trees = stages.lay_sources(step, self.provided, tree.folder)
            stages.apply_patches(step, self._prepared, trees, self._session)
        environment = make_environment(tree.folder / "env", layers=layers)
        add_wheels(environment, needed)
        return trees, environment

    def _kept(self, step: Step, tree: BuildTree, built: Built) -> Artifact:
        """Audit what was built, and store it as served or rejected."""
        session, keyed = self._session, step.keyed
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
            network=session.network.held,
            log=str(built.log),
        )
        put = session.store.put if audit.verdict == "pass" else session.store.reject
        artifact = put(keyed.key or "", built.wheels, manifest, move=True)
        if audit.verdict != "pass":
            tree.clear()
            self._reject(step, artifact, verdict.problems(report))
        return artifact

    def _judged(self, step: Step, wheels: Sequence[Path], digests: Sequence[str]) -> tuple[Audit, SpecReport]:
        """Audit a step's wheels, given what they were built with."""
        toolkit = self._prepared.toolkit if step.keyed.arch_env else None
        major = toolkit.version.partition(".")[0] if toolkit else ""
        return verdict.audit(
            step.keyed,
            wheels,
            digests,
            torch=self._torch(step),
            cuda_major=int(major) if major.isdigit() else None,
            scratch=self._session.home.work,
        )

    def _torch(self, step: Step) -> Path | None:
        """Return the folder with the prebuilt torch that a step is built against, if its layers are here."""
        layers = self.provided.layers.get(step.name, ())
        return next(
            (layer / "site" for layer in layers if (layer / "site/torch/lib/libc10.so").is_file()), None
        )

    def _needed(self, need: str) -> list[tuple[Path, str]]:
        """Return the verified wheels, and their sha256, of a built component that another is built against.

        Raises:
            StoreError: their bytes are wrong.
        """
        artifact = self._artifacts.get(need)
        if artifact is None:  # a prebuilt: it lies in a layer
            return []
        paths = self._verified.get(need) or self._session.store.verified(artifact)
        if paths is None:
            raise StoreError(
                f"the stored wheel of {need} had changed and was put into quarantine",
                hint="run the same command again: it builds it anew",
            )
        files = zip(paths, artifact.manifest.files, strict=True)
        return [(path, file.sha256) for path, file in files if path.suffix == ".whl"]

    def _reject(self, step: Step, artifact: Artifact | None, problems: list[str]) -> None:
        """Tell what a wheel lacks. It is kept as rejected: not served, not lost."""
        self._outcome.rows.append(row_of(step, "rejected", artifact.manifest if artifact else None))
        listed = "".join(f"\n    {problem}" for problem in problems[:10])
        raise AuditFailedError(
            f"{step.name} was built, but does not hold what its policy demands:{listed}",
            where=str(artifact.folder) if artifact else None,
            hint="it is kept there as rejected and not served; mend the recipe (arch, patches) or its policy",
        )

    def _take(self, step: Step, artifact: Artifact, action: str) -> None:
        self._artifacts[step.name] = artifact
        self._outcome.rows.append(row_of(step, action, artifact.manifest))
