"""What the kernels of a module tell: which are there only for other arches, and which do no work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.hollow import Hollow


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The kernels of one module, seen from a device. Names are mangled."""

    total: int
    """Different kernels in containers that the runtime is meant to load."""
    kernelless: int
    """Containers without any kernel, such as the stubs of a device link."""
    elsewhere_only: tuple[str, ...]
    """Kernels that no image which runs on the device has, sorted."""
    hollow: tuple[str, ...] | None = None
    """Kernels that do no work on the device, nor does any variant of them; None when not looked for."""
    guarded: int | None = None
    """How many do no work on the device, but a variant of them does; None when not looked for."""

    def to_json(self) -> dict[str, Any]:
        """Return the module's `kernels` in the audit JSON."""
        return {
            "total": self.total,
            "kernelless": self.kernelless,
            "elsewhere_only": list(self.elsewhere_only),
            "hollow": None if self.hollow is None else list(self.hollow),
            "guarded": self.guarded,
        }


def kernel_facts(containers: Iterable[ContainerReport], hollow: Hollow | None = None) -> KernelFacts | None:
    """Sum up the kernels of a module's containers; None when there are none, or none could be read.

    Args:
        containers: those that the runtime is meant to load.
        hollow: what does no work on the device, if that was looked for.
    """
    read = [box for box in containers if box.kernels is not None]
    if not read:
        return None
    every: set[str] = set()
    here: set[str] = set()
    for box in read:
        every |= box.kernels or set()
        if box.runs is not None:
            here |= (box.kernels or set()) - box.missing
    return KernelFacts(
        total=len(every),
        kernelless=sum(not box.kernels for box in read),
        elsewhere_only=tuple(sorted(every - here)),
        hollow=None if hollow is None else tuple(sorted({kernel.name for kernel in hollow.faults})),
        guarded=None if hollow is None else len({kernel.name for kernel in hollow.guarded}),
    )
