"""The stages of one step that builds: lay sources, patch, build, package. Each returns a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.build import pep517, torchcheck
from orchestrator.build.environ import command_environ
from orchestrator.build.gated import gated, jobs_offered
from orchestrator.build.links import make_links
from orchestrator.build.outputs import finish, repair_outputs
from orchestrator.build.provide import timed
from orchestrator.build.supervisor import run, shown
from orchestrator.build.words import SCRATCH, filled, words_of
from orchestrator.errors import BuildFailedError, UnitFailedError
from orchestrator.package.rewrite import epoch_of_commands
from orchestrator.report.events import Note, Progress
from orchestrator.store import trees as trees_on_disk
from orchestrator.store.manifest import Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from orchestrator.build.gated import Gatehouse
    from orchestrator.build.prepare import Prepared
    from orchestrator.build.provide import Provided
    from orchestrator.build.session import Session
    from orchestrator.build.supervisor import Finished
    from orchestrator.build.venv import Environment
    from orchestrator.jobs.pick import Pick
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


def build(
    step: Step,
    prepared: Prepared,
    provided: Provided,
    trees: Trees,
    session: Session,
    *,
    environment: Environment,
    house: Gatehouse,
    urgency: float = 0.0,
) -> Built:
    """Run a step's commands and backend in its environment, and finish the wheels.

    Args and errors are those of `run_commands`; BuildFailedError also: they made no fitting wheel.
    """
    work, log = session.work(step), session.log(step.name)
    out, finished = work / "out", work / "wheels"
    done = run_commands(
        step,
        prepared,
        provided,
        trees,
        session,
        environment=environment,
        house=house,
        urgency=urgency,
    )
    _tell_leftovers(step, done, session)
    layers = provided.layers.get(step.name, ())
    words = words_of(step, prepared.plan, tree=work, main=trees.main, layers=layers, environment=environment)
    repair_outputs(step, out, lambda text: filled(text, words, name=step.name), prepared.compiler.cc)
    finished.mkdir(exist_ok=True)
    wheels = finish(step, prepared, source=trees.main, out=out, finished=finished)
    cost = Cost(
        wall_s=sum(item.wall_s for item in done),
        cpu_s=sum(item.cpu_s for item in done),
        peak_bytes=max((item.peak_bytes for item in done), default=0),
        disk_bytes=sum(seen.st_size for seen in trees_on_disk.files(work)),
    )
    return Built(wheels, cost, log)


def run_commands(
    step: Step,
    prepared: Prepared,
    provided: Provided,
    trees: Trees,
    session: Session,
    *,
    environment: Environment,
    house: Gatehouse,
    urgency: float = 0.0,
    pick: Pick | None = None,
    on_line: Callable[[str], None] = lambda _line: None,
) -> list[Finished]:
    """Run a step's commands and backend in its environment; return how each ended.

    Args:
        step: what is built.
        prepared: the plan that it is part of.
        provided: layers and toolkit.
        trees: patched sources.
        session: the run.
        environment: holds layers and the wheels of built components.
        house: the run's broker, which every compiler asks for a turn.
        urgency: the compilers of the most urgent step go first.
        pick: the one unit that is compiled in a probe; None: all are.
        on_line: called now and then with the newest line of output; what it raises ends the commands.

    Raises:
        BuildFailedError: a command failed, or replaced a locked package.
        UnitFailedError: a command failed, and so did a compiler.
        AuditFailedError: a unit was stopped that would have held nothing for the devices to be served.
    """
    recipe = step.keyed.view
    work, log = session.work(step), session.log(step.name)
    out = work / "out"
    for folder in (out, work / "home", work / "tmp", work / SCRATCH):
        folder.mkdir(exist_ok=True)
    project = trees.main / recipe.build.directory
    if not project.is_dir():
        raise BuildFailedError(
            f"the source has no folder {recipe.build.directory}",
            where=str(trees.main),
            hint="the recipe's build.directory says where the project lies in its source",
        )
    layers = provided.layers.get(step.name, ())
    words = words_of(step, prepared.plan, tree=work, main=trees.main, layers=layers, environment=environment)
    make_links(_filled(recipe.build.links, words, step), work / SCRATCH)
    plain_env = _environ(step, prepared, provided, trees, session, environment, words)
    toolkit = provided.toolkit if step.keyed.arch_env else None
    guards = _locked_packages(step, prepared, environment)

    def unchanged() -> None:
        for guard in guards:
            torchcheck.check(guard)

    def listen(line: str) -> None:
        session.emit(Progress(step.name, line))
        on_line(line)

    commands = [[filled(word, words, name=step.name) for word in each] for each in recipe.build.commands]
    settings = _filled(recipe.build.config_settings, words, step)
    done: list[Finished] = []
    opened = gated(step, prepared, toolkit, session, house, urgency=urgency, pick=pick)
    with timed(session, step.name, "build" if pick is None else "probe", log), opened as gate:
        env = session.network.into(gate.into(plain_env))
        try:
            for argv in commands:
                wrapped = session.network.wrap(argv)
                done.append(run(wrapped, cwd=project, env=env, log=log, on_line=listen, name=shown(argv)))
                unchanged()
            if recipe.build.backend == "pep517":
                built = pep517.build_wheel(
                    project,
                    environment=environment,
                    env=env,
                    out=out,
                    log=log,
                    config_settings=settings,
                    wrap=session.network.wrap,
                    on_line=listen,
                    after=unchanged,
                )
                done += built.commands
        except BuildFailedError as error:
            gate.raise_refused(log)
            if type(error) is BuildFailedError and gate.unit_failed:
                raise UnitFailedError(error.message, where=error.where, hint=error.hint) from error
            raise
    return done


def _tell_leftovers(step: Step, done: Sequence[Finished], session: Session) -> None:
    for item in done:
        for left in item.leftovers:
            text = f"still ran after its command had ended, and was killed: {left}"
            session.emit(Note("warning", text, step.name))


def _filled(texts: Mapping[str, str], words: Mapping[str, str], step: Step) -> dict[str, str]:
    return {key: filled(text, words, name=step.name) for key, text in texts.items()}


def _environ(
    step: Step,
    prepared: Prepared,
    provided: Provided,
    trees: Trees,
    session: Session,
    environment: Environment,
    words: Mapping[str, str],
) -> dict[str, str]:
    recipe = step.keyed.view
    work = session.work(step)
    extra = _filled(recipe.build.env, words, step) | dict(step.keyed.arch_env)
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
        jobs=jobs_offered(probing=session.probing),
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
