"""Which PTX a driver compiles: PTX of a newer ISA than it knows is no fallback, whatever the device.

Sources: the history of releases in the PTX ISA document (ISA and CUDA), the table of driver versions in
the CUDA release notes (CUDA and driver). `ptxas` of CUDA 13.0 to 13.5 was asked which ISA it knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.errors import UsageError

FIRST_BRANCH = 100
"""Smaller numbers are versions of CUDA."""
_STEP = 5
"""Branches are that far apart at least. Drivers for Windows count on in between: 576 is of branch 575."""
_FORM = re.compile(r"[rR]?([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:\.[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Release:
    """One release of CUDA, and the driver that came with it."""

    cuda: tuple[int, int]
    ptx_isa: tuple[int, int]
    """The newest that it knows."""
    branch: int | None
    """First number of the driver's version; None where it is not known."""

    def __str__(self) -> str:
        number = "{}.{}".format(*self.cuda)
        return number if self.branch is None else f"{number} ({self.branch})"


RELEASES = (
    Release((11, 8), (7, 8), 520),
    Release((12, 0), (8, 0), 525),
    Release((12, 1), (8, 1), 530),
    Release((12, 2), (8, 2), 535),
    Release((12, 3), (8, 3), 545),
    Release((12, 4), (8, 4), 550),
    Release((12, 5), (8, 5), 555),
    Release((12, 6), (8, 5), 560),
    Release((12, 7), (8, 6), 565),
    Release((12, 8), (8, 7), 570),
    Release((12, 9), (8, 8), 575),
    Release((13, 0), (9, 0), 580),
    Release((13, 1), (9, 1), 590),
    Release((13, 2), (9, 2), 595),
    Release((13, 3), (9, 3), 610),
    Release((13, 4), (9, 4), 615),
    Release((13, 5), (9, 5), None),
)
"""In their order; newer ones are added at the end."""


def parse_driver(text: str) -> tuple[int, int]:
    """Return the newest PTX ISA that a driver compiles.

    Args:
        text: the driver's version or branch (`580.95.05`, `580`, `r580`), or the CUDA that `nvidia-smi`
            shows for it (`13.0`).

    Raises:
        UsageError: it is neither, or older or newer than those that are known.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise _unknown(f"{text[:40]!r} is no driver")
    first, second = int(found[1]), found[2]
    if first < FIRST_BRANCH:
        return _by_cuda(text, (first, -1 if second is None else int(second)))
    return _by_branch(first)


def newer_driver(isa: tuple[int, int]) -> str:
    """Say which driver compiles PTX of an ISA: `PTX 9.1 needs a driver of CUDA 13.1 (590) or newer`."""
    head = "PTX {}.{} needs a driver".format(*isa)
    first = next((release for release in RELEASES if release.ptx_isa >= isa), None)
    if first is None:
        return f"{head} newer than that of CUDA {RELEASES[-1]}"
    return f"{head} of CUDA {first} or newer"


def _by_cuda(text: str, cuda: tuple[int, int]) -> tuple[int, int]:
    for release in RELEASES:
        if release.cuda == cuda:
            return release.ptx_isa
    if cuda > RELEASES[-1].cuda:
        raise _unknown(f"CUDA {text.strip()} is newer than all that are known here")
    raise _unknown(f"no driver of CUDA {text.strip()} is known")


def _by_branch(number: int) -> tuple[int, int]:
    known = [(release.branch, release.ptx_isa) for release in RELEASES if release.branch is not None]
    if number >= known[-1][0] + _STEP:
        raise _unknown(f"driver {number} is newer than all that are known here")
    before = [isa for branch, isa in known if branch <= number]
    if not before:
        raise _unknown(f"driver {number} is older than all that are known here")
    return before[-1]


def _unknown(message: str) -> UsageError:
    listed = ", ".join(map(str, RELEASES))
    return UsageError(
        message, hint=f"say the CUDA that nvidia-smi shows, or the driver's branch in brackets: {listed}"
    )
