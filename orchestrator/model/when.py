"""Conditions: what of a recipe holds for one version, arch and platform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from orchestrator.model.arch import Entry
    from orchestrator.model.recipe import (
        Build,
        Files,
        ModulePolicy,
        Needs,
        PatchRef,
        Probe,
        Recipe,
        Repair,
        Source,
        SourceKind,
        When,
    )


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
    files: Files | None
    probe: Probe | None
    arch_env: Mapping[str, str]
    """Variable -> dialect."""


def holds(
    when: When | None,
    *,
    version: str,
    arches: tuple[str, ...] | None,
    platform: str,
    source: SourceKind | None = None,
) -> bool:
    """Say whether a condition holds; None always does.

    Args:
        when: the condition; all its fields must hold.
        version: the component's version.
        arches: the effective arches in normal form, such as `12.1a` (recipes are held to it too), or None
            for any: a lock serves all of them.
        platform: `linux-x86_64` or `linux-aarch64`.
        source: kind of the main source, or None for any.
    """
    if when is None:
        return True
    if when.platform is not None and when.platform != platform:
        return False
    if when.source is not None and source is not None and when.source != source:
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

    kind = main_kind(recipe)

    def kept(when: When | None) -> bool:
        return holds(when, version=version, arches=arches, platform=platform, source=kind)

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
        build=_merged(build, kept),
        modules=policy_of(recipe, version=version, arches=arches, platform=platform),
        files=recipe.files,
        probe=recipe.probe,
        arch_env=recipe.arch.env,
    )


def policy_of(
    recipe: Recipe, *, version: str, arches: tuple[str, ...], platform: str
) -> tuple[ModulePolicy, ...]:
    """Return what is expected of the modules of a wheel, built or published; see `holds`."""
    kind = main_kind(recipe)

    def kept(when: When | None) -> bool:
        return holds(when, version=version, arches=arches, platform=platform, source=kind)

    return tuple(
        msgspec.structs.replace(
            policy, exceptions=tuple(exempt for exempt in policy.exceptions if kept(exempt.when))
        )
        for policy in recipe.modules
        if kept(policy.when)
    )


def assembled(
    recipe: Recipe, *, version: str, entries: Iterable[Entry], platform: str
) -> tuple[tuple[str, str], ...]:
    """Return (program inside the wheel, machine code that it must make), such as `sm_121a`, sorted."""
    from orchestrator.model.arch import Device

    entries = tuple(entries)
    arches = tuple(str(entry.arch) for entry in entries)
    kind = main_kind(recipe)
    found: set[tuple[str, str]] = set()
    for each in recipe.assemblers:
        if holds(each.when, version=version, arches=arches, platform=platform, source=kind):
            lowest, below = (
                Device.parse(text) if text is not None else None for text in (each.lowest, each.below)
            )
            found |= {
                (each.file, entry.arch.name)
                for entry in entries
                if (lowest is None or lowest <= entry.arch.device)
                and (below is None or entry.arch.device < below)
            }
    return tuple(sorted(found))


def main_kind(recipe: Recipe) -> SourceKind | None:
    """Return the kind of a recipe's main source; None without one."""
    main = recipe.sources.get("main")
    kinds: tuple[SourceKind, ...] = ("sdist", "git", "archive", "local")
    return next((kind for kind in kinds if main is not None and getattr(main, kind) is not None), None)


def requirements(recipe: Recipe, *, version: str, platform: str) -> tuple[str, ...]:
    """Return the build requirements for a version and platform, those of every arch together."""
    if recipe.build is None:
        return ()
    kind = main_kind(recipe)

    def kept(when: When | None) -> bool:
        return holds(when, version=version, arches=None, platform=platform, source=kind)

    merged = _merged(recipe.build, kept)
    return tuple(dict.fromkeys(merged.requires))


def _merged(build: Build, kept: Callable[[When | None], bool]) -> Build:
    """Add the variants that hold, in their order: lists grow, of two values the later one stays."""
    requires, commands = build.requires, build.commands
    env, config = dict(build.env), dict(build.config_settings)
    estimate = build.estimate
    for variant in build.variants:
        if kept(variant.when):
            requires += variant.requires
            commands += variant.commands
            env.update(variant.env)
            config.update(variant.config_settings)
            estimate = variant.estimate or estimate
    return msgspec.structs.replace(
        build,
        requires=requires,
        commands=commands,
        env=env,
        config_settings=config,
        estimate=estimate,
        elsewhere=tuple(exempt for exempt in build.elsewhere if kept(exempt.when)),
        repair=_repair(build.repair, kept),
        variants=(),
    )


def _repair(repair: Repair | None, kept: Callable[[When | None], bool]) -> Repair | None:
    """Return it without the libraries whose condition does not hold."""
    if repair is None:
        return None
    return msgspec.structs.replace(repair, bundle=tuple(each for each in repair.bundle if kept(each.when)))


@lru_cache(maxsize=4096)
def _admits(specifiers: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifiers, prereleases=True).contains(version, prereleases=True)
