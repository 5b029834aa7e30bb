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
        self._unread: list[str] = []

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
        parts = (data[start : start + size] for start, size in payload.places)
        return tuple(self.read(image, part) for image, part in zip(images, parts, strict=True))

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
            self._unread.append(f"{image.name}: {reason}")

    def findings(self) -> list[Finding]:
        """Return what could not be read, as one finding."""
        if not self._unread:
            return []
        more = f", and {len(self._unread) - 1:,} more" if len(self._unread) > 1 else ""
        text = f"the kernels of an image could not be read ({self._unread[0]}){more}"
        return [Finding("warning", "unread-kernels", text)]
