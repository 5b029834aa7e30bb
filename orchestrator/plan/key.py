"""Keys: the hash of everything that a wheel depends on, and of nothing else.

An ingredient is one named text. The build key is the hash of all ingredients, so `why` can name the
one that changed. What is not here (summary, policy, memory hints, paths, times, job counts) cannot
cause a rebuild.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from orchestrator.audit.report import AUDIT_NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.model.lock import LockedComponent, LockedFile
    from orchestrator.model.recipe import ModulePolicy, Repair
    from orchestrator.model.when import ResolvedRecipe

BUILD_LOGIC = 1
"""Raised by hand whenever the way wheels are made changes what comes out. A golden test watches."""

Ingredients = dict[str, str]


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What of this machine reaches a wheel. Texts are opaque; equal texts mean equal tools."""

    platform: str
    python_abi: str
    libc: str
    compiler: str
    toolkit: str | None
    """None: the stack has no toolkit."""
    environment: Mapping[str, str]
    """The part of the commands' environment that is the same for every recipe and reaches builds."""


def digest(value: object) -> str:
    """Return the sha256 of a JSON-like value in its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def files_digest(files: Sequence[LockedFile]) -> str:
    """Return one sha256 over a set of locked files, whatever their order."""
    return digest(sorted(f"{item.name}=={item.version} {item.sha256}" for item in files))


def build_ingredients(
    *,
    recipe: ResolvedRecipe,
    arch: str,
    arch_env: Mapping[str, str],
    locked: LockedComponent,
    source_digests: Mapping[str, str],
    patch_digests: Mapping[str, str],
    need_keys: Mapping[str, str],
    machine: MachineFacts,
    text_digests: Mapping[str, str] = MappingProxyType({}),
) -> Ingredients:
    """Return what one step's wheel depends on.

    Args:
        recipe: the recipe with its conditions decided.
        arch: normal form of the effective arches.
        arch_env: variables that carry the arch, translated; when there are none, neither arch nor toolkit
            reach the build.
        locked: what the lock holds of this component.
        source_digests: source name -> sha256, commit or tree digest.
        patch_digests: patch name -> sha256, in the order in which they apply.
        need_keys: build need -> its build key, or the sha256 of a prebuilt.
        machine: the tools in use.
        text_digests: file of ours that goes into a wheel -> its sha256.
    """
    build = recipe.build
    found: Ingredients = {
        "logic": str(BUILD_LOGIC),
        "version": locked.version,
        "platform": machine.platform,
        "python": machine.python_abi,
        "libc": machine.libc,
        "compiler": machine.compiler,
        "backend": build.backend,
        "directory": build.directory,
        "outputs": json.dumps(build.outputs),
        "commands": json.dumps(build.commands),
    }
    for name, source in recipe.sources.items():
        found[f"source {name}"] = source_digests[name]
        place = {
            key: value for key in ("into", "env", "cmake") if (value := getattr(source, key)) is not None
        }
        if place:
            found[f"source {name} place"] = json.dumps(place, sort_keys=True)
    found |= {f"patch {name}": f"{value} #{i}" for i, (name, value) in enumerate(patch_digests.items(), 1)}
    if build.wheels:
        found["wheels"] = json.dumps(msgspec.to_builtins(build.wheels), sort_keys=True)
    found |= {f"text {name}": value for name, value in text_digests.items()}
    found |= {f"env {name}": value for name, value in build.env.items()}
    found |= {f"config {name}": value for name, value in build.config_settings.items()}
    found |= {f"link {name}": target for name, target in build.links.items()}
    if build.repair is not None:
        found["repair"] = _repair(build.repair)
    found |= {f"requires {item.name}": f"{item.version} {item.sha256}" for item in locked.requires}
    found |= {f"needs {name}": value for name, value in need_keys.items()}
    found |= {f"environment {name}": value for name, value in machine.environment.items()}
    if arch_env:
        found["arch"] = arch
        found |= {f"arch {name}": value for name, value in arch_env.items()}
        if machine.toolkit is not None:
            found["toolkit"] = machine.toolkit
    return found


def _repair(repair: Repair) -> str:
    bundle = [f"{each.file} into {each.into}" for each in repair.bundle]
    return json.dumps([bundle, [[rule.match, *rule.folders] for rule in repair.rpath], repair.requires])


def build_key(ingredients: Mapping[str, str]) -> str:
    """Return the build key, 64 hex digits."""
    return digest(dict(ingredients))


def audit_key(
    wheels: Sequence[str],
    policy: Sequence[ModulePolicy],
    devices: Sequence[str],
    arch: str,
    *,
    only: Sequence[str] | None = None,
    assembled: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the audit key of an artifact: another policy audits again and never builds again.

    Args:
        wheels: sha256 of every wheel of the artifact.
        policy: what is expected of each module, in its order: of several that match, the first holds;
            reasons do not count.
        devices: the devices to be served, such as `12.1`.
        arch: the effective arches; images for others are reported.
        only: globs of all files that the wheels may hold; None: any.
        assembled: programs of the wheels, and what each must be able to assemble.
    """
    rules = [_rule(item) for item in policy]
    more: list[object] = [] if only is None else [sorted(only)]
    if assembled:
        more.append({"assembled": sorted(assembled)})
    return digest([AUDIT_NUMBER, sorted(wheels), rules, sorted(devices), arch, *more])


def _rule(item: ModulePolicy) -> list[object]:
    rule: list[object] = [item.match, item.expect, [exempt.kernels for exempt in item.exceptions]]
    return rule if item.required else [*rule, "may be missing"]


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the ingredients that differ, by name."""
    names = sorted(before.keys() | now.keys())
    return tuple(
        Change(name, before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)
    )


@dataclass(frozen=True, slots=True)
class Change:
    """One ingredient, before and now; None where it was or is not there."""

    ingredient: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.ingredient} is new"
        if self.now is None:
            return f"{self.ingredient} is gone"
        return f"{self.ingredient} changed from {_short(self.before)} to {_short(self.now)}"


def _short(text: str, limit: int = 40) -> str:
    words = [word[:12] if len(word) >= 40 and word.isalnum() else word for word in text.split()]  # noqa: PLR2004
    joined = " ".join(words)
    return joined if len(joined) <= limit else joined[: limit - 3] + "..."
