"""Each container, and each cubin outside one, as a device sees it: what runs there, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.audit.coverage import Coverage, choose, cover, cover_cubin, loadable
from orchestrator.audit.facts import Kind
from orchestrator.audit.shortfall import late_ptx

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.audit.facts import Code, FileFacts, Image
    from orchestrator.model.archvalues import Device


@dataclass(frozen=True, slots=True)
class ContainerReport:
    """One container, or one cubin outside any, judged for one device."""

    offset: int | None
    """Bytes from the start of the file; None for a cubin outside containers."""
    coverage: Coverage
    arches: tuple[str, ...]
    """Names of its images, each once: SASS first, then by number."""
    runs: str | None = None
    """The image that the driver takes; None when none runs."""
    kernels: frozenset[str] | None = None
    """Kernels of all its images, mangled; None when they were not read."""
    missing: frozenset[str] = frozenset()
    """Kernels that the image that runs lacks, and another has."""
    needs_isa: tuple[int, int] | None = None
    """It would run by JIT, but on a driver that knows PTX up to this."""

    @property
    def native(self) -> bool:
        """Whether it has SASS that loads."""
        return self.coverage in ("exact", "compatible")

    def coverage_of(self, kernel: str) -> Coverage:
        """Say how one of its kernels runs."""
        return "none" if kernel in self.missing else self.coverage

    def to_json(self) -> dict[str, Any]:
        """Return the container's part of the audit JSON."""
        return {
            "offset": self.offset,
            "coverage": self.coverage,
            "arches": list(self.arches),
            "runs": self.runs,
            "needs_ptx_isa": None if self.needs_isa is None else "{}.{}".format(*self.needs_isa),
            "kernels": None if self.kernels is None else sorted(self.kernels),
        }


def report_containers(
    facts: FileFacts, device: Device, ptx_isa: tuple[int, int] | None = None
) -> tuple[ContainerReport, ...]:
    """Judge the containers of a file that the runtime is meant to load, in their order.

    Args:
        facts: the file.
        device: the device to serve.
        ptx_isa: the newest PTX ISA that the driver compiles; None: any.
    """
    found = []
    for box in loadable(facts):
        taken = choose(box, device, ptx_isa)
        coverage = cover(box.images, device, ptx_isa)
        kernels = _kernels(box.codes)
        code = box.codes[taken] if taken is not None and box.codes else None
        missing = kernels - {kernel.name for kernel in code.kernels} if kernels and code else frozenset()
        found.append(
            ContainerReport(
                box.offset,
                coverage,
                _arches(box.images),
                runs=None if taken is None else box.images[taken].name,
                kernels=kernels,
                missing=missing,
                needs_isa=late_ptx(box, device, ptx_isa),
            )
        )
    return tuple(found)


def report_cubins(facts: FileFacts, device: Device) -> tuple[ContainerReport, ...]:
    """Judge the cubins of a file that lie outside containers, each by itself."""
    codes = facts.cubin_codes or (None,) * len(facts.cubins)
    found = []
    for image, code in zip(facts.cubins, codes, strict=True):
        coverage = cover_cubin(image, device)
        runs = None if coverage == "none" else image.name
        found.append(ContainerReport(None, coverage, (image.name,), runs=runs, kernels=_kernels((code,))))
    return tuple(found)


def served(containers: Iterable[ContainerReport]) -> dict[Coverage, dict[str, int]]:
    """Return what runs: `exact`, `compatible`, `jit` -> name of the image -> how many containers."""
    found: dict[Coverage, Counter[str]] = {"exact": Counter(), "compatible": Counter(), "jit": Counter()}
    for box in containers:
        if box.runs is not None:
            found[box.coverage][box.runs] += 1
    return {how: dict(counted.most_common()) for how, counted in found.items() if counted}


def grouped(
    containers: Iterable[ContainerReport],
) -> list[tuple[tuple[str, ...], tuple[ContainerReport, ...]]]:
    """Return the containers by the set of arches that they hold, the largest group first."""
    groups: dict[tuple[str, ...], list[ContainerReport]] = {}
    for box in containers:
        groups.setdefault(box.arches, []).append(box)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(arches, tuple(boxes)) for arches, boxes in ordered]


def _kernels(codes: Sequence[Code | None]) -> frozenset[str] | None:
    """Return the kernels of all images; None when not a single image was read."""
    read = [code for code in codes if code is not None]
    return frozenset(kernel.name for code in read for kernel in code.kernels) if read else None


def _arches(images: Iterable[Image]) -> tuple[str, ...]:
    ordered = sorted(images, key=lambda image: (image.kind is not Kind.SASS, image.sm, image.suffix))
    return tuple(dict.fromkeys(image.name for image in ordered))
