"""Look into the images of one file: unpack them, and list their kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.audit.facts import Code, Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.kernels import KernelReader
from orchestrator.audit.payload import Unpacker

if TYPE_CHECKING:
    from orchestrator.audit.facts import Image
    from orchestrator.audit.fatbin import Payload


class Inside:
    """Given to `read_container`, it is called for each entry. What could not be read is in `findings`."""

    def __init__(self, file_size: int) -> None:
        self._unpacker = Unpacker(file_size)
        self._reader = KernelReader()
        self._first = ""
        self._unread = 0

    def __call__(self, images: tuple[Image, ...], payload: Payload) -> tuple[Code | None, ...]:
        """Return what lies in each image of an entry; None for what is no SASS or PTX, or cannot be read."""
        if not any(image.kind in (Kind.SASS, Kind.PTX) for image in images):
            return (None,) * len(images)
        data: bytes | str = "it is empty or too large"
        if payload.data:
            data = self._unpacker.unpack(payload.data, payload.flags, payload.size)
        if isinstance(data, str):
            for image in images:
                self._missed(image, data)
            return (None,) * len(images)
        if payload.places is None:
            return tuple(self.read(image, data) for image in images)
        if sum(size for _, size in payload.places) > len(data):
            for image in images:
                self._missed(image, "the images of its group lie on top of each other")
            return (None,) * len(images)
        return tuple(
            self._part(image, data, start, size)
            for image, (start, size) in zip(images, payload.places, strict=True)
        )

    def _part(self, image: Image, data: bytes, start: int, size: int) -> Code | None:
        if start + size > len(data):
            self._missed(image, "it lies outside of its group")
            return None
        return self.read(image, data[start : start + size])

    def read(self, image: Image, data: bytes) -> Code | None:
        """Return what lies in an unpacked image."""
        if image.kind not in (Kind.SASS, Kind.PTX):
            return None
        code = self._reader.read(image, data)
        if isinstance(code, Code):
            return code
        self._missed(image, code)
        return None

    def _missed(self, image: Image, reason: str) -> None:
        if image.kind in (Kind.SASS, Kind.PTX):
            self._first = self._first or f"{image.name}: {reason}"
            self._unread += 1

    def findings(self) -> list[Finding]:
        """Return what could not be read, as one finding."""
        if not self._unread:
            return []
        more = f", and {self._unread - 1:,} more" if self._unread > 1 else ""
        text = f"the kernels of an image could not be read ({self._first}){more}"
        return [Finding("warning", "unread-kernels", text)]
