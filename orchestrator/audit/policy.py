"""What the modules of a wheel must be, and whether they are. Fails closed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.audit.coverage import Counts, Verdict, cover, cover_cubin, loadable
from orchestrator.audit.facts import Container, FileFacts, Image, Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.globs import matches
from orchestrator.audit.names import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.model.archvalues import Device

Expect = Literal["native", "jit", "host", "not-applicable"]


@dataclass(frozen=True, slots=True)
class Exempt:
    """Containers that may fall short: those whose kernels all fit a pattern."""

    kernels: str
    """Glob on the whole name of a kernel, demangled or mangled; see `names.fits`."""
    reason: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What files that match must be on the device that is served.

    `native`: every container loads SASS. `jit`: every container runs, by SASS or PTX. `host`: no device
    code. `not-applicable`: whatever it holds is meant for other devices.
    """

    match: str
    """Glob on the path inside the wheel; see `globs.matches`. Of several that match, the first holds."""
    expect: Expect
    reason: str | None = None
    exceptions: tuple[Exempt, ...] = ()


def expectation_of(path: str, policy: Sequence[Expectation]) -> Expectation | None:
    """Return the first entry that matches."""
    return next((entry for entry in policy if matches(entry.match, path)), None)


def excuse(box: Container, expectation: Expectation | None) -> Exempt | None:
    """Return the exception that covers a container: all its kernels fit patterns; the first one's is told.

    A container whose kernels are not known, or that has none, is never excused.
    """
    if expectation is None or not expectation.exceptions:
        return None
    names = {kernel.name for code in box.codes if code is not None for kernel in code.kernels}
    found = [next((one for one in expectation.exceptions if fits(one.kernels, name)), None) for name in names]
    return found[0] if found and None not in found else None


def excepted(
    facts: FileFacts,
    counts: Counts,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation | None,
) -> int:
    """Return how many containers do not load SASS and are excused."""
    match expectation:
        case Expectation(expect="not-applicable"):
            return counts.jit + counts.none
        case Expectation(expect="jit" | "native" as expect, exceptions=exceptions):
            excused = (
                [box for box in _short(facts, device, ptx_isa, "native") if excuse(box, expectation)]
                if exceptions
                else []
            )
            if expect == "native":
                return len(excused)
            return counts.jit + sum(cover(box.images, device, ptx_isa) == "none" for box in excused)
        case _:
            return 0


def check_unasked(
    facts: FileFacts, counts: Counts, *, device: Device, ptx_isa: tuple[int, int] | None
) -> list[Finding]:
    """Judge one module of a wheel without a policy: all that is meant to be loaded must load as SASS."""
    if counts.native < counts.total:
        short = _short(facts, device, ptx_isa, "native")
        return [Finding("error", "not-native", shortfall(short, counts.total, device, ptx_isa))]
    if facts.containers and not counts.total:
        linked_later = facts.kind == "archive" or facts.path.endswith(".o")
        text = f"holds only what must be linked first: {_held(facts)}"
        return [Finding("warning" if linked_later else "error", "not-loadable", text)]
    return []


def check_bare(
    facts: Sequence[FileFacts], device: Device, policy: Sequence[Expectation] | None
) -> list[Finding]:
    """Judge the cubins that lie outside containers, each by itself.

    Which of them belong together is not told by their headers. So without a policy each must load.
    """
    groups: dict[Expectation | None, list[tuple[str, Image]]] = {}
    for file in facts:
        expectation = expectation_of(file.path, policy) if policy is not None else None
        groups.setdefault(expectation, []).extend((file.path, image) for image in file.cubins)
    findings = []
    for expectation, held in groups.items():
        short = [(path, image) for path, image in held if cover_cubin(image, device) == "none"]
        if policy is None or (expectation is not None and expectation.expect in ("native", "jit")):
            code, bad, what = "bare-cubins", short, f"do not load on {device}"
        elif expectation is None:
            code, bad, what = "unlisted-module", held, "are not named by any pattern of the policy"
        elif expectation.expect == "host":
            code, bad, what = (
                "unexpected-device-code",
                held,
                f"match {expectation.match!r}, which should be host-only",
            )
        else:
            continue
        if bad:
            text = (
                f"{len(bad):,} of {len(held):,} cubins outside containers {what}: {names(i for _, i in bad)}"
            )
            findings.append(Finding("error", code, f"{text}; the first is {bad[0][0]}"))
    return findings


def check_module(
    facts: FileFacts,
    verdict: Verdict,
    counts: Counts,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation | None,
) -> list[Finding]:
    """Judge one module of a wheel that has a policy."""
    if verdict == "host":
        if expectation is None or expectation.expect not in ("native", "jit"):
            return []
        return [
            Finding("error", "no-device-code", f"should be {expectation.expect}, but holds no device code")
        ]
    if expectation is None:
        text = f"holds device code ({_held(facts)}), and no pattern of the policy names it"
        return [Finding("error", "unlisted-module", text)]
    expect = expectation.expect
    if expect == "host":
        return [Finding("error", "unexpected-device-code", f"should be host-only, but holds {_held(facts)}")]
    if expect == "not-applicable":
        return []
    if facts.containers and not counts.total:
        text = f"should be {expect}, but holds nothing that loads, only {_held(facts)}"
        return [Finding("error", "not-loadable", text)]
    return _fallen_short(facts, counts, device=device, ptx_isa=ptx_isa, expectation=expectation)


def _fallen_short(
    facts: FileFacts,
    counts: Counts,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation,
) -> list[Finding]:
    expect = expectation.expect
    short = _short(facts, device, ptx_isa, expect)
    bad = [box for box in short if not excuse(box, expectation)]
    findings = _unused(short, expectation)
    if bad:
        text = shortfall(bad, counts.total, device, ptx_isa, allow_jit=expect == "jit")
        findings.append(Finding("error", "not-jit" if expect == "jit" else "not-native", text))
    return findings


def _unused(short: Sequence[Container], expectation: Expectation) -> list[Finding]:
    """Tell of exceptions that excuse nothing: they would hide a fault that comes later."""
    used = {excuse(box, expectation) for box in short}
    return [
        Finding("warning", "unused-exception", f"the exception for kernels {one.kernels!r} excuses nothing")
        for one in expectation.exceptions
        if one not in used
    ]


def _short(
    facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None, expect: Expect
) -> list[Container]:
    """Return the containers that do not run in the expected way."""
    good = ("exact", "compatible", "jit") if expect == "jit" else ("exact", "compatible")
    return [box for box in loadable(facts) if cover(box.images, device, ptx_isa) not in good]


def shortfall(
    short: Sequence[Container],
    total: int,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    *,
    allow_jit: bool = False,
) -> str:
    """Say how many of `total` containers fall short on `device`, and what they hold instead."""
    jit = sum(cover(box.images, device, ptx_isa) == "jit" for box in short)
    held = names(image for box in short for image in box.images)
    how = f" ({jit:,} run by JIT, {len(short) - jit:,} not at all)" if jit else ""
    verb = "runs" if allow_jit else "has SASS"
    if len(short) == total:
        head = f"none of {total:,} containers {verb} for {device}{how}"
    else:
        head = f"{len(short):,} of {total:,} containers fall short on {device}{how}"
    return f"{head}; they hold {held}"


def check_patterns(
    policy: Iterable[Expectation], *, files: Iterable[str], modules: Iterable[str]
) -> list[Finding]:
    """Find patterns that match nothing: what should be in the wheel and is not.

    Args:
        policy: the entries.
        files: all paths of the wheel; `host` and `not-applicable` entries may match any of them.
        modules: those that can hold device code; other entries must match one of these.
    """
    files, modules = tuple(files), tuple(modules)
    findings = []
    for entry in policy:
        among = modules if entry.expect in ("native", "jit") else files
        if not any(matches(entry.match, path) for path in among):
            text = f"no {'module' if among is modules else 'file'} matches {entry.match!r} ({entry.expect})"
            findings.append(Finding("error", "missing-module", text))
    return findings


def check_requested(facts: Sequence[FileFacts], requested: frozenset[str]) -> dict[str, list[Finding]]:
    """Find images that nobody asked for, by path; and under the empty path what was asked for and is nowhere.

    Args:
        facts: the files.
        requested: names of images, such as `sm_121a` and `compute_121a`.
    """
    found: dict[str, list[Finding]] = {}
    seen: set[str] = set()
    for file in facts:
        held = [
            image for box in loadable(file) for image in box.images if image.kind in (Kind.SASS, Kind.PTX)
        ]
        seen.update(image.name for image in held)
        seen.update(image.name for image in file.cubins)
        extra = [image for image in held if image.name not in requested]
        if extra:
            text = f"holds what was not asked for: {names(extra)}"
            found[file.path] = [Finding("warning", "extra-arch", text)]
    missing = sorted(requested - seen)
    if missing and any(file.has_device_code for file in facts):
        found[""] = [
            Finding("warning", "arch-not-found", f"asked for, and in no module: {', '.join(missing)}")
        ]
    return found


def names(images: Iterable[Image], *, most: int = 6) -> str:
    """List images with how many there are of each: `sm_80 (3), compute_80 (2)`."""
    counted = Counter(image.name for image in images)
    listed = [
        f"{name} ({many:,})" for name, many in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    if len(listed) > most:
        listed[most:] = [f"{len(listed) - most} more"]
    return ", ".join(listed) or "nothing"


def _held(facts: FileFacts) -> str:
    return names([*(image for box in facts.containers for image in box.images), *facts.cubins])
