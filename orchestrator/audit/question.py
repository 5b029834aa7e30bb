"""What an audit is asked: which devices, by which policy, how deep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.policy import Expectation
    from orchestrator.model.archvalues import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, put to any number of wheels."""

    devices: tuple[Device, ...]
    """The devices to serve, at least one."""
    policy: tuple[Expectation, ...] | None = None
    """What the modules must be; None for a stranger's wheel: then all device code must be SASS that loads."""
    only: tuple[str, ...] | None = None
    """Globs of all that the wheel may hold; None: any file."""
    requested: frozenset[str] | None = None
    """Names of the images that were asked for, such as `sm_121a`; None when nobody asked."""
    ptx_isa: tuple[int, int] | None = None
    """The newest PTX ISA that the driver compiles; None: any."""
    deep: bool = False
    """Whether to judge what lies inside the images too: kernels, and whether they do work; and RECORD."""
    names: bool = False
    """Whether to read the names of kernels, to tell which containers fall short."""
    cuda_major: int | None = None
    """The CUDA major that its libraries should be linked with; None: whichever, but one."""
    torch: frozenset[str] | None = field(default=None, repr=False)
    """Names that the libraries of its torch export; None when that is not known."""
    confirm: Callable[[FileFacts, Question], FileFacts] | None = field(default=None, repr=False)
    """Looks again at what seems hollow, and corrects the facts; None: operation numbers decide."""

    @property
    def inside(self) -> bool:
        """Whether images must be unpacked."""
        return self.deep or self.names or any(entry.exceptions for entry in self.policy or ())
