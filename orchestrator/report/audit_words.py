"""The sentences of an audit report, which the terminal and the page share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.audit.containers import grouped, served
from orchestrator.audit.driver import newer_driver
from orchestrator.audit.shortfall import foreign, loads
from orchestrator.model.archvalues import ARCHES, Arch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from orchestrator.audit.against import Change, ModuleChange
    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.coverage import Counts, Coverage
    from orchestrator.audit.findings import Finding
    from orchestrator.audit.kernelfacts import KernelFacts
    from orchestrator.audit.report import DeviceReport, ModuleReport, SpecReport
    from orchestrator.model.archvalues import Device

TOLD = frozenset(("not-native", "not-jit"))
"""Codes of findings that say what `why` says in more detail."""
LEGEND: Mapping[str, str] = {
    "native": "every container of the module holds machine code that the GPU loads",
    "partial": "some containers of the module hold machine code that the GPU loads, others do not",
    "host": "the module holds no device code",
    "exact": "the container holds machine code for this very GPU",
    "compatible": "the container holds machine code for an earlier GPU of its family, which it loads",
    "jit": "no machine code loads, but there is PTX, which the driver compiles when it is first used",
    "none": "nothing in it runs on the GPU",
}
_SEVERITY = ("none", "jit", "partial", "native", "host")
_LEVELS = ("error", "warning", "info")
_SUFFIXES = re.compile(r"(\.abi3|\.(cpython|cp|pypy)[^./]*)?\.so(\.[\d.]+)?$")
_NAMED = 6
"""Modules, or sets of arches, that one line names."""
_ARCHES = 4
"""Arches of one set that are named."""


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal: names come from files that nobody vouched for."""
    return "".join(letter if letter.isprintable() else "?" for letter in text.replace("\n", " "))


def title(path: str) -> str:
    """Return what a module is called in a sentence: `vllm/_C.abi3.so` is `_C`."""
    return _SUFFIXES.sub("", path.rpartition("/")[2]) or path


def ordered(modules: Iterable[ModuleReport]) -> list[ModuleReport]:
    """Return the modules, the worst first."""
    return sorted(
        modules,
        key=lambda one: (not one.failed, _SEVERITY.index(one.verdict), one.counts.native - one.counts.total),
    )


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, errors first."""
    return sorted(findings, key=lambda one: _LEVELS.index(one.level))


def headline(report: DeviceReport) -> str:
    """Say in one sentence what a wheel is worth on a device, and which modules make it so."""
    held = [module for module in ordered(report.modules) if module.verdict != "host"]
    counts = [*(module.counts for module in held), report.cubins]
    total = sum(one.total for one in counts)
    native = sum(one.native for one in counts)
    jit = sum(one.jit for one in counts)
    what, code = _what(report), f"machine code that {report.device} loads"
    if not total:
        text = "holds nothing that could be loaded" if held else "holds no device code"
    elif native == total:
        exact = sum(one.exact for one in counts)
        how = ", ".join(f"{n:,} {word}" for n, word in ((exact, "exact"), (total - exact, "compatible")) if n)
        every = f"all {total:,} {what} hold" if total > 1 else f"the only {what[:-1]} holds"
        text = f"{every} {code} ({how})"
    else:
        text = _shortfall(report, held, (total, native, jit))
    if excused := sum(module.excepted for module in held):
        text += f"; {excused:,} {'are' if excused > 1 else 'is'} excused by the policy"
    errors = [
        finding for findings in _all_findings(report) for finding in findings if finding.level == "error"
    ]
    if errors and native == total:
        more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
        text += f", but {errors[0].text}{more}"
    return text


def _shortfall(report: DeviceReport, held: Sequence[ModuleReport], numbers: tuple[int, int, int]) -> str:
    what, code = _what(report), f"machine code that {report.device} loads"
    total, native, jit = numbers
    if total == 1:
        how = "only runs by JIT" if jit else "does not run"
        return f"the only {what[:-1]} holds no {code}; it {how}{_all_of(held, 'jit' if jit else 'none')}"
    many = f"{native:,}" if native else "none"
    parts = [f"{many} of {total:,} {what} hold{'' if native > 1 else 's'} {code}"]
    if jit:
        parts.append(f"{jit:,} only run{'' if jit > 1 else 's'} by JIT{_all_of(held, 'jit')}")
    if rest := total - native - jit:
        parts.append(f"{rest:,} do{'' if rest > 1 else 'es'} not run{_all_of(held, 'none')}")
    return "; ".join(parts)


def _all_findings(report: DeviceReport) -> Iterator[Sequence[Finding]]:
    yield from (module.findings for module in report.modules)
    yield report.findings


def _what(report: DeviceReport) -> str:
    if not report.cubins.total:
        return "containers"
    return "containers and cubins" if any(module.counts.total for module in report.modules) else "cubins"


def _all_of(modules: Iterable[ModuleReport], verdict: str) -> str:
    names = [title(module.path) for module in modules if module.verdict == verdict and module.counts.total]
    return f" (all of {listed(names)})" if names else ""


def advice(spec: SpecReport, report: DeviceReport, recipes: Mapping[str, str]) -> str | None:
    """Say what to do about a wheel that falls short; None when nothing has to be done.

    Args:
        spec: the wheel.
        report: on one device.
        recipes: name of a distribution -> the recipe that builds it.
    """
    boxes = [box for module in report.modules if module.failed for box in module.short]
    boxes += [box for held in report.bare.values() for box in held if not box.native]
    if not report.failed or not boxes:
        return None
    wanted = [box.needs_isa for box in boxes if box.needs_isa is not None]
    if len(wanted) == len(boxes):
        arch = arch_for(report.device)
        return f"{newer_driver(max(wanted))}; or build it from source for {arch}"
    return "; ".join(_to_do(report, recipes.get(distribution(spec))))


def _to_do(report: DeviceReport, recipe: str | None) -> Iterator[str]:
    failed = [module for module in ordered(report.modules) if module.failed and module.short]
    cubins = [box for held in report.bare.values() for box in held]
    serving = [] if any(not box.native for box in cubins) else serving_siblings(report.modules, failed)
    if serving:
        which = f"{listed(serving, last='or')}, which serve{'' if len(serving) > 1 else 's'} {report.device}"
        yield f"see that what loads is {which}: {listed([title(one.path) for one in failed])} need not"
        return
    parts: list[tuple[str, str, Sequence[ContainerReport], str]] = [
        (title(one.path), "containers of ", one.containers, one.verdict) for one in failed
    ]
    if any(not box.native for box in cubins):
        parts.append(("the cubins outside containers", "of ", cubins, "partial"))
    arch = arch_for(report.device)
    usable, others = [], []
    chips: set[str] = set()
    for name, part, boxes, verdict in parts:
        fallen = [box for box in boxes if not box.native]
        alien = [box for box in fallen if foreign(box.arches, report.device)]
        chips.update(arch for box in alien for arch in box.arches)
        if alien:
            others.append(name if len(alien) == len(boxes) else f"{len(alien):,} {part}{name}")
        if len(alien) < len(fallen):
            usable.append(f"part of {name}" if verdict == "partial" else f"{name} ({verdict})")
    if recipe is not None:
        yield f"build it from source: sparkbuild {recipe} --arch {arch}"
    elif usable:
        what = "be replaced by something else"
        yield f"what you call of {listed(usable)} must come from a build for {arch}, or {what}"
    if others:
        head = "" if recipe is not None or usable else "replace what you call by something else: "
        why_not = f"written for the own instructions of {listed(sorted(chips, key=_number), _ARCHES)}"
        yield f"{head}{listed(others)}: {why_not}, usually cannot be built for {arch}"


def serving_siblings(modules: Iterable[ModuleReport], failed: Sequence[ModuleReport]) -> list[str]:
    """Return the modules that load instead of those that fail, when each of these has such a sibling.

    Siblings lie in one folder, and their names differ in versions only: `libx_cuda118.so`, `libx_cuda130.so`.
    A single digit is no version: `fa2` and `fa3` are two different things.
    """
    good = [module for module in modules if module.verdict == "native"]
    wanted = {_sibling(module.path) for module in failed}
    if not wanted <= {_sibling(module.path) for module in good}:
        return []
    return [title(module.path) for module in good if _sibling(module.path) in wanted]


def _sibling(path: str) -> str:
    """Return a path with `#` for each number of two or more digits in the name of the file."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + re.sub(r"\d{2,}", "#", name)


def arch_for(device: Device) -> str:
    """Return the arch to ask for to serve a device: `12.1a`; `8.6` where there is none with `a`."""
    own = Arch(device.major, device.minor, "a")
    return str(own if own in ARCHES else device)


def distribution(spec: SpecReport) -> str:
    """Return the name of the distribution that a SPEC is, as the index spells it; else what comes first."""
    name = spec.files[0].name if spec.files else spec.spec.rpartition("/")[2]
    first = re.split(r"==| ", name, maxsplit=1)[0]
    if first.endswith(".whl"):
        first = first.partition("-")[0]
    return re.sub(r"[-_.]+", "-", first).lower()


def why(boxes: Sequence[ContainerReport], *, every: bool = False) -> Iterator[tuple[Coverage, str]]:
    """Yield how the containers of one module run, and by which images: one sentence for each way.

    Args:
        boxes: all of them.
        every: do not cut what is long.
    """
    for how, names in served(boxes).items():
        if how != "jit":
            yield how, f"{sum(names.values()):,} {how}: {_counted(list(names.items()), every=every)}"
    for short in ("jit", "none"):
        fallen = [box for box in boxes if box.coverage == short]
        if fallen:
            told = [(_instead(arches, held[0]), len(held)) for arches, held in grouped(fallen)]
            yield short, f"{len(fallen):,} {short}: {_counted(told, every=every)}"


def _instead(arches: Sequence[str], box: ContainerReport) -> str:
    """Say what a container that falls short holds instead of SASS that loads."""
    if box.coverage == "jit":
        sass = [name for name in arches if name.startswith("sm_")]
        return f"PTX of {box.runs}, " + (f"SASS only for {listed(sass, _ARCHES)}" if sass else "no SASS")
    return f"only {listed(arches, _ARCHES)}" if arches else "nothing"


def _counted(told: Sequence[tuple[str, int]], *, every: bool) -> str:
    if len(told) == 1:
        return told[0][0]
    most = len(told) if every or len(told) <= _NAMED else _NAMED - 1
    parts = [f"{text} ({many:,})" for text, many in told[:most]]
    if rest := sum(many for _, many in told[most:]):
        parts.append(f"others ({rest:,})")
    return ("; " if any(", " in text for text, _ in told) else ", ").join(parts)


def held(module: ModuleReport, device: Device) -> list[str]:
    """Return the images of a module by arch, as `sm_90a (53)`: first those that load on the device.

    At the end comes what never is coverage.
    """
    images = [
        f"{name} ({many:,})"
        for found in module.images.values()
        for name, many in sorted(
            found.items(), key=lambda item: (not loads(item[0], device), _number(item[0]))
        )
    ]
    for what, more in (("to be linked first: ", module.relocatable), ("cubins: ", module.cubins)):
        told = [f"{name} ({many:,})" for name, many in more.items()]
        images += [f"{what}{told[0]}", *told[1:]] if told else []
    return images


def _number(arch: str) -> tuple[int, str]:
    """Sort `sm_90` before `sm_100`."""
    return int("".join(filter(str.isdecimal, arch)) or 0), arch


def kernels(facts: KernelFacts) -> str:
    """Say what was seen of a module's kernels."""
    parts = [many(facts.total, "kernel")]
    if facts.elsewhere_only:
        parts.append(f"{len(facts.elsewhere_only):,} only for other arches")
    if facts.hollow:
        parts.append(f"{len(facts.hollow):,} that do no work here")
    if facts.guarded:
        parts.append(f"{facts.guarded:,} that leave the work to variants")
    if facts.kernelless:
        parts.append(f"{many(facts.kernelless, 'container')} without any")
    return ", ".join(parts)


def many(number: int, what: str) -> str:
    """Return `1 kernel` or `1,200 kernels`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def changes(found: Sequence[Change]) -> str:
    """Say how much changed in one way."""
    kernels = sum(len(change.kernels) for change in found)
    return f"{many(kernels, 'kernel')} in {many(len(found), 'container')}"


def changed(module: ModuleChange) -> str:
    """Say what became of a module since the older wheel."""
    before, after = _short_counts(module.before), _short_counts(module.after)
    if module.new is None:
        return f"{module.old}: went ({before})"
    return f"{module.new}: came ({after})" if module.old is None else f"{module.new}: {before} -> {after}"


def _short_counts(counts: Counts) -> str:
    rest = [(counts.native, "native"), (counts.jit, "jit"), (counts.none, "none")]
    return ", ".join(f"{many:,} {word}" for many, word in rest if many) or "nothing"


def listed(names: Sequence[str], most: int = _NAMED, *, last: str = "and") -> str:
    """Return `a`, `a and b`, or `a, b and 3 more`; `last` is the word between the last two."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1:,} more"]
    return f" {last} ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
