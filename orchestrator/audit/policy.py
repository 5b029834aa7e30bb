"""What the modules of a wheel must be, and whether they are. Fails closed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from orchestrator.audit.coverage import Counts, Verdict, cover, cover_cubin, loadable
from orchestrator.audit.driver import newer_driver
from orchestrator.audit.facts import Container, FileFacts, Image, Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.globs import matches
from orchestrator.audit.shortfall import held_by, late_ptx, names, short_of, shortfall, suffix_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.audit.exceptions import Excused
    from orchestrator.audit.hollow import Hollow
    from orchestrator.model.archvalues import Device

Expect = Literal["native", "jit", "host", "not-applicable"]

_METADATA = re.compile(r"[^/]+\.dist-info/")
_FEW = 5
_LOADED = ("exact", "compatible")


@dataclass(frozen=True, slots=True)
class Exempt:
    """Containers that may fall short: those whose kernels all fit a pattern."""

    kernels: str
    """Glob on the whole name of a kernel, demangled or mangled; see `names.fits`."""
    reason: str
    devices: frozenset[Device] | None = None
    """Of several that are served, those on which it holds; None: all."""


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
    required: bool = True
    """Whether a file must match."""
    devices: frozenset[Device] | None = None
    """Of several that are served, those on which it holds; None: all."""


def expectation_of(path: str, policy: Sequence[Expectation], device: Device) -> Expectation | None:
    """Return the first entry that matches, as it holds on a device.

    What is expected on other devices that are served, and not on this one, is not applicable here.
    """
    found = [entry for entry in policy if matches(entry.match, path)]
    entry = next((each for each in found if each.devices is None or device in each.devices), None)
    if entry is None:
        return Expectation(found[0].match, "not-applicable", "for other devices") if found else None
    kept = tuple(each for each in entry.exceptions if each.devices is None or device in each.devices)
    return entry if kept == entry.exceptions else replace(entry, exceptions=kept)


def excepted(
    facts: FileFacts,
    counts: Counts,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation | None,
    excused: Excused,
    hollow: Hollow | None = None,
) -> int:
    """Return how many containers load no SASS, or are hollow, and are excused by the policy.

    Args:
        facts: the file.
        counts: the coverage of its containers.
        device: the device to serve.
        ptx_isa: the newest PTX ISA that the driver compiles; None: any.
        expectation: the entry for the file.
        excused: what the entry's exceptions do.
        hollow: what does no work, already pardoned; None when that was not looked for.
    """
    if expectation is None or expectation.expect == "host":
        return 0
    if expectation.expect == "not-applicable":
        return counts.jit + counts.none
    found = set(excused.boxes)
    if hollow is not None:
        found.update(unit.box.offset for unit in hollow.excused_units)
    if expectation.expect == "jit":
        found.update(box.offset for box in loadable(facts) if cover(box.images, device, ptx_isa) == "jit")
    return len(found)


def check_unasked(
    facts: FileFacts, counts: Counts, *, device: Device, ptx_isa: tuple[int, int] | None
) -> list[Finding]:
    """Judge one module of a wheel without a policy: all that is meant to be loaded must load as SASS."""
    if counts.native < counts.total:
        short = short_of(facts, device, ptx_isa)
        return [Finding("error", "not-native", shortfall(short, counts.total, device, ptx_isa))]
    if facts.containers and not counts.total:
        linked_later = facts.kind == "archive" or facts.path.endswith(".o")
        text = f"holds only what must be linked first: {held_by(facts)}"
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
        expectation = expectation_of(file.path, policy, device) if policy is not None else None
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
            told = [f"{text}; the first is {bad[0][0]}"]
            if code == "bare-cubins":
                told += suffix_reasons((image for _, image in bad), device)
            findings.append(Finding("error", code, "; ".join(told)))
    return findings


def check_module(
    facts: FileFacts,
    verdict: Verdict,
    counts: Counts,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation | None,
    excused: Excused,
    others: Sequence[Device] = (),
) -> list[Finding]:
    """Judge one module of a wheel that has a policy; `others` are served too."""
    expect = None if expectation is None else expectation.expect
    if verdict == "host":
        text = f"should be {expect}, but holds no device code"
        return [Finding("error", "no-device-code", text)] if expect in ("native", "jit") else []
    if expectation is None:
        text = f"holds device code ({held_by(facts)}), and no pattern of the policy names it"
        return [Finding("error", "unlisted-module", text)]
    if expect == "host":
        return [
            Finding("error", "unexpected-device-code", f"should be host-only, but holds {held_by(facts)}")
        ]
    if expect == "not-applicable":
        return []
    if facts.containers and not counts.total:
        text = f"should be {expect}, but holds nothing that loads, only {held_by(facts)}"
        return [Finding("error", "not-loadable", text)]
    return _fallen_short(
        short_of(facts, device, ptx_isa, allow_jit=expect == "jit"),
        counts.total,
        device=device,
        ptx_isa=ptx_isa,
        expectation=expectation,
        excused=excused,
        # a module that must be there must hold something for each device; what else there is, for one
        others=others if counts.native or not expectation.required else (),
    )


def _fallen_short(
    short: Sequence[Container],
    total: int,
    *,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    expectation: Expectation,
    excused: Excused,
    others: Sequence[Device],
) -> list[Finding]:
    findings = list(excused.findings)
    bad = [box for box in short if box.offset not in excused.boxes]
    # One wheel for several families: a unit of kernels that only another has is not this one's fault.
    theirs = [box for box in bad if any(cover(box.images, other) in _LOADED for other in others)]
    if theirs:
        which = "1 container serves" if len(theirs) == 1 else f"{len(theirs):,} containers serve"
        text = f"{which} only other devices that were asked for: {names(i for b in theirs for i in b.images)}"
        findings.append(Finding("warning", "for-other-devices", text))
        bad = [box for box in bad if box not in theirs]
    if bad:
        jit = expectation.expect == "jit"
        text = shortfall(bad, total, device, ptx_isa, allow_jit=jit)
        findings.append(Finding("error", "not-jit" if jit else "not-native", text))
    kept = (box for box in short if box.offset in excused.boxes)
    late = [isa for box in kept if (isa := late_ptx(box, device, ptx_isa)) is not None]
    if late:
        which = "1 excused container does" if len(late) == 1 else f"{len(late):,} excused containers do"
        text = f"{which} not even run by JIT: {newer_driver(max(late))}"
        findings.append(Finding("warning", "ptx-newer-than-driver", text))
    return findings


def check_patterns(
    policy: Iterable[Expectation], *, files: Iterable[str], modules: Iterable[str]
) -> list[Finding]:
    """Find required patterns that match nothing: what should be in the wheel and is not.

    Args:
        policy: the entries.
        files: all paths of the wheel; `host` and `not-applicable` entries may match any of them.
        modules: those that can hold device code; other entries must match one of these.
    """
    files, modules = tuple(files), tuple(modules)
    findings = []
    for entry in policy:
        if not entry.required:
            continue
        among = modules if entry.expect in ("native", "jit") else files
        if not any(matches(entry.match, path) for path in among):
            text = f"no {'module' if among is modules else 'file'} matches {entry.match!r} ({entry.expect})"
            findings.append(Finding("error", "missing-module", text))
    return findings


def check_listed(files: Iterable[str], only: Sequence[str]) -> list[Finding]:
    """Find files that no glob of `only` fits. Folders, and what `*.dist-info` holds, need not be listed."""
    held = (path for path in files if not path.endswith("/"))
    extra = [
        path
        for path in held
        if not _METADATA.match(path) and not any(matches(pattern, path) for pattern in only)
    ]
    if not extra:
        return []
    told = ", ".join(extra[:_FEW]) + (f" and {len(extra) - _FEW:,} more" if len(extra) > _FEW else "")
    which = "1 file fits" if len(extra) == 1 else f"{len(extra):,} files fit"
    return [Finding("error", "unlisted-file", f"{which} no pattern of the files that it may hold: {told}")]


def check_requested(facts: Sequence[FileFacts], requested: frozenset[str]) -> dict[str, list[Finding]]:
    """Find images that nobody asked for, by path; and under the empty path what was asked for and is nowhere.

    What nobody asked for took its time to compile, in each container that holds it.

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
            boxes = loadable(file)
            many = sum(any(image in extra for image in box.images) for box in boxes)
            text = f"{many:,} of {len(boxes):,} containers hold what was not asked for: {names(extra)}"
            found[file.path] = [Finding("warning", "extra-arch", text)]
    cubins = [image for file in facts for image in file.cubins]
    extra = [image for image in cubins if image.name not in requested]
    if extra:
        text = (
            f"{len(extra):,} of {len(cubins):,} cubins outside containers were not asked for: {names(extra)}"
        )
        found[""] = [Finding("warning", "extra-arch", text)]
    missing = sorted(requested - seen)
    if missing and any(file.has_device_code for file in facts):
        text = f"asked for, and in no module: {', '.join(missing)}"
        found.setdefault("", []).append(Finding("warning", "arch-not-found", text))
    return found
