"""Which containers of a file fall short on a device, and the words for what they hold instead."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from orchestrator.audit.coverage import cover, loadable
from orchestrator.audit.driver import newer_driver
from orchestrator.audit.facts import Kind
from orchestrator.model.archvalues import ARCHES, Arch, in_family, jits_ptx, loads_sass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from orchestrator.audit.facts import Container, FileFacts, Image
    from orchestrator.model.archvalues import Device, Suffix

_DEFAULTS = {52: "11 and 12", 75: "13"}
"""What nvcc compiles for when no arch is said, and its major versions: its manual, `--gpu-architecture`."""
_ARCH = re.compile(r"(?:sm|compute)_(\d+)([af]?)")


def short_of(
    facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None, *, allow_jit: bool = False
) -> list[Container]:
    """Return the containers that load no SASS; with `allow_jit`, those that do not run at all."""
    good = ("exact", "compatible", "jit") if allow_jit else ("exact", "compatible")
    return [box for box in loadable(facts) if cover(box.images, device, ptx_isa) not in good]


def shortfall(
    short: Sequence[Container],
    total: int,
    device: Device,
    ptx_isa: tuple[int, int] | None,
    *,
    allow_jit: bool = False,
) -> str:
    """Say how many of `total` containers fall short on `device`, what they hold instead, and why that is."""
    jit = sum(cover(box.images, device, ptx_isa) == "jit" for box in short)
    held = names(image for box in short for image in box.images)
    how = f" ({jit:,} run by JIT, {len(short) - jit:,} not at all)" if jit else ""
    if total == 1:
        verb = "does not run" if allow_jit else "has no SASS"
        head = f"the only container {verb} for {device}{', but runs by JIT' if jit else ''}"
    elif len(short) == total:
        head = f"none of {total:,} containers {'runs' if allow_jit else 'has SASS'} for {device}{how}"
    else:
        head = f"{len(short):,} of {total:,} containers fall short on {device}{how}"
    holds = "it holds" if total == 1 else "they hold"
    return "; ".join((f"{head}; {holds} {held}", *reasons(short, device, ptx_isa)))


def reasons(short: Sequence[Container], device: Device, ptx_isa: tuple[int, int] | None) -> Iterator[str]:
    """Yield what is known to lead to such containers, and what to do."""
    for sm, versions in _DEFAULTS.items():
        many = sum(_holds_only(box, sm) for box in short)
        if many:
            which = _so_many(many, len(short))
            yield f"{which} sm_{sm} only, the default of nvcc {versions} when no arch is set"
    yield from suffix_reasons((image for box in short for image in box.images), device)
    if short and all(image.kind is Kind.PTX for box in short for image in box.images):
        yield "that is PTX only, which the driver has to compile when it is first used"
    late = [isa for box in short if (isa := late_ptx(box, device, ptx_isa)) is not None]
    if late:
        which = "" if len(late) == len(short) else f"{len(late):,} of them: "
        yield f"{which}{newer_driver(max(late))}"


def suffix_reasons(images: Iterable[Image], device: Device) -> Iterator[str]:
    """Yield where images run that were compiled for one other chip: `sm_120a` looks right for 12.1."""
    for image in sorted(set(images), key=lambda image: (image.sm, image.kind.value)):
        arch = image.arch
        if image.suffix != "a" or image.kind not in (Kind.SASS, Kind.PTX) or arch.device == device:
            continue
        verb = "loads" if image.kind is Kind.SASS else "is compiled by the driver"
        if arch.major == device.major:
            better = [Arch(arch.major, arch.minor, "f")] if in_family(arch, device) else []
            better.append(Arch(device.major, device.minor, "a"))
            told = " or ".join(str(each) for each in better if each in ARCHES)
            yield f"{image.name} {verb} on {arch.device} only" + (f": build for {told}" if told else "")
        elif image.kind is Kind.PTX and jits_ptx(Arch(arch.major, arch.minor), device):
            yield f"{image.name} {verb} on {arch.device} only, unlike {image.name.removesuffix('a')}"


def foreign(arches: Sequence[str], device: Device) -> bool:
    """Say whether code is only for `a` and `f` arches of other majors than the device's.

    Args:
        arches: names of images, such as `sm_90a` and `compute_100f`.
        device: the device to serve.

    Such code uses instructions that other chips do not have (PTX ISA, `.target`: wgmma of sm_90a, tcgen05 of
    sm_100f): as a rule it cannot be built for the device.
    """
    known = [_ARCH.fullmatch(name) for name in arches]
    return bool(known) and all(
        found is not None and found[2] and _major(int(found[1])) != device.major for found in known
    )


def loads(name: str, device: Device) -> bool:
    """Say whether an image of this name is SASS that loads on the device."""
    found = _ARCH.fullmatch(name)
    if found is None or not name.startswith("sm_"):
        return False
    suffix: Suffix = "a" if found[2] == "a" else "f" if found[2] else ""
    return loads_sass(Arch.from_sm(int(found[1]), suffix), device) is not None


def _major(sm: int) -> int:
    return 11 if sm == 101 else sm // 10  # noqa: PLR2004 - CUDA 13 calls sm_101 sm_110


def late_ptx(box: Container, device: Device, ptx_isa: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the PTX ISA that a driver must know to run a container by JIT, when only that is missing."""
    if cover(box.images, device, ptx_isa) != "none" or cover(box.images, device) != "jit":
        return None
    needed = (image.isa for image in box.images if image.kind is Kind.PTX and jits_ptx(image.arch, device))
    return min((isa for isa in needed if isa is not None), default=None)


def names(images: Iterable[Image], *, most: int = 6) -> str:
    """List images with how many there are of each: `sm_80 (3), compute_80 (2)`."""
    counted = Counter(image.name for image in images)
    listed = [
        f"{name} ({many:,})" for name, many in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    if len(listed) > most:
        listed[most:] = [f"{len(listed) - most} more"]
    return ", ".join(listed) or "nothing"


def held_by(facts: FileFacts) -> str:
    """List all images of a file."""
    return names([*(image for box in facts.containers for image in box.images), *facts.cubins])


def _holds_only(box: Container, sm: int) -> bool:
    return any(image.kind is Kind.SASS for image in box.images) and all(
        image.kind in (Kind.SASS, Kind.PTX) and (image.sm, image.suffix) == (sm, "") for image in box.images
    )


def _so_many(many: int, total: int) -> str:
    return "that is" if many == total else f"{many:,} of them hold{'s' if many == 1 else ''}"
