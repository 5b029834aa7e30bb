"""The commands of one step: in its environment, behind the gate, without what it must not reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.build import pep517, torchcheck
from orchestrator.build.environ import command_environ
from orchestrator.build.gated import gated, jobs_offered
from orchestrator.build.links import make_links
from orchestrator.build.provide import timed
from orchestrator.build.supervisor import run, shown
from orchestrator.build.words import SCRATCH, filled
from orchestrator.errors import BuildFailedError, UnitFailedError
from orchestrator.package.rewrite import epoch_of_commands
from orchestrator.report.events import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.build.job import Job
    from orchestrator.build.supervisor import Finished
    from orchestrator.jobs.pick import Pick
    from orchestrator.plan.steps import Step


def run_commands(
    job: Job, *, pick: Pick | None = None, on_line: Callable[[str], None] = lambda _line: None
) -> list[Finished]:
    """Run a step's commands and backend in its environment; return how each ended.

    Args:
        job: the step, and what is there for it.
        pick: the one unit that is compiled in a probe; None: all are.
        on_line: called now and then with the newest line of output; what it raises ends the commands.

    Raises:
        BuildFailedError: a command failed, or replaced a locked package.
        UnitFailedError: a command failed, and so did a compiler.
        AuditFailedError: a unit was stopped that would have held nothing for the devices to be served.
    """
    step, session, work, log = job.step, job.session, job.work, job.log
    recipe = step.keyed.view
    out = work / "out"
    for folder in (out, work / "home", work / "tmp", work / SCRATCH):
        folder.mkdir(exist_ok=True)
    project = job.trees.main / recipe.build.directory
    if not project.is_dir():
        raise BuildFailedError(
            f"the source has no folder {recipe.build.directory}",
            where=str(job.trees.main),
            hint="the recipe's build.directory says where the project lies in its source",
        )
    words = job.words()
    make_links(_filled(recipe.build.links, words, step), work / SCRATCH)
    plain_env = _environ(job, words)
    toolkit = job.provided.toolkit if step.keyed.arch_env else None
    guards = _locked_packages(job)

    def unchanged() -> None:
        for guard in guards:
            torchcheck.check(guard)

    def listen(line: str) -> None:
        session.emit(Progress(step.name, line))
        on_line(line)

    commands = [[filled(word, words, name=step.name) for word in each] for each in recipe.build.commands]
    settings = _filled(recipe.build.config_settings, words, step)
    done: list[Finished] = []
    opened = gated(step, job.prepared, toolkit, session, job.house, urgency=job.urgency, pick=pick)
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
                    environment=job.environment,
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


def _filled(texts: Mapping[str, str], words: Mapping[str, str], step: Step) -> dict[str, str]:
    return {key: filled(text, words, name=step.name) for key, text in texts.items()}


def _environ(job: Job, words: Mapping[str, str]) -> dict[str, str]:
    step, session = job.step, job.session
    recipe = step.keyed.view
    work = job.work
    extra = _filled(recipe.build.env, words, step) | dict(step.keyed.arch_env)
    cmake = [extra["CMAKE_ARGS"]] if "CMAKE_ARGS" in extra else []
    for name, source in recipe.sources.items():
        if source.env:
            extra[source.env] = str(job.trees.sources[name])
        if source.cmake:
            cmake.append(f"-D{source.cmake}={job.trees.sources[name]}")
    if cmake:
        extra["CMAKE_ARGS"] = " ".join(cmake)
    return command_environ(
        prefix=job.environment.prefix,
        home=work / "home",
        tmp=work / "tmp",
        jobs=jobs_offered(probing=session.probing),
        source_date_epoch=epoch_of_commands(),
        maps={work: step.name, session.home.layers: "layers"},
        toolkit=job.provided.toolkit if step.keyed.arch_env else None,
        cc=job.prepared.compiler.cc,
        cxx=job.prepared.compiler.cxx,
        pycache=session.pycache,
        extra=extra,
    )


def _locked_packages(job: Job) -> list[torchcheck.Snapshot]:
    """Return snapshots of the needs that no command may replace."""
    found = []
    for need in job.step.keyed.build_needs:
        keyed = job.prepared.plan.step(need).keyed
        version = keyed.locked.prebuilt.version if keyed.locked.prebuilt else keyed.version
        found.append(torchcheck.take(job.environment.search_path, keyed.distribution, version=version))
    return found
