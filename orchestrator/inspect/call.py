"""One call of `sparkbuild audit`: all its SPECs, one question, one report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditReport, SpecReport
from orchestrator.errors import SourceError, SparkbuildError, SpecError, UsageError
from orchestrator.report.events import silent

if TYPE_CHECKING:
    from orchestrator.audit.policy import Expectation
    from orchestrator.model.arch import Device, Entry
    from orchestrator.report.events import Emit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAsk:
    """What somebody typed."""

    specs: tuple[str, ...] = ()
    arch: str | None = None
    device: str | None = None
    env: str | None = None
    """An interpreter or venv; empty: the active one; None: no environment."""
    platform: str | None = None
    python: str | None = None
    recipe: str | None = None
    recipe_folders: tuple[Path, ...] = ()
    driver: str | None = None
    torch: str | None = None
    old: str | None = None
    """What to compare the one SPEC with."""
    deep: bool = False
    names: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The report, and what could not be read."""

    report: AuditReport
    unread: tuple[SparkbuildError, ...] = ()


def audit_call(ask: AuditAsk, emit: Emit = silent) -> Answer:
    """Audit all that is asked for. What cannot be read is a failed SPEC; the others are still read.

    Raises:
        UsageError: the arguments cannot be meant.
        SpecError: `env`, `torch` or `old` cannot be read.
        SourceError: `old` could not be had.
    """
    from orchestrator.inspect.specs import audit_environment, audit_spec

    if not all(ask.specs):
        raise UsageError("a SPEC is empty", hint="name a wheel, folder or file; is a variable unset?")
    if not ask.specs and ask.env is None:
        hint = "name wheels, folders, files or name==version: sparkbuild audit X.whl --arch 12.1a"
        raise UsageError("nothing to audit", hint=hint)
    if ask.old is not None and (len(ask.specs) != 1 or ask.env is not None):
        raise UsageError("--against compares one SPEC with an older one", hint="name exactly one SPEC")
    question = _question(ask)
    reports: list[SpecReport] = []
    unread: list[SparkbuildError] = []
    for spec in ask.specs:
        try:
            reports.append(audit_spec(spec, question, platform=ask.platform, python=ask.python, emit=emit))
        except (SpecError, SourceError) as error:
            unread.append(error)
            reports.append(SpecReport(spec, error=error.message))
    if ask.env is not None:
        reports += audit_environment(ask.env or None, question)
    if ask.old is not None and not unread:
        from orchestrator.audit.against import against

        old = audit_spec(ask.old, question, platform=ask.platform, python=ask.python, emit=emit)
        reports = [against(reports[0], old)]
    report = AuditReport(question.devices, tuple(reports), driver=ask.driver, ptx_isa=question.ptx_isa)
    return Answer(report, tuple(unread))


def _question(ask: AuditAsk) -> Question:
    from orchestrator.audit.driver import parse_driver
    from orchestrator.model.arch import image_names

    devices, entries = _devices(ask)
    question = Question(
        devices=devices,
        ptx_isa=None if ask.driver is None else parse_driver(ask.driver),
        deep=ask.deep,
        names=ask.names or ask.old is not None,
    )
    if ask.deep:
        from orchestrator.inspect.confirm import Disassembler

        question = replace(question, confirm=Disassembler.find())
    if ask.torch is not None:
        from orchestrator.inspect.torchexports import torch_exports

        question = replace(question, torch=torch_exports(Path(ask.torch)))
    if ask.recipe is not None:
        policy = _policy(ask, entries, question.devices)
        question = replace(question, policy=policy, requested=frozenset(image_names(entries)) or None)
    return question


def _devices(ask: AuditAsk) -> tuple[tuple[Device, ...], tuple[Entry, ...]]:
    from orchestrator.model.arch import Device, devices_served, parse_request

    served = None if ask.device is None else Device.parse(ask.device)
    if ask.arch is not None:
        request = parse_request(ask.arch, served)
        return devices_served(request, served), request.entries
    if served is None:
        hint = "name what it should serve, such as --arch 12.1a for a DGX Spark"
        raise UsageError("--arch is missing", hint=hint)
    return (served,), ()


def _policy(
    ask: AuditAsk, entries: tuple[Entry, ...], devices: tuple[Device, ...]
) -> tuple[Expectation, ...]:
    """Return what a recipe expects of its wheel, for the version that the wheel's name tells."""
    from packaging.utils import canonicalize_name

    from orchestrator.build.verdict import expectations
    from orchestrator.model.catalog import Catalog
    from orchestrator.model.when import policy_of

    if len(ask.specs) != 1 or ask.env is not None:
        raise UsageError("--recipe judges one SPEC", hint="name exactly one wheel")
    recipe = Catalog.default(ask.recipe_folders).recipe(ask.recipe or "")
    name, version, platform = _told(ask.specs[0])
    if name != canonicalize_name(recipe.wheel_name):
        raise UsageError(
            f"{name} is not what recipe {recipe.name} builds, which is {recipe.wheel_name}",
            hint="name the recipe of this wheel, or leave --recipe out",
        )
    modules = policy_of(
        recipe,
        version=version,
        arches=tuple(str(entry.arch) for entry in entries),
        platform=platform,
    )
    return expectations(modules, entries, devices)


def _told(spec: str) -> tuple[str, str, str]:
    """Return normalized name, version and platform that a wheel's file name tells."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(Path(spec).name)
    except InvalidWheelFilename as error:
        hint = "a recipe's policy depends on version and platform: name a wheel file"
        raise UsageError(f"{spec} does not tell version and platform", hint=hint) from error
    platform = "linux-aarch64" if any("aarch64" in tag.platform for tag in tags) else "linux-x86_64"
    return name, str(version), platform
