"""Whether a toolkit can make code for an arch: nvcc, and with it cicc and ptxas, are asked to."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import ToolkitError
from orchestrator.toolchain.ask import ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.store.facts import Facts
    from orchestrator.toolchain.ask import Answer
    from orchestrator.toolchain.compiler import Compiler

# First nvcc that knows an arch (CUDA Toolkit release notes; "PTX ISA", table of target architectures).
# sm_101 became sm_110 with 13.0.
_SINCE = {
    "sm_80": "11.0", "sm_86": "11.1", "sm_87": "11.4", "sm_89": "11.8", "sm_90": "11.8", "sm_90a": "12.0",
    "sm_100": "12.8", "sm_100a": "12.8", "sm_120": "12.8", "sm_120a": "12.8", "sm_100f": "12.9",
    "sm_103": "12.9", "sm_103a": "12.9", "sm_103f": "12.9", "sm_120f": "12.9", "sm_121": "12.9",
    "sm_121a": "12.9", "sm_121f": "12.9", "sm_88": "13.0", "sm_110": "13.0", "sm_110a": "13.0",
    "sm_110f": "13.0",
}  # fmt: skip
_OLDEST_IN_13 = 75

# For the oldest arch of all: what is newer takes it too.
_EMPTY = """\
.version 6.3
.target sm_75
.address_size 64
.visible .entry empty()
{
    ret;
}
"""

_HOST = re.compile(r"unsupported (?:\S+ )*?(?:GNU|clang) version", re.IGNORECASE)


def check_assembles(
    root: Path, archs: Iterable[str], *, identity: str, facts: Facts, compiler: Compiler
) -> None:
    """Have the toolkit compile and assemble an empty kernel for each arch; remembered when it can.

    Args:
        root: the toolkit's folder.
        archs: such as `sm_121a` for machine code, `compute_121` for PTX.
        identity: of the toolkit.
        facts: cache; while it knows the answer no process starts.
        compiler: the host compiler that nvcc is to work with.

    Raises:
        ToolkitError: it cannot, in the tool's own words: an arch it does not know, or a host compiler
            that is too new for it.
        ToolMissingError: nvcc cannot be run.
    """
    nvcc = root / "bin" / "nvcc"
    for arch in archs:
        kind = f"assembles {arch} {identity} {compiler.identity}"

        def assemble(path: Path, arch: str = arch) -> str:
            _assemble(path, arch, compiler)
            return "yes"

        try:
            facts.get_or(nvcc, kind, assemble)
        except OSError as error:
            raise ToolkitError(
                f"nvcc cannot be read: {error.strerror}", where=str(nvcc), hint="choose another with --cuda"
            ) from error


def _assemble(nvcc: Path, arch: str, compiler: Compiler) -> None:
    virtual = re.sub(r"^sm_", "compute_", arch)
    with tempfile.TemporaryDirectory(prefix="sparkbuild-") as folder:
        unit, image = Path(folder, "empty.cu"), Path(folder, "empty.fatbin")
        unit.write_text("__global__ void empty() {}\n", "utf-8")
        options = ["-fatbin", "-gencode", f"arch={virtual},code={arch}"]
        answer = ask([nvcc, "-ccbin", compiler.cxx, *options, "-o", image, unit], cwd=Path(folder))
        words = _fault(answer, image)
    if words is None:
        return
    if _HOST.search(answer.text):
        raise ToolkitError(
            f"the host compiler is not one that this CUDA works with: {words}",
            where=f"{nvcc} with {compiler.cxx} ({compiler.version})",
            hint="install a version that it names, and set CC and CXX to it (CC=gcc-14 CXX=g++-14)",
        )
    raise ToolkitError(f"cannot assemble {arch}: {words}", where=str(nvcc), hint=_advice(arch))


def ptxas_fault(ptxas: Path, arch: str, scratch: Path) -> str | None:
    """Have an assembler make machine code of an empty kernel; return why it cannot, in its own words.

    Args:
        ptxas: the program, which takes the options of ptxas.
        arch: such as `sm_121a`.
        scratch: a folder to write to.

    Raises:
        ToolMissingError: it cannot be run.
        MachineError: it does not end.
    """
    unit, image = scratch / "empty.ptx", scratch / f"{ptxas.name}.{arch}.cubin"
    unit.write_text(_EMPTY, "utf-8")
    return _fault(ask([ptxas, "--gpu-name", arch, unit, "-o", image], cwd=scratch), image)


def _fault(answer: Answer, image: Path) -> str | None:
    if answer.code == 0 and image.is_file() and image.stat().st_size > 0:
        return None
    return answer.telling_line or f"it ended with {answer.code} and without a word"


def _advice(arch: str) -> str:
    machine = arch.replace("compute_", "sm_")
    number = int(re.sub(r"\D", "", machine) or 0)
    if machine in _SINCE:
        return f"{arch} needs CUDA {_SINCE[machine]} or newer: --cuda pip takes the stack's, or name one"
    if 0 < number < _OLDEST_IN_13:
        return f"CUDA 13 dropped what is older than sm_{_OLDEST_IN_13}: a stack with CUDA 12 is needed"
    return "`sparkbuild arch` says which archs there are"
