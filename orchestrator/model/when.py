"""Conditions: what of a recipe holds for one version, arch and platform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.recipe import Build, ModulePolicy, Needs, PatchRef, Recipe, Source, When


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """A recipe with every condition decided: what plan and build work from."""

    name: str
    version: str
    wheel_name: str
    platform: str
    arches: tuple[str, ...]
    sources: Mapping[str, Source]
    patches: tuple[PatchRef, ...]
    needs: Needs
    build: Build
    """Variants merged in, its `variants` is empty; `elsewhere` without what does not hold."""
    modules: tuple[ModulePolicy, ...]
    arch_env: Mapping[str, str]
    """Variable -> dialect."""


def holds(when: When | None, *, version: str, arches: tuple[str, ...] | None, platform: str) -> bool:
    """Say whether a condition holds; None always does.

    Args:
        when: the condition; all its fields must hold.
        version: the component's version.
        arches: the effective arches in normal form, such as `12.1a` (recipes are held to it too), or None
            for any: a lock serves all of them.
        platform: `linux-x86_64` or `linux-aarch64`.
    """
    if when is None:
        return True
    if when.platform is not None and when.platform != platform:
        return False
    if when.arch and arches is not None and not set(when.arch).intersection(arches):
        return False
    return when.version is None or _admits(when.version, version)


def resolved(recipe: Recipe, *, version: str, arches: tuple[str, ...], platform: str) -> ResolvedRecipe:
    """Return what the recipe says for this version, these effective arches and this platform.

    Raises:
        RecipeError: the recipe cannot build at all, or keeps a patch for a source that it dropped.
    """
    build = recipe.build
    if build is None:
        raise RecipeError(
            f"{recipe.name} has no `build`: it can only be taken prebuilt",
            hint="say `prebuilt: true` in the stack",
        )

    def kept(when: When | None) -> bool:
        return holds(when, version=version, arches=arches, platform=platform)

    sources = {name: source for name, source in recipe.sources.items() if kept(source.when)}
    if "main" not in sources:
        raise RecipeError(
            f"{recipe.name} has no main source for version {version}, {platform} and "
            f"{' '.join(arches) or 'any arch'}",
            hint="widen the `when` of sources.main",
        )
    patches = tuple(patch for patch in recipe.patches if kept(patch.when))
    for patch in patches:
        if patch.source not in sources:
            raise RecipeError(
                f"{recipe.name}: patch {patch.name} is for source {patch.source!r}, "
                f"whose condition does not hold for version {version}",
                hint="give both the same `when`",
            )
    return ResolvedRecipe(
        name=recipe.name,
        version=version,
        wheel_name=recipe.wheel_name,
        platform=platform,
        arches=arches,
        sources=sources,
        patches=patches,
        needs=recipe.needs,
        build=_merged(build, version=version, arches=arches, platform=platform),
        modules=tuple(
            msgspec.structs.replace(
                policy, exceptions=tuple(exempt for exempt in policy.exceptions if kept(exempt.when))
            )
            for policy in recipe.modules
            if kept(policy.when)
        ),
        arch_env=recipe.arch.env,
    )


def requirements(recipe: Recipe, *, version: str, platform: str) -> tuple[str, ...]:
    """Return the build requirements for a version and platform, those of every arch together."""
    if recipe.build is None:
        return ()
    merged = _merged(recipe.build, version=version, arches=None, platform=platform)
    return tuple(dict.fromkeys(merged.requires))


def _merged(build: Build, *, version: str, arches: tuple[str, ...] | None, platform: str) -> Build:
    """Add the variants that hold, in their order: lists grow, of two values the later one stays."""

    def kept(when: When | None) -> bool:
        return holds(when, version=version, arches=arches, platform=platform)

    requires, commands = build.requires, build.commands
    env, config = dict(build.env), dict(build.config_settings)
    for variant in build.variants:
        if kept(variant.when):
            requires += variant.requires
            commands += variant.commands
            env.update(variant.env)
            config.update(variant.config_settings)
    return msgspec.structs.replace(
        build,
        requires=requires,
        commands=commands,
        env=env,
        config_settings=config,
        elsewhere=tuple(exempt for exempt in build.elsewhere if kept(exempt.when)),
        variants=(),
    )


@lru_cache(maxsize=4096)
def _admits(specifiers: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifiers, prereleases=True).contains(version, prereleases=True)
