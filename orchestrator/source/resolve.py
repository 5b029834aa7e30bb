"""Makes a lock: every wheel, sdist, archive and commit that a stack needs on one platform and Python.

All that meets in one environment is resolved together, so that what is shared has one version: the
components with what they require, the toolkit, and the build requirements of those that are built on another
component. Then each part of the lock is resolved under these versions. The stack's constraints hold in all.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import LockError
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.lockinputs import built_upon, lock_inputs
from orchestrator.model.stack import recipe_in
from orchestrator.model.when import requirements
from orchestrator.report.events import Note, silent
from orchestrator.source.constraints import expanded
from orchestrator.source.download import fetch_file
from orchestrator.source.index import find
from orchestrator.source.lookup import Lookup
from orchestrator.source.metadata import sdist_requires, stand_in
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.pipconfig import index_config
from orchestrator.source.pylock import GLIBC_MINOR, RUNTIME_GLIBC_MINOR
from orchestrator.source.solver import solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Component, Stack
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.source.pipconfig import IndexConfig
    from orchestrator.store.home import Home

__all__ = ["lock_inputs", "make_lock"]


def make_lock(
    stack: Stack,
    recipes: Mapping[str, Recipe],
    target: Target,
    *,
    home: Home,
    emit: Emit = silent,
    config: IndexConfig | None = None,
    mirrors: Mirrors = NO_MIRRORS,
    former: Lock | None = None,
) -> Lock:
    """Resolve a stack for one platform and Python. Needs the network; runs no project's code.

    Args:
        stack: the stack, checked by `plan.fit.stack_graph`.
        recipes: at least the recipes of its components, by name.
        target: the platform and Python.
        home: where repositories are mirrored, to see their submodules, and sdists are kept.
        emit: hears of progress, and warnings about what could not be read.
        config: the package indexes; those of the user's pip unless told otherwise.
        mirrors: other places to fetch from.
        former: the lock that is replaced: commits that it read stay when a repository does not answer.

    Raises:
        RecipeError: stack and recipes do not fit: a build that is not described, a commit that is missing.
        LockError: no versions go together, or something has no wheel, sdist or sha256 for this target.
        SourceError: an index, archive or repository cannot be had.
    """
    config = mirrors.index(config or index_config())
    look = Lookup(target=target, config=config, home=home, emit=emit, mirrors=mirrors, former=former)
    components = stack.components
    own = {name: recipe_in(recipes[name], component) for name, component in components.items()}
    constraints = expanded(stack.constraints, target, config=config, home=home, emit=emit)
    sources = {
        name: look.sources(own[name], component)
        for name, component in sorted(components.items())
        if not component.prebuilt
    }
    with tempfile.TemporaryDirectory(prefix="sparkbuild-lock-") as folder:
        wanted = {
            name: _wanted(own[name], component, sources.get(name, {}), look, Path(folder))
            for name, component in sorted(components.items())
        }
        parts = _Parts(stack, own, look, constraints, wanted)
        return Lock(
            schema="sparkbuild.lock/1",
            stack=stack.name,
            platform=target.platform,
            python=target.python,
            inputs=lock_inputs(stack, recipes, target),
            toolkit=parts.toolkit(),
            run=parts.run(),
            components={name: parts.component(name, sources.get(name, {})) for name in sorted(components)},
        )


def _wanted(
    recipe: Recipe, component: Component, sources: Mapping[str, LockedSource], look: Lookup, folder: Path
) -> str:
    """Return the requirement that stands for a component: its published wheel, or a wheel in its place.

    No index is asked for what is not said to be published: its name may be a stranger's there.
    """
    from packaging.utils import canonicalize_name

    name = canonicalize_name(recipe.wheel_name)
    if component.prebuilt or component.published:
        return f"{name}=={component.version}"
    main = sources.get("main")
    requires: tuple[str, ...] | None = None
    if (
        main is not None
        and main.file is not None
        and "main" in recipe.sources
        and recipe.sources["main"].sdist
    ):
        url = find(main.file, config=look.config)
        requires = sdist_requires(fetch_file(main.file, home=look.home, emit=look.emit, url=url))
    if requires is None:
        text = f"what {recipe.name} needs to run is not known before it is built, so the lock leaves that out"
        look.emit(Note("info", text))
    wheel = stand_in(folder, name, component.version, requires or ())
    return f"{name} @ {wheel.as_uri()}"


@dataclass(slots=True)
class _Parts:
    """Resolves the parts of one lock."""

    stack: Stack
    recipes: Mapping[str, Recipe]
    look: Lookup
    constraints: Sequence[str]
    wanted: Mapping[str, str]
    """Component -> requirement."""
    shared: tuple[LockedFile, ...] = ()
    """All together."""
    built: frozenset[str] = frozenset()
    """Distributions that the stack builds."""

    def __post_init__(self) -> None:
        self.built = self._names(name for name, each in self.stack.components.items() if not each.prebuilt)
        # A build environment also holds what its needs require to run: all must agree on every version.
        joined = [
            each
            for name, component in self.stack.components.items()
            if not component.prebuilt and self.recipes[name].needs.build
            for each in self._requirements(name)
        ]
        everything = [*self.wanted.values(), *self._packages, *dict.fromkeys(joined)]
        self.shared = self._solve(everything, f"stack {self.stack.name}", glibc=RUNTIME_GLIBC_MINOR)

    def toolkit(self) -> tuple[LockedFile, ...]:
        """Return the toolkit's wheels."""
        return self._part(self._packages, "toolkit")

    def run(self) -> tuple[LockedFile, ...]:
        """Return the runtime closure, without the components."""
        wanted = list(self.wanted.values())
        found = self._solve(wanted, "what all need to run", pins=self.shared, glibc=RUNTIME_GLIBC_MINOR)
        own = self._names(self.stack.components)
        return tuple(file for file in found if file.name not in own)

    def component(self, name: str, sources: Mapping[str, LockedSource]) -> LockedComponent:
        """Return one component."""
        component, recipe = self.stack.components[name], self.recipes[name]
        (own,) = self._names([name])
        published = next((file for file in self.shared if file.name == own), None)
        # An index with local versions (2.14.1+cpu) satisfies ==2.14.1, and is not what the stack says.
        if published is not None and published.version != component.version:
            target = self.look.target
            raise LockError(
                f"the indexes of your pip offer {own} {published.version} where the stack says "
                f"{component.version}",
                where=f"{target.platform}, Python {target.python}",
                hint="leave the index that has it out of pip's configuration, or pin that version",
            )
        run: tuple[LockedFile, ...] = ()
        if component.prebuilt or name in built_upon(self.stack, self.recipes):
            found = self._part([self.wanted[name]], f"what {name} needs")
            run = tuple(file for file in found if file.name != own and file.name not in self.built)
        return LockedComponent(
            version=component.version,
            prebuilt=published,
            run=run,
            sources=dict(sources),
            requires=() if component.prebuilt else self._requires(recipe),
        )

    def _requires(self, recipe: Recipe) -> tuple[LockedFile, ...]:
        wanted, what = self._requirements(recipe.name), f"build requirements of {recipe.name}"
        try:
            return self._part(wanted, what)
        except LockError:
            if recipe.needs.build:
                raise
            return self._solve(wanted, what)  # in an environment of their own, other versions do

    def _requirements(self, name: str) -> tuple[str, ...]:
        version, platform = self.stack.components[name].version, self.look.target.platform
        return requirements(self.recipes[name], version=version, platform=platform)

    @property
    def _packages(self) -> tuple[str, ...]:
        return self.stack.toolkit.packages if self.stack.toolkit else ()

    def _names(self, components: Iterable[str]) -> frozenset[str]:
        from packaging.utils import canonicalize_name

        return frozenset(canonicalize_name(self.recipes[name].wheel_name) for name in components)

    def _part(self, wanted: Sequence[str], what: str) -> tuple[LockedFile, ...]:
        """Resolve under the shared versions, for an older glibc where that goes."""
        try:
            return self._solve(wanted, what, pins=self.shared)
        except LockError:
            return self._solve(wanted, what, pins=self.shared, glibc=RUNTIME_GLIBC_MINOR)

    def _solve(
        self, wanted: Sequence[str], what: str, *, pins: Sequence[LockedFile] = (), glibc: int = GLIBC_MINOR
    ) -> tuple[LockedFile, ...]:
        self.look.say(f"resolving {what}")
        published = self._names(name for name, each in self.stack.components.items() if each.published)
        return solve(
            wanted,
            constraints=[*self.constraints, *(f"{each.name}=={each.version}" for each in pins)],
            target=self.look.target,
            config=self.look.config,
            what=what,
            without=self.built - published,
            glibc=glibc,
        )
