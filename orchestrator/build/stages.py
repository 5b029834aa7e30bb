"""The stages of one step that builds: lay sources, patch, build, package. Each returns a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.build.commands import run_commands
from orchestrator.build.job import Job, Trees
from orchestrator.build.outputs import finish, repair_outputs
from orchestrator.build.words import filled
from orchestrator.errors import BuildFailedError
from orchestrator.report.events import Note
from orchestrator.store import trees as trees_on_disk
from orchestrator.store.manifest import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.build.prepare import Prepared
    from orchestrator.build.provide import Provided
    from orchestrator.build.session import Session
    from orchestrator.build.supervisor import Finished
    from orchestrator.plan.steps import Step


@dataclass(frozen=True, slots=True)
class Built:
    """Finished wheels, ready to be audited, and what they cost."""

    wheels: tuple[Path, ...]
    cost: Cost
    log: Path


def trees_of(step: Step, work: Path) -> Trees:
    """Return where the sources of a step lie in its work folder: main in `src`, others in it or beside it."""
    trees: dict[str, Path] = {}
    for name, source in step.keyed.view.sources.items():
        beside = "src" if name == "main" else f"src-{name}"
        trees[name] = work / beside if source.into is None else work / "src" / source.into
    return Trees(trees.get("main", work / "src"), trees)


def lay_sources(step: Step, provided: Provided, work: Path) -> Trees:
    """Unpack or copy every source of a step into its work folder: main first.

    Raises:
        SourceError and its kin (5): an archive that is damaged or refused.
        BuildFailedError: `into` names a place that is taken.
    """
    work.mkdir(parents=True, exist_ok=True)
    trees = trees_of(step, work)
    for name, place in sorted(trees.sources.items(), key=lambda item: item[0] != "main"):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
        if place.exists():
            raise BuildFailedError(
                f"source {name} goes into {step.keyed.view.sources[name].into}, which the main source "
                "already holds",
                where=str(place),
                hint="name a place that is free or an empty folder",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        provided.sources[step.name, name].lay(place)
    return trees


def apply_patches(step: Step, prepared: Prepared, trees: Trees, session: Session) -> None:
    """Judge every patch of a step, then apply them all; or leave the trees untouched.

    Raises:
        PatchError: one does not apply, or is malformed.
    """
    from orchestrator.source.patch import apply, judge
    from orchestrator.source.patch_format import read_patch

    recipe = step.keyed.view
    patched = {
        tree: [
            read_patch(prepared.catalog.patch_file(step.name, patch))
            for patch in recipe.patches
            if patch.source == source
        ]
        for source, tree in trees.sources.items()
    }
    # All trees are judged before the first is touched; `apply` tells what is wrong with the one that fails.
    for tree, patches in patched.items():
        if any(verdict.state != "applies" for verdict in judge(tree, patches)):
            apply(tree, patches)
    for tree, patches in patched.items():
        for verdict in apply(tree, patches):
            for moved in verdict.moved:
                text = (
                    f"patch {verdict.name}: hunk {moved.hunk} of {moved.file} lies {moved.lines:+d} lines off"
                )
                session.emit(Note("info", text, step.name))


def build(job: Job) -> Built:
    """Run a step's commands and backend in its environment, and finish the wheels.

    Raises:
        BuildFailedError: as `run_commands`; or no fitting wheel was made.
        UnitFailedError, AuditFailedError: as `run_commands`.
    """
    step, work = job.step, job.work
    out, finished = work / "out", work / "wheels"
    done = run_commands(job)
    _tell_leftovers(step, done, job.session)
    words = job.words()
    repair_outputs(step, out, lambda text: filled(text, words, name=step.name), job.prepared.compiler.cc)
    finished.mkdir(exist_ok=True)
    wheels = finish(step, job.prepared, source=job.trees.main, out=out, finished=finished)
    cost = Cost(
        wall_s=sum(item.wall_s for item in done),
        cpu_s=sum(item.cpu_s for item in done),
        peak_bytes=max((item.peak_bytes for item in done), default=0),
        disk_bytes=sum(seen.st_size for seen in trees_on_disk.files(work)),
    )
    return Built(wheels, cost, job.log)


def _tell_leftovers(step: Step, done: Sequence[Finished], session: Session) -> None:
    for item in done:
        for left in item.leftovers:
            text = f"still ran after its command had ended, and was killed: {left}"
            session.emit(Note("warning", text, step.name))
