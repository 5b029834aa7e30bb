"""The instructions of kernels in tests/data/device, got with pyelftools instead of our own reader."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from devicefiles import data
from elftools.elf.elffile import ELFFile

from orchestrator.audit.cubin import read_cubin
from orchestrator.audit.facts import Image, Kind
from orchestrator.audit.fatbin import read_container
from orchestrator.audit.payload import Unpacker
from orchestrator.audit.stream import FATBIN_MAGIC, MappedStream

if TYPE_CHECKING:
    from orchestrator.audit.fatbin import Payload


def cubins(name: str) -> list[tuple[Image, bytes]]:
    """Return the cubins of a file: it is one, or they lie in its containers."""
    content = data(name)
    if name.endswith(".cubin"):
        image = read_cubin(content)
        assert isinstance(image, Image)
        return [(image, content)]
    found: list[tuple[Image, bytes]] = []

    def look(images: tuple[Image, ...], payload: Payload) -> tuple[None, ...]:
        if [image.kind for image in images] == [Kind.SASS]:
            cubin = Unpacker(len(content)).unpack(payload.data, payload.flags, payload.size)
            assert isinstance(cubin, bytes)
            found.append((images[0], cubin))
        return (None,) * len(images)

    stream = MappedStream(content)
    while stream.find_magic(stream.size):
        if stream.peek(4) == FATBIN_MAGIC:
            read_container(stream, stream.size, look)
        else:
            stream.skip(4)
    return found


def codes(cubin: bytes) -> dict[str, bytes]:
    """Return the instructions of each kernel of a cubin, by its mangled name."""
    elf = ELFFile(io.BytesIO(cubin))
    return {
        section.name.removeprefix(".text."): section.data()
        for section in elf.iter_sections()
        if section.name.startswith(".text.")
    }


def code(name: str, arch: str, kernel: str) -> bytes:
    """Return the instructions of one kernel of a file, for an arch such as `sm_121a`."""
    return next(codes(cubin)[kernel] for image, cubin in cubins(name) if image.name == arch)
