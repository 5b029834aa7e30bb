"""Makes a lock: every wheel, sdist, archive and commit that a stack needs on one platform and Python.

Prebuilt components and the toolkit are resolved together, so that what is shared has one version. Then
each of them, and the build requirements of every other component, are resolved under those versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import LockError, RecipeError
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.lockinputs import lock_inputs, locked_sources
from orchestrator.model.when import requirements
from orchestrator.report.events import Progress, silent
from orchestrator.source.index import listed
from orchestrator.source.measure import digest_of, size_of
from orchestrator.source.pipconfig import index_config
from orchestrator.source.solver import solve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import Recipe, Source
    from orchestrator.model.stack import Component, Stack
    from orchestrator.report.events import Emit
    from orchestrator.source.pipconfig import IndexConfig
    from orchestrator.store.home import Home

__all__ = ["lock_inputs", "make_lock"]

_SDIST_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What every part of one lock needs."""

    target: Target
    config: IndexConfig
    home: Home
    emit: Emit

    def say(self, text: str) -> None:
        self.emit(Progress("lock", f"{self.target.tag}: {text}"))

    def solve(
        self, wanted: Sequence[str], *, constraints: Sequence[LockedFile] = (), what: str
    ) -> tuple[LockedFile, ...]:
        self.say(f"resolving {what}")
        return solve(wanted, constraints=constraints, target=self.target, config=self.config, what=what)


def make_lock(
    stack: Stack,
    recipes: Mapping[str, Recipe],
    target: Target,
    *,
    home: Home,
    emit: Emit = silent,
    config: IndexConfig | None = None,
) -> Lock:
    """Resolve a stack for one platform and Python. Needs the network; runs no project's code.

    Args:
        stack: the stack, checked by `plan.fit.stack_graph`.
        recipes: at least the recipes of its components, by name.
        target: the platform and Python.
        home: where repositories are mirrored, to see their submodules.
        emit: hears of progress.
        config: the package indexes; those of the user's pip unless told otherwise.

    Raises:
        RecipeError: stack and recipes do not fit: a build that is not described, a commit that is missing.
        LockError: no versions go together, or something has no wheel, sdist or sha256 for this target.
        SourceError: an index, archive or repository cannot be had.
    """
    work = _Work(target=target, config=config or index_config(), home=home, emit=emit)
    pins = {
        name: f"{recipes[name].wheel_name}=={component.version}"
        for name, component in stack.components.items()
        if component.prebuilt
    }
    packages = stack.toolkit.packages if stack.toolkit else ()
    shared = work.solve([*pins.values(), *packages], what="prebuilt components and toolkit")
    components: dict[str, LockedComponent] = {}
    for name, component in sorted(stack.components.items()):
        if component.prebuilt:
            closure = work.solve([pins[name]], constraints=shared, what=name)
            components[name] = _prebuilt(recipes[name], component, closure, target)
        else:
            components[name] = _built(recipes[name], component, shared, work)
    return Lock(
        schema="sparkbuild.lock/1",
        stack=stack.name,
        platform=target.platform,
        python=target.python,
        inputs=lock_inputs(stack, recipes, target),
        toolkit=work.solve(packages, constraints=shared, what="toolkit"),
        components=components,
    )


def _prebuilt(
    recipe: Recipe, component: Component, closure: Sequence[LockedFile], target: Target
) -> LockedComponent:
    from packaging.utils import canonicalize_name

    own = canonicalize_name(recipe.wheel_name)
    wheel = next(file for file in closure if file.name == own)
    # An index with local versions (2.14.1+cpu) satisfies ==2.14.1, and is not what the stack says.
    if wheel.version != component.version:
        raise LockError(
            f"the indexes of your pip offer {own} {wheel.version} where the stack says {component.version}",
            where=f"{target.platform}, Python {target.python}",
            hint="leave the index that has it out of pip's configuration, or pin that version",
        )
    rest = tuple(file for file in closure if file.name != own)
    return LockedComponent(version=component.version, prebuilt=wheel, run=rest)


def _built(
    recipe: Recipe, component: Component, shared: Sequence[LockedFile], work: _Work
) -> LockedComponent:
    version, platform = component.version, work.target.platform
    sources = locked_sources(recipe, version=version, platform=platform)
    return LockedComponent(
        version=version,
        sources={
            name: _source(recipe, name, source, component, work) for name, source in sorted(sources.items())
        },
        requires=work.solve(
            requirements(recipe, version=version, platform=platform),
            constraints=shared,
            what=f"build requirements of {recipe.name}",
        ),
    )


def _source(recipe: Recipe, name: str, source: Source, component: Component, work: _Work) -> LockedSource:
    work.say(f"looking up source {name} of {recipe.name}")
    if source.sdist is not None:
        return LockedSource(file=_sdist(source.sdist, component.version, work.config))
    if source.archive is not None:
        url = source.archive.replace("{version}", component.version)
        size, sha256 = digest_of(url, work.config)
        file = url.partition("?")[0].rpartition("/")[2]
        return LockedSource(
            file=LockedFile(name=recipe.name, version=component.version, file=file, sha256=sha256, size=size)
        )
    if source.git is not None:
        return _git(recipe.name, name, source, component, work)
    return LockedSource()


def _git(recipe: str, name: str, source: Source, component: Component, work: _Work) -> LockedSource:
    commit = component.commits.get(name)
    if commit is None or source.git is None:
        raise RecipeError(
            f"{recipe}: the stack names no commit for git source {name!r}",
            hint=f"write `commits: {{{name}: <40 hex digits>}}` under components.{recipe}",
        )
    if not source.submodules:
        return LockedSource(commit=commit)
    from orchestrator.source.git_tree import discover_submodules

    found = discover_submodules(source.git, commit, work.home, emit=work.emit)
    return LockedSource(commit=commit, submodules=dict(sorted(found.items())))


def _sdist(name: str, version: str, config: IndexConfig) -> LockedFile:
    """Return the sdist that the indexes list. The first index that has it counts, as in a download."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    unhashed = False
    for place in (*config.index_urls, *config.find_links):
        for link in listed(name, place, config=config):
            if not link.file.endswith(_SDIST_SUFFIXES) or link.version is None:
                continue
            if Version(link.version) != Version(version):
                continue
            if link.sha256 is None:
                unhashed = True
                continue
            return LockedFile(
                name=canonicalize_name(name),
                version=version,
                file=link.file,
                sha256=link.sha256,
                size=size_of(link.url, config),
            )
    raise LockError(
        f"the sdist of {name} {version} has no sha256"
        if unhashed
        else f"there is no sdist of {name} {version}",
        hint="see which versions the index has, and change the pin in the stack",
    )
