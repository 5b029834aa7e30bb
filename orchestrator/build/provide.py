"""Before any build starts: toolkit, layers and sources of every step that builds, verified."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from orchestrator.build.layers import ensure_layer, layer_key, needs
from orchestrator.model.arch import image_names
from orchestrator.report.events import StageFinished, StageStarted
from orchestrator.source.fetch import fetch_source
from orchestrator.source.git import mirror_of
from orchestrator.source.wheels import fetch_wheels
from orchestrator.toolchain.cuda import provide_toolkit
from orchestrator.toolchain.python import check_python_headers
from orchestrator.toolchain.repairs import SALT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from orchestrator.build.prepare import Prepared
    from orchestrator.build.session import Session
    from orchestrator.model.lock import LockedFile
    from orchestrator.plan.steps import Plan, Step
    from orchestrator.source.fetch import FetchedSource


@dataclass(frozen=True, slots=True)
class Provided:
    """What builds draw on. Layers are read-only and shared."""

    toolkit: Path | None
    """CUDA_HOME."""
    layers: Mapping[str, tuple[Path, ...]]
    """Step -> layers of its environment, in order."""
    sources: Mapping[tuple[str, str], FetchedSource]
    """(step, source) -> what was fetched."""

    def joined(self, more: Provided) -> Provided:
        """Return both together."""
        return Provided(
            more.toolkit or self.toolkit,
            {**self.layers, **more.layers},
            {**self.sources, **more.sources},
        )


def provide(
    prepared: Prepared, steps: Sequence[Step], session: Session, *, offline: bool = False
) -> Provided:
    """Download, verify and unpack all that `steps` need.

    Raises:
        SourceError and its kin (5): something could not be had or verified, or is missing offline.
        ToolkitError (4): the toolkit cannot assemble a requested arch.
        NoSpaceError (4): the disk is, or would get, full.
    """
    if not steps:
        return Provided(None, {}, {})
    check_python_headers()
    sources: dict[tuple[str, str], FetchedSource] = {}
    with timed(session, "sources", "fetch"):
        for step in steps:
            for name in step.keyed.view.sources:
                sources[step.name, name] = provide_source(prepared, step, name, session, offline=offline)
    return provide_layers(prepared, steps, session, offline=offline).joined(Provided(None, {}, sources))


def provide_layers(
    prepared: Prepared, steps: Sequence[Step], session: Session, *, offline: bool = False
) -> Provided:
    """Download, verify and unpack the toolkit and the packages that `steps` need; errors as `provide`."""
    wanted = {step.name: layer_files(prepared.plan, step) for step in steps}
    device_steps = [step for step in steps if step.keyed.arch_env]
    with timed(session, "toolkit and layers", "provide"):
        toolkit_files = _toolkit_files(prepared) if device_steps else ()
        groups = [files for each in wanted.values() for files in each]
        paths = _wheels(groups, toolkit_files, prepared, session, offline=offline)
        toolkit = _toolkit(prepared, device_steps, toolkit_files, paths, session) if device_steps else None
        layers = {
            name: tuple(_layer(files, paths, session, name) for files in each)
            for name, each in wanted.items()
        }
    for path in paths.values():
        # Unpacked is the form in which layers keep a wheel; the zip would lie there twice.
        path.unlink(missing_ok=True)
    return Provided(toolkit, layers, {})


def layer_files(plan: Plan, step: Step) -> tuple[tuple[LockedFile, ...], ...]:
    """Return the wheels of each layer of a step's environment: one per prebuilt need, then its requirements.

    What a prebuilt brings is left out of the requirements: the locked torch stays the first that is found.
    """
    own = own_requirements(plan, step)
    return (*_needed_files(plan, step), own) if own else _needed_files(plan, step)


def own_requirements(plan: Plan, step: Step) -> tuple[LockedFile, ...]:
    """Return the build requirements that none of a step's needs brings; they make the last of its layers."""
    there = {file.name for files in _needed_files(plan, step) for file in files}
    return tuple(file for file in step.keyed.locked.requires if file.name not in there)


def _needed_files(plan: Plan, step: Step) -> tuple[tuple[LockedFile, ...], ...]:
    groups: list[tuple[LockedFile, ...]] = []
    for need in step.keyed.build_needs:
        locked = plan.step(need).keyed.locked
        files = (*((locked.prebuilt,) if locked.prebuilt else ()), *locked.run)
        if files:
            groups.append(files)
    return tuple(groups)


def _toolkit_files(prepared: Prepared) -> tuple[LockedFile, ...]:
    """Return the wheels that make the toolkit; none when an installed one is used."""
    chosen = prepared.toolkit
    return prepared.lock.toolkit if chosen is not None and chosen.root is None else ()


def _wheels(
    groups: Sequence[Sequence[LockedFile]],
    toolkit_files: Sequence[LockedFile],
    prepared: Prepared,
    session: Session,
    *,
    offline: bool,
) -> dict[str, Path]:
    """Download, in one go, the wheels that are not unpacked yet."""
    keys = [layer_key(files) for files in groups]
    if toolkit_files:
        keys.append(layer_key(toolkit_files, salt=SALT))
    session.lease.use("layers", keys)
    session.lease.use("wheels", [file.sha256 for files in (*groups, toolkit_files) for file in files])
    missing = {file.sha256: file for files in groups for file in needs(files, home=session.home)}
    if toolkit_files:
        missing |= {file.sha256: file for file in needs(toolkit_files, home=session.home, salt=SALT)}
    if not missing:
        return {}
    session.lease.use("downloads", missing)
    return fetch_wheels(
        list(missing.values()),
        home=session.home,
        offline=offline,
        emit=session.emit,
        step="toolkit and layers",
        mirrors=prepared.mirrors,
    )


def provide_published(
    files: Sequence[LockedFile], prepared: Prepared, session: Session, *, offline: bool = False
) -> dict[str, Path]:
    """Download wheels that are in `downloads` neither packed nor, in `wheels`, unpacked.

    Args:
        files: wheels, as locked.
        prepared: the plan.
        session: the run.
        offline: no network.

    Returns:
        sha256 -> wheel, of those that are not unpacked.

    Raises:
        SourceError and its kin (5): one could not be had or verified, or is missing offline.
        NoSpaceError (4): the disk is, or would get, full.
    """
    session.lease.use("wheels", [file.sha256 for file in files])
    session.lease.use("downloads", [file.sha256 for file in files])
    return fetch_wheels(
        [file for file in files if not (session.home.wheels / file.sha256).is_dir()],
        home=session.home,
        offline=offline,
        emit=session.emit,
        step="published wheels",
        mirrors=prepared.mirrors,
    )


def _toolkit(
    prepared: Prepared,
    steps: Sequence[Step],
    files: Sequence[LockedFile],
    paths: Mapping[str, Path],
    session: Session,
) -> Path | None:
    """Return CUDA_HOME, after nvcc and ptxas assembled every arch that these steps are built for."""
    spec = prepared.stack.toolkit
    if prepared.toolkit is None or spec is None:
        return None
    entries = [entry for step in steps for entry in step.keyed.entries]
    return provide_toolkit(
        prepared.toolkit,
        spec=spec,
        files=files,
        home=session.home,
        emit=session.emit,
        fetch=lambda wanted: {file.sha256: paths[file.sha256] for file in wanted},
        compiler=prepared.compiler,
        facts=session.facts,
        archs=image_names(entries),
    )


def _layer(files: Sequence[LockedFile], paths: Mapping[str, Path], session: Session, label: str) -> Path:
    return ensure_layer(files, paths, home=session.home, emit=session.emit, label=label).path


def provide_source(
    prepared: Prepared, step: Step, name: str, session: Session, *, offline: bool
) -> FetchedSource:
    """Download and verify one source of a step; errors as `provide`."""
    source = step.keyed.view.sources[name]
    locked = step.keyed.locked.sources.get(name)
    local = prepared.local_sources.get((step.name, name))
    if locked is not None and locked.file is not None:
        session.lease.use("downloads", [locked.file.sha256])
    if source.git is not None and local is None:
        session.lease.use("git", [mirror_of(source.git, session.home).name])
    found = fetch_source(
        name=f"{step.name}/{name}",
        source=source if local is None else msgspec.structs.replace(source, local=str(local)),
        locked=locked,
        version=step.keyed.version,
        home=session.home,
        offline=offline,
        emit=session.emit,
        mirrors=prepared.mirrors,
    )
    session.lease.use("git", found.repositories)
    return found


@contextmanager
def timed(session: Session, step: str, stage: str, log: Path | None = None) -> Iterator[None]:
    """Tell when a stage begins and, if it went well, ends."""
    session.emit(StageStarted(step, stage, str(log) if log else None))
    begin = time.monotonic()
    yield
    session.emit(StageFinished(step, stage, time.monotonic() - begin))
