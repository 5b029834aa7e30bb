"""What `build.links` and `build.repair` must keep beyond their types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.model import fieldchecks as check
from orchestrator.model import placeholders
from orchestrator.model.convert import Problem, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.model.recipe import Bundled, Repair, RpathRule, When
    from orchestrator.model.yamltext import Steps

_LIBRARY = re.compile(r"lib[A-Za-z0-9_+.-]+\.so(?:\.[0-9]+)*", re.ASCII)
_PLACED = re.compile(r"\{(?:requires|src|work)\}/.+")


def links(found: dict[str, str], steps: Steps) -> Iterator[Problem]:
    """Check links: names below the scratch folder, and what they point to."""
    for name, target in found.items():
        for problem in check.inside(name, (*steps, name)):
            yield Problem(problem.steps, problem.found, problem.expected, key=True)
        yield from _placed(target, (*steps, name))
        above = next((other for other in found if name.startswith(f"{other}/")), None)
        if above is not None:
            text = f"{name!r}, below the link {above!r}"
            yield Problem((*steps, name), text, "a place of its own", key=True)


def repair(found: Repair, steps: Steps) -> Iterator[Problem]:
    """Check what is done to a finished wheel; conditions (`when`) are checked with all others."""
    if not found.bundle and not found.rpath and not found.requires:
        yield Problem(steps, "nothing to do", "bundle, rpath or requires")
    yield from check.requirements(found.requires, (*steps, "requires"))
    for index, bundled in enumerate(found.bundle):
        yield from _bundled(bundled, (*steps, "bundle", index))
    for index, rule in enumerate(found.rpath):
        yield from _rule(rule, (*steps, "rpath", index))


def conditions(found: Repair | None, steps: Steps) -> Iterator[tuple[When | None, Steps]]:
    """Return every condition and where it stands."""
    for index, bundled in enumerate(found.bundle if found is not None else ()):
        yield bundled.when, (*steps, "bundle", index)


def _bundled(bundled: Bundled, steps: Steps) -> Iterator[Problem]:
    if not _LIBRARY.fullmatch(bundled.file):
        yield from _placed(bundled.file, (*steps, "file"), also="a library's name such as libgomp.so.1, or ")
    yield from check.inside(bundled.into, (*steps, "into"), itself=True)


def _rule(rule: RpathRule, steps: Steps) -> Iterator[Problem]:
    yield from check.inside(rule.match, (*steps, "match"))
    yield from check.glob(rule.match, (*steps, "match"))
    if not rule.folders:
        yield Problem((*steps, "folders"), "an empty list", "at least one folder such as $ORIGIN/../lib")
    for index, folder in enumerate(rule.folders):
        top, *rest = folder.split("/")
        if top != "$ORIGIN" or ":" in folder or "" in rest or not folder.isprintable():
            expected = "a folder beside the file: $ORIGIN or $ORIGIN/..., without `:` and a / at its end"
            yield Problem((*steps, "folders", index), shown(folder), expected)


def _placed(text: str, steps: Steps, *, also: str = "") -> Iterator[Problem]:
    """Check a path that begins with one of our folders."""
    yield from check.value(text, steps)
    yield from check.filling(text, steps, placeholders.BUILD)
    if not _PLACED.fullmatch(text) or ".." in text.split("/"):
        yield Problem(steps, shown(text), f"{also}a path in {{requires}}, {{src}} or {{work}}")
