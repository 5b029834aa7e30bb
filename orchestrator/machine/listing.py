"""Listings of device code, pasted: which images are there, and whether one loads on the device.

Read are `cuobjdump -lelf -lptx`, its default output, `torch.cuda.get_arch_list()`, one line for a module
(`NAME elf sm_80 sm_121a ptx sm_80`), and the text of `sparkbuild audit`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from orchestrator.model.archvalues import Arch, Device, Entry, Suffix, jits_ptx, loads_sass, runs_on

if TYPE_CHECKING:
    from orchestrator.machine.faults import Fault

_MOST_MODULES: Final = 1000
_MOST_NAMED: Final = 6

_IMAGE: Final = re.compile(r"\b(sm|compute)_(\d{2,3})([af]?)\b")
_ROW: Final = re.compile(
    r"\A([^\s:]{1,200}\.[^\s:]{1,100}):?\s{1,40}elf((?:\s{1,8}sm_\d{2,3}[af]?)*)"
    r"(?:\s{1,8}ptx((?:\s{1,8}\w{1,12})*))?\Z"
)
_FILE: Final = re.compile(
    r"\A(ELF|PTX) file\s{1,20}\d{1,9}:\s{1,20}(\S{1,1000}?)(?:\.\d{1,9})?\.(sm_\w{1,8})\.(?:cubin|ptx)\Z"
)
_FATBIN: Final = re.compile(r"\AFatbin (elf|ptx) code:")
_FATBIN_ARCH: Final = re.compile(r"\Aarch = ((?:sm|compute)_\w{1,8})\Z")
_LIST: Final = re.compile(r"\A(?:>>> )?\[(?:['\"](?:sm|compute)_\w{1,8}['\"](?:, ?)?){1,40}\]\Z")
_AUDIT_HEAD: Final = re.compile(r"\Averdict\s{1,8}exact\s")
_AUDIT_ROW: Final = re.compile(
    r"\A(native|partial|jit|none)\s{1,20}(\d{1,9})\s{1,20}(\d{1,9})(?:\s{1,20}\d{1,9}){3}"
    r"\s{1,4}(\S{1,500})\Z"
)
_AUDIT_ERROR: Final = re.compile(
    r"\Aerror: (?:none of \d{1,9} containers has SASS|\d{1,9} of \d{1,9} containers"
    r"|.{1,1000} fails the audit for)"
)

_SUFFIXES: Final[dict[str, Suffix]] = {"": "", "a": "a", "f": "f"}


@dataclass(slots=True)
class _Module:
    number: int
    text: str
    sass: set[Arch] = field(default_factory=set)
    ptx: set[Arch] = field(default_factory=set)
    audited: str | None = None
    """How it runs by an audit, on the device that the audit was made for."""

    @property
    def names(self) -> str:
        held = [arch.name for arch in sorted(self.sass)] + [arch.ptx_name for arch in sorted(self.ptx)]
        return ", ".join(held) or "no image"

    def how(self, device: Device) -> tuple[str, Arch | None]:
        """Return how it runs on `device` (exact, compatible, partial, jit, none), and by which image."""
        if self.audited is not None:
            return self.audited, None
        for way in ("exact", "compatible"):
            loads = [arch for arch in self.sass if loads_sass(arch, device) == way]
            if loads:
                return way, max(loads)
        jits = [arch for arch in self.ptx if jits_ptx(arch, device)]
        return ("jit", max(jits)) if jits else ("none", None)


class Listing:
    """What a listing holds, gathered line by line."""

    hints: Final = frozenset((b" elf ", b".sm_", b"arch = ", b"Fatbin ", b"'sm_", b'"sm_', b"  verdict "))

    def __init__(self) -> None:
        self._modules: dict[str, _Module] = {}
        self._kind = "elf"
        self.open = False
        """It also wants the next line, whatever that is: inside the table of an audit."""

    def __bool__(self) -> bool:
        """Whether there was any listing."""
        return bool(self._modules)

    def feed(self, number: int, text: str) -> bool:
        """Take a line; say whether it belongs to a listing."""
        if _AUDIT_HEAD.match(text):
            self.open = True
        elif found := _ROW.match(text):
            self._add(found[1], number, text, found[2], found[3] or "")
        elif found := _FILE.match(text):
            sass, ptx = (found[3], "") if found[1] == "ELF" else ("", found[3])
            self._add(found[2], number, text, sass, ptx)
        elif found := _FATBIN.match(text):
            self._kind = found[1]
        elif found := _FATBIN_ARCH.match(text):
            sass, ptx = (found[1], "") if self._kind == "elf" else ("", found[1])
            self._add("the file", number, text, sass, ptx)
        elif _LIST.match(text):
            self._add("torch", number, text, text, "")
        elif self.open and (found := _AUDIT_ROW.match(text)):
            compatible = "exact" if found[3] == "0" else "compatible"
            way = compatible if found[1] == "native" else found[1]
            self._add(found[4], number, text, "", "", audited=way)
        else:
            return _AUDIT_ERROR.match(text) is not None
        return True

    def judge(self, device: Device) -> tuple[Fault | None, str]:
        """Return the fault when a module has nothing that loads on `device`, and one line that sums up."""
        ways = {name: module.how(device) for name, module in self._modules.items()}
        bad = [name for name, (way, _) in ways.items() if way == "none"]
        if bad:
            listed = ", ".join(bad[:_MOST_NAMED]) + (", …" if len(bad) > _MOST_NAMED else "")
            return self._fault(bad, listed, device), f"nothing in {listed} loads on {device}"
        order = ("jit", "partial", "compatible", "exact")
        name = min(ways, key=lambda one: order.index(ways[one][0]))
        way, arch = ways[name]
        through = f" through {arch.name}" if arch else ""
        where = f" ({name})" if len(ways) > 1 else ""
        told = {
            "exact": f"exact for {device}{through}",
            "compatible": f"compatible with {device}{through}, not exact{where}",
            "partial": f"part of the code loads on {device} and part does not{where}",
            "jit": f"runs on {device} only as the driver compiles its PTX{where}: slow starts, and an error"
            " where the driver is older than the toolkit",
        }
        return None, f"no fault found: {told[way]}"

    def _fault(self, bad: list[str], listed: str, device: Device) -> Fault:
        from orchestrator.machine.faults import Fault
        from orchestrator.model.arch import best_for

        module = self._modules[bad[0]]
        said = [
            f"{arch.name} loads on {', '.join(map(str, runs_on(Entry(arch)))) or 'no device of today'}"
            + (" only" if len(runs_on(Entry(arch))) == 1 else "")
            for arch in sorted(module.sass, reverse=True)[:2]
        ]
        best = best_for(device)
        return Fault(
            "wrong-arch-image",
            module.text[:300],
            f"Nothing in {listed} loads on {device}"
            + ("" if module.audited else f": it holds {module.names}")
            + (f"; {', '.join(said)}" if said else "")
            + f". Where the component is for this GPU (`sparkbuild plan all` tells), build it for {best}:"
            f" `--arch {best.split(' or ', maxsplit=1)[0]}`.",
            retry=False,
            line=module.number,
            count=len(bad),
        )

    def _add(
        self, name: str, number: int, text: str, sass: str, ptx: str, audited: str | None = None
    ) -> None:
        """Add images to a module; in the SASS part `compute_` names PTX."""
        if name not in self._modules and len(self._modules) >= _MOST_MODULES:
            return
        shown = "".join(char if char.isprintable() else " " for char in text)
        module = self._modules.setdefault(name, _Module(number, shown, audited=audited))
        for part, is_ptx in ((sass, False), (ptx, True)):
            for kind, sm, suffix in _IMAGE.findall(part):
                arch = Arch.from_sm(int(sm), _SUFFIXES[suffix])
                (module.ptx if is_ptx or kind == "compute" else module.sass).add(arch)
