"""The disassembler has the last word on kernels that would be reported as hollow.

Operation numbers are quick, and were read off the chips that are known; a tool that knows the chip by name
says whether they mean there what they are taken for. Only containers that would give a warning or an error
are looked at again, and of these only the few instructions that the facts keep: nothing is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.audit.facts import Kind
from orchestrator.audit.findings import Finding
from orchestrator.audit.hollow import find_hollow
from orchestrator.audit.names import short
from orchestrator.errors import MachineError
from orchestrator.inspect.nvdisasm import disassemble, find_nvdisasm, hollow, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from orchestrator.audit.facts import Code, Container, FileFacts
    from orchestrator.audit.question import Question
    from orchestrator.inspect.nvdisasm import Listing

_READ_AT_MOST = 1 << 20
"""Bytes of different code that are disassembled in one call; hollow kernels of real wheels have 100 KiB."""
_CALL_COSTS = 1 << 12
"""What a call takes of that: a file that names thousands of arches gets no thousands of calls."""
_SHOWN = 12

_Place = tuple[str, bytes]
"""An arch such as `sm_121a`, and the code of a kernel for it."""


@dataclass(slots=True)
class _Told:
    """What the tool says of the kernels that seemed hollow, by name."""

    idle: dict[str, Listing] = field(default_factory=dict)
    works: dict[str, Listing] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """With the reason."""


@dataclass(slots=True)
class Disassembler:
    """Looks at what seems hollow with nvdisasm. One serves all wheels of a call: it remembers what it saw."""

    tool: Path
    version: str
    _seen: dict[_Place, Listing | str] = field(default_factory=dict, repr=False)
    """What a kernel's code says, or why that cannot be told."""
    left: int = _READ_AT_MOST
    """Bytes of code that may still be disassembled."""

    @classmethod
    def find(cls) -> Disassembler | None:
        """Return one with the nvdisasm that is there; None without one that runs."""
        tool = find_nvdisasm()
        try:
            return cls(tool, version_of(tool)) if tool is not None else None
        except MachineError:
            return None

    def __call__(self, facts: FileFacts, question: Question) -> FileFacts:
        """Return the facts with the tool's word on the kernels of containers that seem hollow.

        Findings tell what it says; what it cannot read stays as operation numbers told it.
        """
        suspects = set(_suspects(facts, question))
        if not suspects:
            return facts
        boxes = [box for box in facts.containers if box.offset in suspects]
        self._look(
            (name, kernel.code)
            for box in boxes
            for name, code in _sass(box)
            for kernel in code.kernels
            if kernel.code
        )
        told = _Told()
        seen = {box.offset: self._judged(box, told) for box in boxes}
        containers = tuple(seen.get(box.offset, box) for box in facts.containers)
        return replace(facts, containers=containers, findings=(*facts.findings, *self._findings(told)))

    def _look(self, wanted: Iterable[_Place]) -> None:
        """Disassemble what was not seen yet, one call an arch."""
        fresh: dict[str, list[bytes]] = {}
        for arch, code in dict.fromkeys(wanted):
            if (arch, code) in self._seen:
                continue
            cost = len(code) + (0 if arch in fresh else _CALL_COSTS)
            if cost > self.left:
                self._seen[arch, code] = "no more code is disassembled in one go"
            else:
                self.left -= cost
                fresh.setdefault(arch, []).append(code)
        for arch, codes in fresh.items():
            try:
                listings: list[Listing | str] = [*disassemble(self.tool, arch, codes)]
            except MachineError as error:
                listings = [error.message] * len(codes)
            self._seen.update(zip([(arch, code) for code in codes], listings, strict=True))

    def _judged(self, box: Container, told: _Told) -> Container:
        codes = tuple(
            self._code(image.name, code, told) if image.kind is Kind.SASS and code is not None else code
            for image, code in zip(box.images, box.codes, strict=True)
        )
        return replace(box, codes=codes)

    def _code(self, arch: str, code: Code, told: _Told) -> Code:
        kernels = list(code.kernels)
        for at, kernel in enumerate(kernels):
            if not kernel.hollow:
                continue
            found = self._seen.get((arch, kernel.code), "its code was not kept")
            if isinstance(found, str):
                told.unread[kernel.name] = found
                continue
            kernels[at] = replace(kernel, hollow=hollow(found))
            (told.idle if kernels[at].hollow else told.works)[kernel.name] = found
        return replace(code, kernels=tuple(kernels))

    def _findings(self, told: _Told) -> Iterator[Finding]:
        tool = f"nvdisasm {self.version}"
        if told.idle:
            text = f"{tool} sees no work in {_kernels(told.idle)}: {_example(told.idle)}"
            yield Finding("info", "disassembled", text)
        if told.works:
            text = (
                f"{tool} sees work in {_kernels(told.works)} that seemed to do none: {_example(told.works)}"
            )
            yield Finding("info", "not-hollow", text)
        if told.unread:
            reason = next(iter(told.unread.values()))
            text = f"{_kernels(told.unread)} judged by operation numbers alone; {tool} says: {reason}"
            yield Finding("info", "not-disassembled", text)


def _suspects(facts: FileFacts, question: Question) -> Iterator[int]:
    """Yield where containers begin that give a warning or an error because of hollow kernels."""
    for device in question.devices:
        found = find_hollow(facts, device, question.ptx_isa)
        for unit in (*found.fault_units, *found.units):
            yield unit.box.offset


def _sass(box: Container) -> Iterator[tuple[str, Code]]:
    """Yield the images that are machine code and were read: name and content."""
    for image, code in zip(box.images, box.codes, strict=True):
        if image.kind is Kind.SASS and code is not None:
            yield image.name, code


def _kernels(found: Mapping[str, object]) -> str:
    return f"{len(found):,} kernel{'' if len(found) == 1 else 's'}"


def _example(found: Mapping[str, Listing]) -> str:
    """Return the shortest one: its name, and the first of its instructions."""
    name, listing = min(found.items(), key=lambda item: len(item[1]))
    opcodes = [one.opcode for one in listing if one.opcode != "NOP"]
    return f"{short(name, 70)} is {' '.join(opcodes[:_SHOWN])}{' …' if len(opcodes) > _SHOWN else ''}"
