"""How containers run on a device, and what that makes of a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orchestrator.audit.facts import Container, FileFacts, Image, Kind
from orchestrator.model.archvalues import Device, jits_ptx, loads_sass

if TYPE_CHECKING:
    from collections.abc import Iterable

Coverage = Literal["exact", "compatible", "jit", "none"]
Verdict = Literal["native", "partial", "jit", "none", "host"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many containers (or bare cubins) run in which way."""

    exact: int = 0
    compatible: int = 0
    jit: int = 0
    none: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.exact + self.compatible + self.jit + self.none

    @property
    def native(self) -> int:
        """Those with SASS that loads."""
        return self.exact + self.compatible

    def to_json(self) -> dict[str, int]:
        """Return total, exact, compatible, jit, none."""
        return {
            "total": self.total,
            "exact": self.exact,
            "compatible": self.compatible,
            "jit": self.jit,
            "none": self.none,
        }


def cover(images: Iterable[Image], device: Device, ptx_isa: tuple[int, int] | None = None) -> Coverage:
    """Say how one container with these images runs on `device`: the best that any of them offers.

    Args:
        images: what the container holds.
        device: the device to serve.
        ptx_isa: the newest PTX ISA that the driver compiles; None: any.
    """
    best: Coverage = "none"
    for image in images:
        if image.kind is Kind.SASS:
            loads = loads_sass(image.arch, device)
            if loads == "exact":
                return "exact"
            best = loads or best
        elif image.kind is Kind.PTX and best == "none" and jits(image, device, ptx_isa):
            best = "jit"
    return best


def jits(image: Image, device: Device, ptx_isa: tuple[int, int] | None = None) -> bool:
    """Say whether a driver that knows PTX up to `ptx_isa` can compile a PTX image for `device`."""
    if ptx_isa is not None and image.isa is not None and image.isa > ptx_isa:
        return False
    return jits_ptx(image.arch, device)


def choose(box: Container, device: Device, ptx_isa: tuple[int, int] | None = None) -> int | None:
    """Return the index of the image that a driver takes on `device`; None when none runs.

    SASS before PTX, and of several the highest arch; one for a single chip before one for a family.
    """
    best: tuple[bool, int, int] | None = None
    found = None
    for index, image in enumerate(box.images):
        if image.kind is Kind.SASS:
            runs = loads_sass(image.arch, device) is not None
        else:
            runs = image.kind is Kind.PTX and jits(image, device, ptx_isa)
        rank = (image.kind is Kind.SASS, image.sm, ("", "f", "a").index(image.suffix))
        if runs and (best is None or rank > best):
            best, found = rank, index
    return found


def cover_cubin(image: Image, device: Device) -> Coverage:
    """Say how a cubin outside any fatbin runs on `device`; one that must be linked first does not."""
    return "none" if image.linkable else cover((image,), device)


def count(coverages: Iterable[Coverage]) -> Counts:
    """Count coverages."""
    found = Counter(coverages)
    return Counts(found["exact"], found["compatible"], found["jit"], found["none"])


def loadable(facts: FileFacts) -> tuple[Container, ...]:
    """Return the containers that the runtime is meant to load."""
    return tuple(container for container in facts.containers if not container.relocatable)


def judge(facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None = None) -> tuple[Verdict, Counts]:
    """Return the verdict on a file, and the coverage of its containers.

    Cubins outside containers are judged with the whole wheel, not here; a file that holds only these, or
    only what must be linked first, is `none`. What could not be read counts as something that falls short.
    """
    counts = count(cover(container.images, device, ptx_isa) for container in loadable(facts))
    if not facts.has_device_code:
        return "host", counts
    if counts.total and counts.native == counts.total and not facts.unread:
        return "native", counts
    if counts.native:
        return "partial", counts
    return ("jit" if counts.jit else "none"), counts
