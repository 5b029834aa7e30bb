"""A stack: which version of each recipe, which are taken prebuilt, and the toolkit they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from orchestrator.errors import RecipeError, UnknownNameError, near_miss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.model.recipe import Recipe

SCHEMA = "sparkbuild.stack/1"

UNRESOLVED = "unresolved "
"""What stands before a tag whose commit nobody has read yet."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit by its full id."""

    id: str


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A tag whose commit must be looked up before anything is built from it."""

    tag: str


class Toolkit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The CUDA toolkit that a stack builds with."""

    version: str
    """PEP 440 specifiers for nvcc's version, such as `==13.0.*`."""
    packages: tuple[str, ...]
    """PEP 508 requirements of the wheels that make the pip toolkit."""
    headers: tuple[str, ...] = ()
    """Headers that must be there, relative to `include`."""
    libraries: tuple[str, ...] = ()
    """Unversioned library names that must be there, such as `libcublas.so`."""


class OtherSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a stack takes a source from, instead of where the recipe does. Exactly one of the first three."""

    sdist: str | None = None
    """Distribution name on the package index."""
    git: str | None = None
    """Public address of a repository."""
    archive: str | None = None
    """Address of a tarball or zip; `{version}` stands for the version."""
    submodules: bool = True
    """git only: fetch all submodules too."""


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One recipe in a stack."""

    version: str
    prebuilt: bool = False
    """Taken as published instead of built."""
    published: bool = False
    """The lock also holds the published wheel, so that `--prebuilt` can take it."""
    sources: dict[str, OtherSource] = {}
    """Source name -> where it comes from in this stack; how it is used stays the recipe's."""
    commits: dict[str, str] = {}
    """Source name -> full commit, for git sources; or `unresolved TAG`. `commit` reads it."""

    def commit(self, source: str) -> Commit | Unresolved | None:
        """Return what the stack says of a git source's commit; None when it says nothing."""
        text = self.commits.get(source)
        if text is None:
            return None
        return Unresolved(text.removeprefix(UNRESOLVED)) if text.startswith(UNRESOLVED) else Commit(text)


class Stack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One stack file."""

    schema: Literal["sparkbuild.stack/1"]
    name: str
    summary: str
    default: bool = False
    """Used when no --stack is given."""
    toolkit: Toolkit | None = None
    """None: nothing in this stack compiles device code."""
    platforms: tuple[str, ...]
    """Of `linux-x86_64`, `linux-aarch64`: which locks are kept."""
    pythons: tuple[str, ...]
    """CPython versions, such as `3.12`."""
    constraints: tuple[str, ...] = ()
    """PEP 508 requirements that hold in all parts of the lock: toolkit, build requirements, runtime."""
    components: dict[str, Component]


def with_prebuilt(stack: Stack, names: Sequence[str]) -> Stack:
    """Return a stack that also takes `names` as published.

    Raises:
        UnknownNameError: a name that the stack does not have.
    """
    components = dict(stack.components)
    for name in names:
        if name not in components:
            raise UnknownNameError(f"recipe in stack {stack.name}", name, components)
        components[name] = msgspec.structs.replace(components[name], prebuilt=True)
    return msgspec.structs.replace(stack, components=components) if names else stack


def recipe_in(recipe: Recipe, component: Component) -> Recipe:
    """Return a recipe as a stack has it: with the sources that the stack takes from elsewhere.

    Raises:
        RecipeError: the stack names a source that the recipe does not have.
    """
    for name in component.sources:
        if name not in recipe.sources:
            guess = near_miss(name, recipe.sources)
            listed = ", ".join(recipe.sources) or "none"
            raise RecipeError(
                f"a stack names another place for source {name!r} of {recipe.name}, which has no such source",
                hint=f"did you mean {guess}?" if guess else f"sources of {recipe.name}: {listed}",
            )
    if not component.sources:
        return recipe
    changed = {
        name: msgspec.structs.replace(
            recipe.sources[name],
            sdist=other.sdist,
            git=other.git,
            archive=other.archive,
            local=None,
            submodules=other.submodules,
        )
        for name, other in component.sources.items()
    }
    return msgspec.structs.replace(recipe, sources={**recipe.sources, **changed})
