"""What the modules of a wheel must be, and whether they are. Fails closed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.audit.coverage import Counts, Verdict, cover, cover_cubin, loadable
from orchestrator.audit.facts import FileFacts, Image, Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.globs import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.model.archvalues import Device

Expect = Literal["native", "jit", "host", "not-applicable"]


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


def expectation_of(path: str, policy: Sequence[Expectation]) -> Expectation | None:
    """Return the first entry that matches."""
    return next((entry for entry in policy if matches(entry.match, path)), None)


def excepted(expectation: Expectation | None, counts: Counts) -> int:
    """Return how many containers do not load SASS and are excused."""
    match expectation:
        case Expectation(expect="not-applicable"):
            return counts.jit + counts.none
        case Expectation(expect="jit"):
            return counts.jit
        case _:
            return 0


def check_unasked(facts: FileFacts, counts: Counts, device: Device) -> list[Finding]:
    """Judge one module of a wheel without a policy: all that is meant to be loaded must load as SASS."""
    if counts.native < counts.total:
        return [Finding("error", "not-native", shortfall(facts, counts, device))]
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
    facts: FileFacts, verdict: Verdict, counts: Counts, *, device: Device, expectation: Expectation | None
) -> list[Finding]:
    """Judge one module of a wheel that has a policy."""
    if verdict == "host":
        if expectation is None or expectation.expect not in ("native", "jit"):
            return []
        return [
            Finding("error", "no-device-code", f"should be {expectation.expect}, but holds no device code")
        ]
    match expectation:
        case None:
            text = f"holds device code ({_held(facts)}), and no pattern of the policy names it"
            return [Finding("error", "unlisted-module", text)]
        case Expectation(expect="not-applicable"):
            return []
        case Expectation(expect="host"):
            return [
                Finding("error", "unexpected-device-code", f"should be host-only, but holds {_held(facts)}")
            ]
    return _short(facts, counts, device, expectation.expect)


def _short(facts: FileFacts, counts: Counts, device: Device, expect: Expect) -> list[Finding]:
    if facts.containers and not counts.total:
        text = f"should be {expect}, but holds nothing that loads, only {_held(facts)}"
        return [Finding("error", "not-loadable", text)]
    allow_jit = expect == "jit"
    if counts.none + (0 if allow_jit else counts.jit):
        code = "not-jit" if allow_jit else "not-native"
        return [Finding("error", code, shortfall(facts, counts, device, allow_jit=allow_jit))]
    return []


def shortfall(facts: FileFacts, counts: Counts, device: Device, *, allow_jit: bool = False) -> str:
    """Say how many containers fall short on `device`, and what they hold instead."""
    good = ("exact", "compatible", "jit") if allow_jit else ("exact", "compatible")
    short = [box for box in loadable(facts) if cover(box.images, device) not in good]
    held = names(image for box in short for image in box.images)
    how = "" if allow_jit or not counts.jit else f" ({counts.jit:,} run by JIT, {counts.none:,} not at all)"
    verb = "runs" if allow_jit else "has SASS"
    if len(short) == counts.total:
        head = f"none of {counts.total:,} containers {verb} for {device}{how}"
    else:
        head = f"{len(short):,} of {counts.total:,} containers fall short on {device}{how}"
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
