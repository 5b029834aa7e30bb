"""The stages of one step that builds: lay sources, patch, build, package. Each returns a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.build import pep517, torchcheck
from orchestrator.build.environ import command_environ
from orchestrator.build.gated import gated, jobs_offered
from orchestrator.build.outputs import finish
from orchestrator.build.provide import timed
from orchestrator.build.supervisor import run
from orchestrator.build.venv import add_wheels, make_environment
from orchestrator.errors import BuildFailedError
from orchestrator.package.rewrite import epoch_of_commands
from orchestrator.report.events import Note, Progress
from orchestrator.store.manifest import Cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.build.gated import Gatehouse
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.provide import Provided
    from orchestrator.build.session import Session
    from orchestrator.build.supervisor import Finished
    from orchestrator.build.venv import Environment
    from orchestrator.plan.steps import Step


@dataclass(frozen=True, slots=True)
class Trees:
    """Where a step's sources lie."""

    main: Path
    sources: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Built:
    """Finished wheels, ready to be audited, and what they cost."""

    wheels: tuple[Path, ...]
    cost: Cost
    log: Path


def lay_sources(step: Step, provided: Provided, work: Path) -> Trees:
    """Unpack or copy every source of a step into its work folder: main first, others into or beside it.

    Raises:
        SourceError and its kin (5): an archive that is damaged or refused.
        BuildFailedError: `into` names a place that is taken.
    """
    recipe = step.keyed.view
    work.mkdir(parents=True, exist_ok=True)
    trees: dict[str, Path] = {}
    for name in sorted(recipe.sources, key=lambda name: name != "main"):
        source = recipe.sources[name]
        into = source.into
        place = work / ("src" if name == "main" else f"src-{name}") if into is None else work / "src" / into
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
        if place.exists():
            raise BuildFailedError(
                f"source {name} goes into {into}, which the main source already holds",
                where=str(place),
                hint="name a place that is free or an empty folder",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        provided.sources[step.name, name].lay(place)
        trees[name] = place
    return Trees(trees.get("main", work / "src"), trees)


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


def build(
    step: Step,
    prepared: Prepared,
    provided: Provided,
    trees: Trees,
    session: Session,
    *,
    needed: Sequence[Path],
    house: Gatehouse,
) -> Built:
    """Run a step's commands and backend in a fresh environment, and finish the wheels.

    Args:
        step: what is built.
        prepared: the plan that it is part of.
        provided: layers and toolkit.
        trees: patched sources.
        session: the run.
        needed: verified wheels of built components that must lie in the environment.
        house: the run's broker, which every compiler asks for a turn.

    Raises:
        BuildFailedError: a command failed, replaced a locked package, or made no fitting wheel.
        AuditFailedError: a unit was stopped that would have held nothing for the devices to be served.
    """
    recipe = step.keyed.view
    work, log = session.work(step.name), session.log(step.name)
    out, finished = work / "out", work / "wheels"
    for folder in (out, finished, work / "home", work / "tmp"):
        folder.mkdir()
    environment = make_environment(work / "env", layers=provided.layers.get(step.name, ()))
    add_wheels(environment, needed)
    project = trees.main / recipe.build.directory
    if not project.is_dir():
        raise BuildFailedError(
            f"the source has no folder {recipe.build.directory}",
            where=str(trees.main),
            hint="the recipe's build.directory says where the project lies in its source",
        )
    plain_env = _environ(step, prepared, provided, trees, session, environment)
    toolkit = provided.toolkit if step.keyed.arch_env else None
    guards = _locked_packages(step, prepared, environment)

    def unchanged() -> None:
        for guard in guards:
            torchcheck.check(guard)

    def listen(line: str) -> None:
        session.emit(Progress(step.name, line))

    words = {"{python}": str(environment.python), "{out}": str(out)}
    commands = [[_filled(word, words) for word in command] for command in recipe.build.commands]
    done: list[Finished] = []
    with timed(session, step.name, "build", log), gated(step, prepared, toolkit, session, house) as gate:
        env = gate.into(plain_env)
        try:
            for argv in commands:
                done.append(run(argv, cwd=project, env=env, log=log, on_line=listen))
                unchanged()
            if recipe.build.backend == "pep517":
                built = pep517.build_wheel(
                    project,
                    environment=environment,
                    env=env,
                    out=out,
                    log=log,
                    config_settings=recipe.build.config_settings,
                    on_line=listen,
                    after=unchanged,
                )
                done += built.commands
        except BuildFailedError:
            gate.raise_refused(log)
            raise
    _tell_leftovers(step, done, session)
    wheels = finish(step, prepared, out, finished)
    cost = Cost(
        wall_s=sum(item.wall_s for item in done),
        cpu_s=sum(item.cpu_s for item in done),
        peak_bytes=max((item.peak_bytes for item in done), default=0),
    )
    return Built(wheels, cost, log)


def _tell_leftovers(step: Step, done: Sequence[Finished], session: Session) -> None:
    for item in done:
        for left in item.leftovers:
            text = f"still ran after its command had ended, and was killed: {left}"
            session.emit(Note("warning", text, step.name))


def clear(work: Path) -> None:
    """Remove a build tree, and the run's folder when it was the last one in it."""
    from orchestrator.store.atomic import remove_tree

    remove_tree(work)
    try:
        work.parent.rmdir()
    except OSError:
        return  # another step of this run still has its tree


def _filled(word: str, words: Mapping[str, str]) -> str:
    for placeholder, value in words.items():
        word = word.replace(placeholder, value)
    return word


def _environ(
    step: Step,
    prepared: Prepared,
    provided: Provided,
    trees: Trees,
    session: Session,
    environment: Environment,
) -> dict[str, str]:
    recipe = step.keyed.view
    work = session.work(step.name)
    extra = dict(recipe.build.env) | dict(step.keyed.arch_env)
    cmake = [extra["CMAKE_ARGS"]] if "CMAKE_ARGS" in extra else []
    for name, source in recipe.sources.items():
        if source.env:
            extra[source.env] = str(trees.sources[name])
        if source.cmake:
            cmake.append(f"-D{source.cmake}={trees.sources[name]}")
    if cmake:
        extra["CMAKE_ARGS"] = " ".join(cmake)
    return command_environ(
        prefix=environment.prefix,
        home=work / "home",
        tmp=work / "tmp",
        jobs=jobs_offered(),
        source_date_epoch=epoch_of_commands(),
        maps={work: step.name, session.home.layers: "layers"},
        toolkit=provided.toolkit if step.keyed.arch_env else None,
        cc=prepared.compiler.cc,
        cxx=prepared.compiler.cxx,
        pycache=session.pycache,
        extra=extra,
    )


def _locked_packages(step: Step, prepared: Prepared, environment: Environment) -> list[torchcheck.Snapshot]:
    """Return snapshots of the needs that no command may replace."""
    found = []
    for need in step.keyed.build_needs:
        keyed = prepared.plan.step(need).keyed
        version = keyed.locked.prebuilt.version if keyed.locked.prebuilt else keyed.version
        found.append(torchcheck.take(environment.search_path, keyed.distribution, version=version))
    return found
