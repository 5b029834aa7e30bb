"""What a wheel gained and lost on a device since an older one: by container, and by kernel.

Containers have no names, and their order changes from build to build. So each is known by its kernels:
those with equal sets belong together, then those that share most, then those whose kernels differ only in
template arguments and numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.audit.coverage import Counts, count
from orchestrator.audit.findings import Finding
from orchestrator.audit.globs import installed
from orchestrator.audit.names import family
from orchestrator.audit.stablenames import stable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.coverage import Coverage
    from orchestrator.audit.report import DeviceReport, SpecReport

State = Literal["exact", "compatible", "jit", "none", "absent"]
_WORTH: dict[State, int] = {"exact": 2, "compatible": 2, "jit": 1, "none": 0, "absent": 0}
_ABI = re.compile(r"(?:\.(?:cpython|pypy|cp)[^./]*|\.abi3)+(?=\.so)")
_GRAFTED = re.compile(r"-[0-9a-f]{8}(?=[.]so|[.-]\d[\d.]*[.]so)")
"""What auditwheel puts into the name of a library that it takes along."""
_VERSION = re.compile(r"\.so(?:\.\d+)+$")
_COMMON = 32
"""A kernel in more containers than this does not tell which belong together."""


@dataclass(frozen=True, slots=True)
class Change:
    """Kernels of one container that run in another way than before."""

    module: str
    """Path in the wheel that has more: the old one for what was lost, the new one for what was gained."""
    offset: int | None
    """Of the container, in the same file; None for a cubin, or when kernels could not be read."""
    before: State
    after: State
    holds: tuple[str, ...]
    """Arches of the container in the other wheel; empty when it has none."""
    kernels: tuple[str, ...]
    """Mangled, without what changes from build to build; empty when they could not be read."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields under their names."""
        return {
            "module": self.module,
            "offset": self.offset,
            "before": self.before,
            "after": self.after,
            "holds": list(self.holds),
            "kernels": list(self.kernels),
        }


@dataclass(frozen=True, slots=True)
class ModuleChange:
    """A module that came, went, or counts otherwise than before."""

    old: str | None
    """Its path in the old wheel; None when it came."""
    new: str | None
    """Its path in the new wheel; None when it went."""
    before: Counts
    after: Counts

    def to_json(self) -> dict[str, Any]:
        """Return the fields under their names."""
        return {
            "old": self.old,
            "new": self.new,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A wheel and an older one, on one device."""

    spec: str
    """The older one."""
    lost: tuple[Change, ...] = ()
    gained: tuple[Change, ...] = ()
    modules: tuple[ModuleChange, ...] = ()
    renamed: int = 0
    """Kernels in whose place others came, with the same name but for template arguments and numbers."""
    unread: int = 0
    """Containers whose kernels could not be read, so that only their numbers were compared."""

    def to_json(self) -> dict[str, Any]:
        """Return `against` of the audit JSON."""
        return {
            "spec": self.spec,
            "lost": [change.to_json() for change in self.lost],
            "gained": [change.to_json() for change in self.gained],
            "modules": [module.to_json() for module in self.modules],
            "renamed": self.renamed,
            "unread": self.unread,
        }


def against(new: SpecReport, old: SpecReport) -> SpecReport:
    """Return the report on `new` with what changed since `old`; coverage that was lost is an error.

    Both must be judged for the same devices, and with the names of kernels read.
    """
    before = {report.device: report for report in old.devices}
    devices = []
    for report in new.devices:
        found = compare(before[report.device], report, old.spec)
        findings = (*report.findings, *_findings(found, report))
        devices.append(replace(report, against=found, findings=findings))
    return replace(new, devices=tuple(devices))


def compare(old: DeviceReport, new: DeviceReport, spec: str) -> Comparison:
    """Compare two wheels on one device; `spec` is how the old one is called."""
    before, after = _Side(old), _Side(new)
    pairs = _paired(before.modules, after.modules)
    back = {there: here for here, there in pairs.items()}
    less = list(_less(before, after, pairs))
    more = list(_less(after, before, back))
    changed = [
        ModuleChange(
            path,
            pairs.get(path),
            before.counts(path),
            after.counts(pairs[path]) if path in pairs else Counts(),
        )
        for path in before.modules
    ]
    changed += [
        ModuleChange(None, path, Counts(), after.counts(path)) for path in after.modules if path not in back
    ]
    boxes = chain(*before.modules.values(), *after.modules.values())
    return Comparison(
        spec,
        tuple(one for one in less if isinstance(one, Change)),
        tuple(replace(one, before=one.after, after=one.before) for one in more if isinstance(one, Change)),
        tuple(one for one in changed if one.before != one.after),
        renamed=sum(one for one in less if isinstance(one, int)),
        unread=sum(box.kernels is None for box in boxes),
    )


def _findings(found: Comparison, report: DeviceReport) -> Iterator[Finding]:
    if not found.lost:
        return
    boxes = len({(one.module, one.offset) for one in found.lost})
    kernels = len({name for one in found.lost for name in one.kernels})
    modules = list(dict.fromkeys(one.module for one in found.lost))
    more = f" and {len(modules) - 3} more" if len(modules) > 3 else ""  # noqa: PLR2004 - three are named
    what = f"{kernels:,} kernel{'' if kernels == 1 else 's'} in " if kernels else ""
    text = (
        f"{what}{boxes:,} container{'' if boxes == 1 else 's'} lost coverage of {report.device} since "
        f"{found.spec}: {', '.join(modules[:3])}{more}"
    )
    yield Finding("error", "coverage-lost", text)


class _Side:
    """The modules of one wheel with device code, their containers under stable names of kernels."""

    def __init__(self, report: DeviceReport) -> None:
        held = {module.path: module.containers for module in report.modules}
        paths = dict.fromkeys((*held, *report.bare))
        found = {path: (*held.get(path, ()), *report.bare.get(path, ())) for path in paths}
        self.modules = {path: tuple(map(_stable, boxes)) for path, boxes in found.items() if boxes}
        self.best: dict[str, Coverage] = {}
        """Kernel -> how it runs where it runs best."""
        for box in chain(*self.modules.values()):
            for kernel in box.kernels or ():
                how: Coverage = box.coverage_of(kernel)
                if _WORTH[how] >= _WORTH[self.best.get(kernel, "none")]:
                    self.best[kernel] = how

    def counts(self, path: str) -> Counts:
        return count(box.coverage for box in self.modules[path])


def _stable(box: ContainerReport) -> ContainerReport:
    if box.kernels is None:
        return box
    return replace(
        box, kernels=frozenset(map(stable, box.kernels)), missing=frozenset(map(stable, box.missing))
    )


def _paired(old: Iterable[str], new: Iterable[str]) -> dict[str, str]:
    """Return old path -> new path of the same module; the ABI and version in a name do not count."""
    old, new = list(old), list(new)
    pairs: dict[str, str] = {}
    for key in (installed, _plain):
        left = _unique((path for path in old if path not in pairs), key)
        right = _unique((path for path in new if path not in pairs.values()), key)
        pairs |= {left[name]: right[name] for name in left.keys() & right.keys()}
    return {path: pairs[path] for path in old if path in pairs}


def _unique(paths: Iterable[str], key: Callable[[str], str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(key(path), []).append(path)
    return {name: held[0] for name, held in found.items() if len(held) == 1}


def _plain(path: str) -> str:
    """Return where a module lies, without ABI tag, version and hash: `a/_C.abi3.so` is `a/_C.so`."""
    return _GRAFTED.sub("", _ABI.sub("", _VERSION.sub(".so", installed(path))))


def _less(much: _Side, little: _Side, pairs: Mapping[str, str]) -> Iterator[Change | int]:
    """Yield what runs better in `much`; and numbers of kernels that only got another name."""
    for path, boxes in much.modules.items():
        others = little.modules[pairs[path]] if path in pairs else ()
        if any(box.kernels is None for box in (*boxes, *others)):
            yield from _fewer(path, boxes, others)
            continue
        matched = _matched(
            [box.kernels or frozenset() for box in boxes], [box.kernels or frozenset() for box in others]
        )
        for index, box in enumerate(boxes):
            other = others[matched[index]] if index in matched else None
            yield from _compared(path, box, other, little)


def _compared(
    path: str, box: ContainerReport, other: ContainerReport | None, little: _Side
) -> Iterator[Change | int]:
    """Yield what runs better in `box` than in `other`, its counterpart in another wheel."""
    found: dict[tuple[State, State], list[str]] = {}
    for kernel in sorted(box.kernels or ()):
        how: State = box.coverage_of(kernel)
        there: State
        if other is not None and kernel in (other.kernels or ()):
            there = other.coverage_of(kernel)
        else:
            there = little.best.get(kernel, "absent")
        if _WORTH[there] < _WORTH[how]:
            found.setdefault((how, there), []).append(kernel)
    holds = () if other is None else other.arches
    for (how, there), kernels in found.items():
        lost = kernels
        if there == "absent" and other is not None:
            lost = _not_renamed(kernels, how, box, other)
            if len(kernels) > len(lost):
                yield len(kernels) - len(lost)
        if lost:
            yield Change(path, box.offset, how, there, holds, tuple(lost))


def _not_renamed(
    kernels: Sequence[str], how: State, box: ContainerReport, other: ContainerReport
) -> list[str]:
    """Return the kernels in whose place no others came: as many of the same family, that run as well."""
    gone: dict[str, list[str]] = {}
    for kernel in kernels:
        gone.setdefault(family(kernel), []).append(kernel)
    came: dict[str, int] = {}
    for kernel in (other.kernels or frozenset()) - (box.kernels or frozenset()):
        if _WORTH[other.coverage_of(kernel)] >= _WORTH[how]:
            came[family(kernel)] = came.get(family(kernel), 0) + 1
    return [name for kind, names in gone.items() if came.get(kind, 0) < len(names) for name in names]


def _fewer(
    path: str, boxes: Sequence[ContainerReport], others: Sequence[ContainerReport]
) -> Iterator[Change]:
    """Compare by numbers alone."""
    here, there = count(box.coverage for box in boxes), count(box.coverage for box in others)
    holds = tuple(dict.fromkeys(arch for box in others for arch in box.arches))
    less: State = "none" if others else "absent"
    if there.native < here.native:
        yield Change(path, None, "exact" if here.exact else "compatible", less, holds, ())
    elif there.native + there.jit < here.native + here.jit:
        yield Change(path, None, "jit", less, holds, ())


def _matched(here: Sequence[frozenset[str]], there: Sequence[frozenset[str]]) -> dict[int, int]:
    """Return which sets of kernels belong together, each at most once: by names, then by families."""
    found = _assigned(dict(enumerate(here)), dict(enumerate(there)))
    rest = {at: frozenset(map(family, names)) for at, names in enumerate(here) if at not in found}
    free = set(range(len(there))) - set(found.values())
    return found | _assigned(rest, {at: frozenset(map(family, there[at])) for at in sorted(free)})


def _assigned(here: Mapping[int, frozenset[str]], there: Mapping[int, frozenset[str]]) -> dict[int, int]:
    """Match sets that are equal, in their order; then those that share most of what they hold."""
    waiting: dict[frozenset[str], list[int]] = {}
    for at, names in there.items():
        waiting.setdefault(names, []).append(at)
    found: dict[int, int] = {}
    for at, names in here.items():
        if waiting.get(names):
            found[at] = waiting[names].pop(0)
    taken = set(found.values())
    shared = _shared(
        {at: names for at, names in here.items() if at not in found},
        {at: names for at, names in there.items() if at not in taken},
    )
    ranked = sorted((-many / len(here[at] | there[other]), at, other) for (at, other), many in shared.items())
    for _, at, other in ranked:
        if at not in found and other not in taken:
            found[at] = other
            taken.add(other)
    return found


def _shared(
    here: Mapping[int, frozenset[str]], there: Mapping[int, frozenset[str]]
) -> dict[tuple[int, int], int]:
    """Count what each two sets share; names that are nearly everywhere do not count."""
    holders: dict[str, list[int]] = {}
    for at, names in there.items():
        for name in names:
            holders.setdefault(name, []).append(at)
    found: dict[tuple[int, int], int] = {}
    for at, names in here.items():
        for name in names & holders.keys():
            for other in holders[name] if len(holders[name]) <= _COMMON else ():
                found[at, other] = found.get((at, other), 0) + 1
    return found
