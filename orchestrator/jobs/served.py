"""Whether a unit of device code can serve at all: it stops a build in its first minutes, not after hours."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from orchestrator.model.archvalues import Arch, Device, jits_ptx, loads_sass

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from orchestrator.jobs.units import Unit

_NAME: Final = re.compile(r"(sm|compute)_([1-9][0-9]{1,2})([af]?)")


def serves(image: str, devices: Collection[Device], *, jit: bool = False) -> bool:
    """Say whether an image would load on one of these devices, by the coverage rule.

    True also of what cannot be told from a unit: LTO-IR becomes machine code when it is linked, and
    `native` is what the machine has.

    Args:
        image: such as `sm_121a`.
        devices: the devices to be served.
        jit: whether PTX counts.
    """
    found = _NAME.fullmatch(image)
    if found is None:
        return image == "native" or image.startswith("lto_")
    suffix = found[3]
    arch = Arch.from_sm(int(found[2]), "a" if suffix == "a" else "f" if suffix == "f" else "")
    if found[1] == "sm":
        return any(loads_sass(arch, device) for device in devices)
    return jit and any(jits_ptx(arch, device) for device in devices)


def refusal(
    unit: Unit,
    images: Sequence[str],
    devices: Collection[Device],
    *,
    excepted: Collection[str] = (),
    jit: bool = False,
) -> str | None:
    """Return why a unit must not be compiled, or None.

    Args:
        unit: as it was asked for; one without device code passes.
        images: what it would hold, from `images.images`.
        devices: the devices to be served; a unit must serve one of them.
        excepted: patterns on the end of the source's path, such as `quantization/*_sm90.cu`.
        jit: whether the recipe expects PTX to be compiled by the driver.
    """
    if not unit.is_cuda or any(serves(image, devices, jit=jit) for image in images):
        return None
    path = str(PurePosixPath(unit.folder, unit.source or ""))
    if any(fnmatchcase(path, f"*/{pattern.lstrip('/')}") for pattern in excepted):
        return None
    said = [word for word in unit.arguments if "gencode" in word or "arch=" in word or "code=" in word]
    passed = " ".join(dict.fromkeys(word for word in said if word not in {"-gencode", "--generate-code"}))
    served = ", ".join(map(str, sorted(devices)))
    return (
        f"{unit.name} would hold {', '.join(images) or 'no image'}, of which nothing loads on {served}: "
        f"nvcc was given {passed or 'no arch'}"
    )
