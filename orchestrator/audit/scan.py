"""Find all device code of one file, wherever it lies.

Containers are found by their magic, not by section names: headers can be stripped, sections renamed, and
a fatbin can be a C array. Names of sections serve only to tell what is input of a device link and what
is code that happens to contain the magic. Whatever claims to be a container and is none becomes a
finding, unless it lies in an executable section.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.audit import archive, elf
from orchestrator.audit.cubin import read_cubin
from orchestrator.audit.dynamic import read_linkage, wanted_ranges
from orchestrator.audit.facts import Container, FileFacts, FileKind, Image
from orchestrator.audit.fatbin import Parsed, Rejected, read_container
from orchestrator.audit.findings import Finding
from orchestrator.audit.inside import Inside
from orchestrator.audit.lookup import Again, Tables, holders
from orchestrator.audit.stream import ELF64_MAGIC, ELF_MAGIC, FATBIN_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.audit.dynamic import Linkage
    from orchestrator.audit.facts import Code
    from orchestrator.audit.findings import Level
    from orchestrator.audit.stream import Stream

HEAD = 1 << 16
"""Bytes from which `recognize` tells what a file is."""
_FIRST = 512
"""Bytes that tell text, and nearly everything else too."""
_CUBIN_AT_MOST = 32 << 20
_SEGMENTS_AT_MOST = 1 << 16
_CONTAINERS_AT_MOST = 100_000
"""The most seen is 2,937; a file made of empty ones must not take all memory."""
_REJECTS_AT_MOST = 1000
"""Kept to be told apart by where they lie."""
_TRIES_AT_MOST = 100_000
"""Magics followed by nothing that belongs to them; the most seen is 2."""
_FINDINGS_AT_MOST = 500
_FATBIN_SECTIONS = frozenset((".nv_fatbin", "__nv_relfatbin", ".cask_resource"))
_START = FATBIN_MAGIC + b"\x01\x00\x10\x00"


def recognize(head: bytes) -> FileKind:
    """Tell by its first `HEAD` bytes what a file is; `other` cannot hold device code that anything loads."""
    return _plain(head[:_FIRST]) or ("blob" if _START in head else "other")


def _plain(first: bytes) -> FileKind | None:
    """Tell by its first bytes what a file is, or None when more are needed."""
    if first.startswith(ELF_MAGIC):
        header = elf.read_header(first)
        return "cubin" if header is not None and header.machine == elf.EM_CUDA else "elf"
    if first.startswith((archive.MAGIC, archive.THIN_MAGIC)):
        return "archive"
    if first.startswith(FATBIN_MAGIC):
        return "fatbin"
    if first.startswith(b"MZ"):
        return "blob"
    return "other" if first.isascii() and b"\0" not in first else None


def scan(path: str, opened: Callable[[], Stream], *, inside: bool = False, linked: bool = False) -> FileFacts:
    """Read one file.

    Args:
        path: how the file is called in the facts.
        opened: gives a fresh stream on the file; called again in the rare case that something must be
            looked up that has passed. Of a file of kind `other` no more is read than tells so.
        inside: also unpack the images, and list their kernels.
        linked: also read what a library says to the dynamic linker.
    """
    stream = opened()
    kind = _plain(stream.peek(_FIRST)) or recognize(stream.peek(HEAD))
    if kind == "other":
        return FileFacts(path, kind)
    scanner = _Scanner(stream, opened, Inside(stream.size) if inside else None, linked=linked)
    match kind:
        case "elf" | "cubin":
            scanner.scan_elf(stream.size)
        case "archive":
            scanner.scan_archive()
        case _:
            scanner.scan_plain(stream.size, strict=kind == "fatbin")
    scanner.finish()
    return FileFacts(
        path,
        kind,
        tuple(scanner.containers),
        tuple(scanner.cubins),
        tuple(scanner.cubin_codes),
        tuple(scanner.findings),
        scanner.machine,
        scanner.linkage,
    )


@dataclass(slots=True)
class _Run:
    """What a search through one ELF, or one file, came upon."""

    containers: list[Container] = field(default_factory=list)
    rejects: list[Rejected] = field(default_factory=list)
    dropped: int = 0


class _Scanner:
    def __init__(
        self, stream: Stream, opened: Callable[[], Stream], inside: Inside | None, *, linked: bool
    ) -> None:
        self.stream = stream
        self.containers: list[Container] = []
        self.cubins: list[Image] = []
        self.cubin_codes: list[Code | None] = []
        self.findings: dict[Finding, None] = {}
        """In the order in which they came."""
        self._opened = Again(opened, stream.size)
        self._inside = inside
        self._tries = 0
        self._linked = linked
        self.machine = 0
        self.linkage: Linkage | None = None

    def finish(self) -> None:
        """Check that as many bytes came as were declared; let a stream that checks its bytes do so."""
        self.stream.peek(1)
        missing = self.stream.size - self.stream.pos
        if missing > 0:
            self._error("truncated", f"the data end {missing:,} bytes too early")
        if self._inside is not None:
            self.findings |= dict.fromkeys(self._inside.findings())

    def scan_plain(self, stop: int, *, strict: bool) -> None:
        """Search up to `stop` where no sections tell what is what."""
        run = self._search(stop)
        self.containers += run.containers
        bad = [reject for reject in run.rejects if strict or reject.header]
        self._report(bad, "error", run.dropped)
        self._report([reject for reject in run.rejects if reject not in bad], "warning", 0)

    def scan_archive(self) -> None:
        """Walk the members of a static library."""
        stream = self.stream
        if stream.peek(len(archive.THIN_MAGIC)) == archive.THIN_MAGIC:
            self._tell("warning", "thin-archive", "a thin archive: its members lie elsewhere")
            stream.skip(stream.size)
            return
        for end in archive.members(stream, stream.size):
            if isinstance(end, archive.Damaged):
                self._error("damaged-archive", f"the archive is damaged at {end.offset:#x}: {end.reason}")
                self.scan_plain(stream.size, strict=False)
            elif stream.peek(min(len(ELF_MAGIC), end - stream.pos)) == ELF_MAGIC:
                self.scan_elf(end)
            else:
                self.scan_plain(end, strict=False)

    def scan_elf(self, stop: int) -> None:
        """Search the ELF that begins here and ends at `stop`."""
        stream, base = self.stream, self.stream.pos
        header = elf.read_header(stream.peek(min(elf.HEADER_SIZE, stop - base)))
        if header is None:
            self.scan_plain(stop, strict=False)
            return
        if header.machine == elf.EM_CUDA:
            self._cubin(stop - base)
            stream.skip(stop - stream.pos)
            return
        if not base:
            self.machine = header.machine
        size = stop - base
        ahead = min(header.segments_at + header.segment_count * elf.SEGMENT_SIZE, _SEGMENTS_AT_MOST, size)
        segments = elf.read_segments(stream.peek(ahead), header)
        # an object file has no segments, but cannot do without its table of sections
        needed = max((segment.stop for segment in segments), default=header.end)
        needed = max(needed, header.segments_at + header.segment_count * elf.SEGMENT_SIZE)
        if needed > size:
            self._error("truncated", f"an ELF is cut off: {needed - size:,} bytes are missing")
        tables = Tables(header, base, size)
        tables.remember(stream)
        head = b""
        if self._linked and not base:
            head = stream.peek(ahead)
            for start, end in wanted_ranges(header, head):
                stream.remember(start, end)
        run = self._search(stop)
        if head:
            self._link(header, head)
        if not run.containers and not run.rejects:
            return
        sections = tables.sections(stream, self._opened)
        if sections is None:
            text = "there is no readable table of sections: what must be linked first may count as loadable"
            self._tell("warning", "no-sections", text)
        self._attribute(run, sections or (), segments, base)

    def _link(self, header: elf.ElfHeader, head: bytes) -> None:
        """Read what the file says to the dynamic linker, from ranges that were kept."""

        def read(at: int, size: int) -> bytes | None:
            kept = self.stream.recall(at, at + size)
            return self._opened.read(at, size) if kept is None else kept

        found = read_linkage(header, head, read)
        if isinstance(found, str):
            self._tell("warning", "no-linkage", f"its dynamic section cannot be read: {found}")
        else:
            self.linkage = found

    def _attribute(
        self, run: _Run, sections: Sequence[elf.Section], segments: Sequence[elf.Segment], base: int
    ) -> None:
        sectioned = holders(sections, [container.offset - base for container in run.containers])
        for container, section in zip(run.containers, sectioned, strict=True):
            self.containers.append(replace(container, section=section.name if section else None))
        errors: list[Rejected] = []
        warnings: list[Rejected] = []
        places = [reject.offset - base for reject in run.rejects]
        found = zip(run.rejects, holders(sections, places), holders(segments, places), strict=True)
        for reject, section, segment in found:
            if section.executable if section else segment and segment.executable and not reject.header:
                continue
            named = section is not None and section.name in _FATBIN_SECTIONS
            (errors if reject.header or named else warnings).append(reject)
        self._report(errors, "error", run.dropped)
        self._report(warnings, "warning", 0)

    def _search(self, stop: int) -> _Run:
        stream, run = self.stream, _Run()
        while stream.find_magic(stop):
            if stream.peek(len(ELF_MAGIC)) == ELF_MAGIC:
                self._embedded(stop)
            else:
                self._container(run, stop)
            many = len(run.containers) + len(self.containers)
            if many > _CONTAINERS_AT_MOST or len(self.cubins) > _CONTAINERS_AT_MOST:
                self._stop(f"more than {_CONTAINERS_AT_MOST:,} containers")
            elif self._tries > _TRIES_AT_MOST:
                self._stop(f"more than {_TRIES_AT_MOST:,} beginnings of device code without such code")
        return run

    def _stop(self, why: str) -> None:
        self._error("unread", f"{why}: what follows was not read")
        self.stream.skip(self.stream.size - self.stream.pos)

    def _container(self, run: _Run, stop: int) -> None:
        found = read_container(self.stream, stop, self._inside)
        if isinstance(found, Rejected):
            self._tries += 1
            if len(run.rejects) < _REJECTS_AT_MOST:
                run.rejects.append(found)
            else:
                run.dropped += 1
            return
        self._doubts(found)
        if found.container.images or found.problems:
            run.containers.append(found.container)
        else:
            self._tries += 1

    def _doubts(self, found: Parsed) -> None:
        if not found.container.images and not found.problems:
            self._tell("warning", "empty-container", "a container without any image")
        for code, text in found.problems:
            self._tell("error" if code == "unread" else "warning", code, text)

    def _embedded(self, stop: int) -> None:
        """Read the cubin that begins here in the middle of a file, if it is one."""
        stream = self.stream
        header = elf.read_header(stream.peek(min(elf.HEADER_SIZE, stop - stream.pos)))
        if header is None or header.machine != elf.EM_CUDA:
            self._tries += 1
            stream.skip(len(ELF64_MAGIC))
            return
        size = header.end
        if size > stop - stream.pos:
            self._tries += 1
            self._error("unread", f"a cubin at {stream.pos:#x} could not be read: it is cut off")
            stream.skip(elf.HEADER_SIZE)
            return
        self._cubin(size)
        stream.skip(elf.HEADER_SIZE if size > _CUBIN_AT_MOST else size)

    def _cubin(self, size: int) -> None:
        at = self.stream.pos
        image: Image | str = f"it is larger than {_CUBIN_AT_MOST >> 20} MiB"
        data = b""
        if size <= _CUBIN_AT_MOST:
            data = self.stream.peek(size)
            image = read_cubin(data)
        if isinstance(image, Image):
            self.cubins.append(image)
            if self._inside is not None:
                self.cubin_codes.append(self._inside.read(image, data))
        else:
            self._error("unread", f"a cubin at {at:#x} could not be read: {image}")

    def _report(self, rejects: Sequence[Rejected], level: Level, dropped: int) -> None:
        if not rejects:
            return
        first = rejects[0]
        more = f", and {len(rejects) - 1 + dropped:,} more" if len(rejects) + dropped > 1 else ""
        if level == "error":
            self._error(
                "broken-container", f"a fatbin at {first.offset:#x} cannot be read: {first.reason}{more}"
            )
        else:
            text = f"the magic of a fatbin at {first.offset:#x}, but no fatbin ({first.reason}){more}"
            self._tell("warning", "odd-magic", text)

    def _error(self, code: str, text: str) -> None:
        self._tell("error", code, text)

    def _tell(self, level: Level, code: str, text: str) -> None:
        if len(self.findings) < _FINDINGS_AT_MOST:
            self.findings.setdefault(Finding(level, code, text))
        else:
            self.findings.setdefault(Finding(level, code, "and more of the kind"))
