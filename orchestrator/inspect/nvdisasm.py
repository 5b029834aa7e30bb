"""NVIDIA's disassembler: where it is, and what it makes of the instructions of kernels.

It is given bare instructions (`--binary`), never a stranger's cubin: so it parses no ELF, its work is
bounded by what it is given, and one call serves many kernels. JSON is what it says since CUDA 12.8.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import MachineError
from orchestrator.toolchain.ask import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.audit.facts import Hollow

PACKAGE = "nvidia-cuda-nvdisasm"
"""What the extra `disassembly` installs."""
AT_MOST = 1 << 18
"""Bytes of instructions for one call; it takes half a second and 90 MB for them."""
_TIMEOUT_S = 60.0
_SIZE = 16
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")

_MOVES = frozenset(("MOV", "UMOV", "IMAD", "LDC", "LDCU", "ULDC", "NOP", "BRA", "EXIT"))
_QUIET = _MOVES | frozenset(
    (
        *("P2R", "R2P", "CS2R", "S2R", "S2UR", "R2UR", "UP2UR"),
        *("VOTE", "VOTEU", "SEL", "USEL", "ISETP", "UISETP", "PLOP3", "UPLOP3"),
        *("IADD", "IADD3", "VIADD", "UIADD3", "UIMAD", "LEA", "ULEA", "LEPC"),
        *("LOP3", "ULOP3", "PRMT", "UPRMT", "SHF", "USHF"),
        *("BSSY", "BSYNC", "BREAK", "BMOV", "CALL", "RET", "RPCMOV", "YIELD", "WARPSYNC", "DEPBAR", "BPT"),
        *("LDL", "STL"),
    )
)
"""What prints and stops is made of these, as in `audit.opcodes`: no memory but its own stack, no data."""
_CONSTANT = re.compile(r"R\d+,-?RZ,-?RZ,")
"""Operands of an HFMA2 that only loads a constant: ptxas spreads moves over the units of the chip."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, as the disassembler writes it."""

    opcode: str
    """With its modifiers: `IMAD.MOV.U32`."""
    operands: str = ""

    @property
    def family(self) -> str:
        """The opcode without modifiers; MOV for a sum of zeros and a constant."""
        name = self.opcode.partition(".")[0]
        return "MOV" if name == "HFMA2" and _CONSTANT.match(self.operands) else name


Listing = tuple[Instruction, ...]


def find_nvdisasm(environ: Mapping[str, str] | None = None, *, package: str = PACKAGE) -> Path | None:
    """Return nvdisasm: of the wheel that the extra installs, on PATH, or in CUDA_HOME; None without one.

    Args:
        environ: variables; this process's own by default.
        package: the distribution that holds it.
    """
    environ = os.environ if environ is None else environ
    for path in _installed(package):
        if os.access(path, os.X_OK):
            return path
    if (found := shutil.which("nvdisasm", path=environ.get("PATH", ""))) is not None:
        return Path(found)
    root = environ.get("CUDA_HOME")
    found = shutil.which("nvdisasm", path=str(Path(root, "bin"))) if root else None
    return Path(found) if found else None


def _installed(package: str) -> Iterator[Path]:
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return
    for file in listed:
        if file.name == "nvdisasm":
            yield Path(str(file.locate()))


def version_of(tool: Path) -> str:
    """Return the version of an nvdisasm, such as `13.5.37`.

    Raises:
        MachineError: it cannot be run, or is no nvdisasm.
    """
    answer = ask([tool, "--version"])
    found = _VERSION.search(answer.text)
    if answer.code or "nvdisasm" not in answer.text or found is None:
        raise _failed(tool, f"it does not tell its version: {answer.telling_line}")
    return found[1]


def disassemble(tool: Path, arch: str, codes: Sequence[bytes]) -> list[Listing]:
    """Return the instructions of each of several kernels.

    Args:
        tool: nvdisasm.
        arch: of all of them, such as `sm_121a`.
        codes: the bytes of each kernel's section, 16 an instruction.

    Raises:
        MachineError: it cannot be run, does not know the arch, or cannot read an instruction.
    """
    listings: list[Listing] = []
    for batch in _batches(codes):
        found = _run(tool, arch, b"".join(batch))
        at = 0
        for code in batch:
            end = at + len(code) // _SIZE
            listings.append(found[at:end])
            at = end
        if at != len(found):
            raise _failed(tool, f"it tells {len(found):,} instructions, and there are {at:,}")
    return listings


def _batches(codes: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for code in codes:
        if batch and size + len(code) > AT_MOST:
            yield batch
            batch, size = [], 0
        batch.append(code)
        size += len(code)
    if batch:
        yield batch


def _run(tool: Path, arch: str, code: bytes) -> Listing:
    if not code:
        return ()
    with tempfile.TemporaryDirectory(prefix="sparkbuild-") as folder:
        path = Path(folder, "code.bin")
        path.write_bytes(code)
        target = arch.replace("sm_", "SM", 1)
        answer = ask([tool, "--emit-json", "--no-dataflow", "--binary", target, path], timeout_s=_TIMEOUT_S)
    if answer.code:
        raise _failed(tool, answer.telling_line or f"it ended with {answer.code}")
    try:
        return tuple(_instructions(answer.text))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _failed(tool, "what it says is not the JSON that is known") from error


def _instructions(text: str) -> Iterator[Instruction]:
    # what it says about the file comes first, then its functions: here there is one, without a name
    told: list[Any] = json.loads(text)
    for function in told[1]:
        for entry in function["sass-instructions"]:
            yield Instruction(str(entry["opcode"]), str(entry.get("operands", "")))


def _failed(tool: Path, reason: str) -> MachineError:
    return MachineError(
        reason, where=str(tool), hint=f"install the newest {PACKAGE}; it comes with sparkbuild[disassembly]"
    )


def hollow(listing: Listing) -> Hollow | None:
    """Say what a kernel comes to when it does no work, else None.

    It means the same as `audit.opcodes.hollow`, but goes by names. Which functions are called is not
    looked at here: symbols tell that, and not instructions.
    """
    families = {instruction.family for instruction in listing}
    if families <= _MOVES:
        return "empty"
    stops = any(
        instruction.family == "BPT" or instruction.opcode.startswith("CALL.ABS") for instruction in listing
    )
    return "trap" if stops and families <= _QUIET else None
