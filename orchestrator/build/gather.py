"""`sparkbuild fetch`: all that a plan needs, fetched and verified; what cannot be had stops nothing else."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrator.build.provide import provide_layers, provide_published, provide_source, timed
from orchestrator.errors import SourceError
from orchestrator.toolchain.python import check_python_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from orchestrator.build.prepare import Prepared
    from orchestrator.build.session import Session
    from orchestrator.model.lock import LockedFile
    from orchestrator.plan.steps import Plan
    from orchestrator.source.fetch import FetchedSource

PACKAGES = "packages"
"""In place of a recipe: the wheels of toolkit and build environments, which come together."""
RUNTIME = "runtime"
"""In place of a recipe: the runtime closure."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be had."""

    recipe: str
    """Or `PACKAGES`, or `RUNTIME`."""
    what: str
    """Such as `source main`."""
    error: SourceError

    def __str__(self) -> str:
        return f"{self.recipe}: {self.what}: {self.error.placed}"

    def to_json(self) -> dict[str, Any]:
        """Return it as `sparkbuild fetch --json` shows it."""
        error = self.error
        told = {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
        return {"recipe": self.recipe, "what": self.what, **told}


@dataclass(slots=True)
class Gathered:
    """What there is after a fetch."""

    sources: dict[tuple[str, str], FetchedSource] = field(default_factory=dict)
    """(recipe, source) -> what was fetched."""
    toolkit: Path | None = None
    """CUDA_HOME; None when an installed one is used, or none."""
    layers: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Recipe -> layers of packages."""
    wheels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Recipe or `RUNTIME` -> published wheels in `downloads`."""
    missing: list[Missing] = field(default_factory=list)
    complete: tuple[str, ...] = ()
    """Recipes of the plan of which a run without network finds all."""

    @contextmanager
    def noting(self, recipe: str, what: str) -> Iterator[None]:
        """Note a source that cannot be had, and go on."""
        try:
            yield
        except SourceError as error:
            self.missing.append(Missing(recipe, what, error))


def gather(
    prepared: Prepared,
    session: Session,
    *,
    offline: bool = False,
    runtime: bool = False,
    published: bool = True,
    unread: Mapping[tuple[str, str], SourceError] = MappingProxyType({}),
) -> Gathered:
    """Fetch and verify all that the steps of a plan need; a second run goes on where one stopped.

    Args:
        prepared: the plan.
        session: the run.
        offline: use no network: only see what is here.
        runtime: also the lock's runtime closure, which nothing is built with.
        published: also the wheels of prebuilt components that nothing is built with.
        unread: (recipe, source) -> why its commit could not be read.

    Raises:
        ToolkitError (4): the toolkit cannot assemble a requested arch.
        NoSpaceError (4): the disk is, or would get, full.
    """
    found = Gathered()
    builds = prepared.plan.builds
    with timed(session, "sources", "fetch"):
        for step in builds:
            for name in step.keyed.view.sources:
                with found.noting(step.name, f"source {name}"):
                    if (step.name, name) in unread:
                        raise unread[step.name, name]
                    fetched = provide_source(prepared, step, name, session, offline=offline)
                    found.sources[step.name, name] = fetched
    if builds:
        check_python_headers()
        with found.noting(PACKAGES, "toolkit and build requirements"):
            provided = provide_layers(prepared, builds, session, offline=offline)
            found.toolkit = provided.toolkit
            found.layers.update(provided.layers)
    wheels: dict[str, Sequence[LockedFile]] = {
        step.name: [step.keyed.locked.prebuilt]
        for step in prepared.plan.steps
        if published and step.action == "prebuilt" and step.keyed.locked.prebuilt is not None
    }
    if runtime:
        wheels[RUNTIME] = prepared.lock.run
    for name, files in wheels.items():
        with found.noting(name, "published wheels"):
            provide_published(files, prepared, session, offline=offline)
            found.wheels[name] = tuple(file.file for file in files)
    found.complete = _complete(prepared.plan, {each.recipe for each in found.missing})
    return found


def _complete(plan: Plan, lost: set[str]) -> tuple[str, ...]:
    """Return the steps, in build order, that lack nothing, and build on none that does."""
    incomplete = set(lost)
    for step in plan.steps:
        if step.action == "build" and (PACKAGES in lost or incomplete.intersection(step.keyed.build_needs)):
            incomplete.add(step.name)
    return tuple(
        step.name for step in plan.steps if step.action != "not-applicable" and step.name not in incomplete
    )
