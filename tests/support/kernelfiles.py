"""Files whose kernels are known: put together by hand, or those in tests/data/device unpacked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devicefiles import data

from orchestrator.audit.facts import Code, Container, FileFacts, Image, Kernel, Kind
from orchestrator.audit.scan import scan
from orchestrator.audit.stream import MappedStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.audit.facts import Hollow
    from orchestrator.model.archvalues import Suffix

_IMAGE = re.compile(r"(sm|compute)_(\d+)([af]?)(?:@(\d)\.(\d))?")
_HOLLOW: dict[str, Hollow] = {"-": "empty", "!": "trap"}


def image(name: str) -> Image:
    """Return the image called `sm_121a`, `compute_80`, or with a PTX ISA `compute_80@9.1`."""
    found = _IMAGE.fullmatch(name)
    assert found is not None, name
    kind = Kind.SASS if found[1] == "sm" else Kind.PTX
    suffixes: dict[str, Suffix] = {"": "", "a": "a", "f": "f"}
    isa = (int(found[4]), int(found[5])) if found[4] else None
    return Image(kind, int(found[2]), suffixes[found[3]], isa)


def kernel(name: str) -> Kernel:
    """Return the kernel `name`; with `-` at its end it does nothing, with `!` it only stops."""
    return Kernel(name.rstrip("-!"), _HOLLOW.get(name[-1:]))


def unit(images: Mapping[str, str | None], *, offset: int = 0) -> Container:
    """Return a container: name of an image -> its kernels, between spaces; None: they could not be read."""
    codes = (
        None if names is None else Code(tuple(kernel(each) for each in names.split()))
        for names in images.values()
    )
    return Container(offset, 64, tuple(image(name) for name in images), tuple(codes), ".nv_fatbin")


def module(*units: Mapping[str, str | None], path: str = "a.so") -> FileFacts:
    """Return a library of these containers."""
    return FileFacts(
        path, "elf", tuple(unit(images, offset=64 * number) for number, images in enumerate(units))
    )


def mangled(text: str, arguments: str = "") -> str:
    """Return the mangled name of the function `a::b`, with template arguments that are mangled already."""
    told = "".join(f"{len(part)}{part}" for part in text.split("::"))
    # a template says what it returns
    return f"_ZN{told}I{arguments}EEvv" if arguments else f"_ZN{told}Ev"


def unpacked(name: str) -> FileFacts:
    """Scan one of the committed binaries with its kernels."""
    content = data(name)
    return scan(name, lambda: MappedStream(content), inside=True)
