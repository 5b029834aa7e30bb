"""From recipes, stack and lock to keyed steps, and from those and the store to a plan. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import NotApplicableError, RecipeError, UnknownNameError
from orchestrator.model.arch import normal_form
from orchestrator.model.dialects import env_value
from orchestrator.model.pins import pin_of, unverified
from orchestrator.model.when import assembled, policy_of, resolved
from orchestrator.plan.effective import effective
from orchestrator.plan.estimate import estimated
from orchestrator.plan.fit import stack_graph
from orchestrator.plan.graph import build_order, closure
from orchestrator.plan.key import (
    Ingredients,
    MachineFacts,
    build_ingredients,
    build_key,
    changed,
    files_digest,
)
from orchestrator.plan.limits import refuse_beyond
from orchestrator.plan.steps import UNSEEN, Estimate, KeyedStep, Plan, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from orchestrator.model.arch import ArchRequest, Device, Entry
    from orchestrator.model.lock import Lock, LockedComponent, LockedSource
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.model.when import ResolvedRecipe
    from orchestrator.plan.estimate import UnitCosts


def _no_texts(recipe: str, text: str) -> str:
    raise KeyError(recipe, text)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """All that keys are made of."""

    stack: Stack
    lock: Lock
    recipes: Mapping[str, Recipe]
    arch: ArchRequest
    machine: MachineFacts
    patch_digest: Callable[[str, str], str]
    """(recipe, patch name) -> sha256 of its bytes."""
    text_digest: Callable[[str, str], str] = _no_texts
    """(recipe, file of ours that goes into a wheel) -> sha256 of its bytes."""
    patch_seen_at: Callable[[str, str], Collection[str]] | None = None
    """(recipe, patch name) -> versions and commits at which it was judged; None: nobody asks."""
    device: Device | None = None
    local_sources: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(recipe, source) -> digest of a local tree that takes its place."""
    prebuilt: Collection[str] = ()
    """Components that are taken as published because somebody asked for it, as `stack` has it already."""


@dataclass(frozen=True, slots=True)
class Past:
    """What the store knows of one key, or of a recipe's last artifact."""

    ingredients: Mapping[str, str]
    rejected: bool = False
    estimate: Estimate = UNSEEN


def keyed_steps(inputs: PlanInputs, names: Collection[str]) -> tuple[KeyedStep, ...]:
    """Return the steps that `names` take in (empty: the whole stack), keyed, in build order.

    Raises:
        UnknownNameError: a name that the stack does not have.
        CycleError: recipes that need each other.
        RecipeError: a component that cannot be had in the way the stack asks for.
        ArchError: an entry that lacks the suffix a recipe needs, or entries beyond a recipe's limits.
        NotApplicableError: a single named recipe that cannot be built for the request.
    """
    stack = inputs.stack
    for name in names:
        if name not in stack.components:
            raise UnknownNameError(f"recipe in stack {stack.name}", name, stack.components)
    graph = stack_graph(stack, inputs.recipes)
    taken = closure(graph, names or graph)
    steps: dict[str, KeyedStep] = {}
    for name in build_order({name: graph[name] for name in taken}):
        steps[name] = _keyed(inputs, name, graph[name], steps)
    for name in names:
        if steps[name].kind == "not-applicable":
            instead = inputs.recipes[name].instead
            reason = (steps[name].reason or "").removesuffix(_instead(instead))
            raise NotApplicableError(
                f"{name} cannot be built for {inputs.arch.normal}: {reason}",
                hint=instead or f"ask for one of {', '.join(inputs.recipes[name].applies)}",
            )
    return tuple(steps.values())


def _keyed(inputs: PlanInputs, name: str, needs: tuple[str, ...], done: Mapping[str, KeyedStep]) -> KeyedStep:
    recipe, component = inputs.recipes[name], inputs.stack.components[name]
    locked = inputs.lock.components[name]
    step = KeyedStep(name, component.version, recipe.wheel_name, "prebuilt", locked, needs=needs)
    if component.prebuilt:
        if locked.prebuilt is None:
            raise RecipeError(
                f"the lock holds no published wheel of {name}",
                hint=f"write `published: true` under components.{name} of stack {inputs.stack.name}, and "
                f"`sparkbuild lock --stack {inputs.stack.name}`",
            )
        return replace(
            step,
            key=locked.prebuilt.sha256,
            entries=inputs.arch.entries,
            devices=(inputs.device,) if inputs.device else _own_devices(inputs.arch.entries),
            policy=policy_of(
                recipe,
                version=component.version,
                arches=tuple(str(entry.arch) for entry in inputs.arch.entries),
                platform=inputs.lock.platform,
            ),
            assembled=assembled(
                recipe,
                version=component.version,
                entries=inputs.arch.entries,
                platform=inputs.lock.platform,
            ),
        )
    chosen = effective(inputs.arch, recipe.applies, where=f"recipe {name}")
    # Its lock may also hold the published wheel, for --prebuilt: that reaches no build.
    locked = msgspec.structs.replace(locked, prebuilt=None)
    step = replace(step, locked=locked)
    missing = [need for need in needs if done[need].kind == "not-applicable"]
    if not chosen.entries or missing:
        reason = chosen.reason or f"needs {', '.join(missing)}, which cannot be built for this arch"
        return replace(step, kind="not-applicable", reason=f"{reason}{_instead(recipe.instead)}")
    refuse_beyond(chosen.entries, recipe.arch.limits, name=name)
    arches = tuple(str(entry.arch) for entry in chosen.entries)
    view = resolved(recipe, version=component.version, arches=arches, platform=inputs.lock.platform)
    arch_env = {
        variable: value
        for variable, dialect in recipe.arch.env.items()
        if (value := env_value(chosen.entries, dialect)) is not None
    }
    if recipe.arch.env and not arch_env:
        raise RecipeError(
            f"none of {name}'s arch dialects can say {normal_form(chosen.entries)}",
            hint="name the one arch instead of its family, such as 12.1a",
        )
    step = replace(
        step,
        kind="build",
        reason=_unread(inputs, name, view.sources, locked, done),
        entries=chosen.entries,
        arch=normal_form(chosen.entries) if recipe.arch.env else "",
        devices=(inputs.device,) if inputs.device else _own_devices(chosen.entries),
        build_needs=tuple(recipe.needs.build),
        recipe=view,
        policy=view.modules,
        assembled=assembled(
            recipe, version=component.version, entries=chosen.entries, platform=inputs.lock.platform
        ),
        arch_env=arch_env,
        notes=(
            *(note.text for note in chosen.notes),
            *(f"without {drop.entry}: {drop.reason}" for drop in chosen.dropped),
        ),
        unverified=_unverified(inputs, view, locked),
    )
    if step.reason is not None:
        return step
    sources = {key: _source_digest(inputs, name, key, locked) for key in view.sources}
    patches = {patch.name: inputs.patch_digest(name, patch.name) for patch in view.patches}
    ingredients = build_ingredients(
        recipe=view,
        arch=normal_form(chosen.entries),
        arch_env=arch_env,
        locked=locked,
        source_digests=sources,
        patch_digests=patches,
        need_keys=_need_keys(step.build_needs, done),
        machine=inputs.machine,
        text_digests={
            text: inputs.text_digest(name, text)
            for wheel in view.build.wheels
            for text in wheel.texts.values()
        },
    )
    return replace(step, key=build_key(ingredients), ingredients=ingredients)


def _instead(text: str | None) -> str:
    return f"; instead: {text}" if text else ""


def _unread(
    inputs: PlanInputs,
    name: str,
    sources: Collection[str],
    locked: LockedComponent,
    done: Mapping[str, KeyedStep],
) -> str | None:
    """Return why a step that builds has no key: a commit that nobody has read, its own or below it."""
    command = f"`sparkbuild lock --stack {inputs.stack.name}` or `sparkbuild fetch {name}`"
    open_ = [
        f"{source} (tag {seen.tag})"
        for source in sources
        if (seen := locked.sources.get(source)) is not None
        and seen.unresolved
        and (name, source) not in inputs.local_sources
    ]
    if open_:
        one = len(open_) == 1
        told = f"{'source' if one else 'sources'} {', '.join(open_)} {'is' if one else 'are'} unresolved"
        return f"{told}: {command} reads {'its commit' if one else 'their commits'}"
    for need in inputs.recipes[name].needs.build:
        if done[need].unread:
            return f"builds on {need}, which has an unresolved source: {command} reads its commit"
    return None


def _unverified(inputs: PlanInputs, view: ResolvedRecipe, locked: LockedComponent) -> dict[str, str]:
    """Return patch -> why, of those that nobody has judged at the very state of the source that is pinned."""
    found: dict[str, str] = {}
    for patch in view.patches:
        if inputs.patch_seen_at is None or (view.name, patch.source) in inputs.local_sources:
            continue
        pin = pin_of(view.sources[patch.source], locked.sources.get(patch.source), version=view.version)
        if (why := unverified(pin, inputs.patch_seen_at(view.name, patch.name))) is not None:
            found[patch.name] = why
    return found


def _own_devices(entries: tuple[Entry, ...]) -> tuple[Device, ...]:
    """Return the devices that the entries name: 12.0f serves 12.0 unless --device says another."""
    return tuple(sorted({entry.arch.device for entry in entries}))


def _need_keys(build_needs: tuple[str, ...], done: Mapping[str, KeyedStep]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for need in build_needs:
        keys[need] = done[need].key or ""
        if run := done[need].locked.run:
            keys[f"{need} run"] = files_digest(run)
    return keys


def _source_digest(inputs: PlanInputs, name: str, source: str, locked: LockedComponent) -> str:
    """Return what identifies a source: a local tree's digest, a sha256, or commits."""
    local = inputs.local_sources.get((name, source))
    if local is not None:
        return f"local {local}"
    try:
        entry: LockedSource = locked.sources[source]
    except KeyError:
        raise RecipeError(
            f"the lock holds no source {source} of {name}",
            hint=f"`sparkbuild lock --stack {inputs.stack.name}` makes it anew",
        ) from None
    if entry.file is not None:
        return f"sha256 {entry.file.sha256}"
    # Which commits they are follows from this one, whether the lock lists them or not.
    modules = " with submodules" if inputs.recipes[name].sources[source].submodules else ""
    return f"commit {entry.commit}{modules}"


def decide(
    inputs: PlanInputs,
    steps: tuple[KeyedStep, ...],
    known: Mapping[str, Past],
    last: Mapping[str, Past],
    units: Mapping[str, UnitCosts] = MappingProxyType({}),
    audits: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Return the plan: what is done about each step, and why.

    Args:
        inputs: what the keys were made of.
        steps: keyed steps in build order.
        known: build key -> what the store holds under it.
        last: recipe -> its latest artifact of whatever key.
        units: recipe -> what its compiler calls took.
        audits: recipe -> what an audit of its published wheel found.
    """
    return Plan(
        stack=inputs.stack.name,
        arch=inputs.arch.normal,
        target=f"{inputs.lock.platform}, Python {inputs.lock.python}",
        steps=tuple(
            _published(step, inputs, last.get(step.name), units.get(step.name), audits.get(step.name))
            if step.kind == "prebuilt"
            else _decided(step, known.get(step.key or ""), last.get(step.name), units.get(step.name))
            for step in steps
        ),
    )


def _published(
    step: KeyedStep, inputs: PlanInputs, before: Past | None, units: UnitCosts | None, coverage: str | None
) -> Step:
    size = sum(item.size for item in (step.locked.prebuilt, *step.locked.run) if item is not None)
    build = inputs.recipes[step.name].build
    why = "taken as published, as --prebuilt says"
    return Step(
        step,
        "prebuilt",
        why if step.name in inputs.prebuilt else "the stack takes it as published",
        Estimate(disk_bytes=size),
        saved=None if build is None else estimated(build, before.estimate if before else None, units),
        coverage=coverage,
    )


def _decided(step: KeyedStep, past: Past | None, before: Past | None, units: UnitCosts | None) -> Step:
    if step.kind == "not-applicable":
        return Step(step, "not-applicable", step.reason or "")
    if past is not None:
        why = "built before from the same ingredients"
        if past.rejected:
            why = "built before; its audit failed, so it is kept as rejected"
        return Step(step, "reuse", why, past.estimate)
    why = "not built yet" if before is None else explain(before.ingredients, dict(step.ingredients))
    if step.unread:
        why = step.reason or ""
    return Step(step, "build", why, estimated(step.view.build, before.estimate if before else None, units))


def explain(before: Mapping[str, str], now: Ingredients, limit: int = 3) -> str:
    """Return one line that names what changed since the last artifact."""
    changes = changed(before, now)
    if not changes:
        return "the same ingredients as the last artifact, which is gone"
    listed = "; ".join(str(change) for change in changes[:limit])
    return listed + (f"; and {len(changes) - limit} more" if len(changes) > limit else "")
