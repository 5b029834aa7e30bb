"""Rules for what is wrong on the machine: memory, crashes, the disk, caches, time."""

from __future__ import annotations

import re
from typing import Final

from orchestrator.machine.rules import Found, Rule, row

_DIRECTORY: Final = re.compile(r"\A(/(?:[^/]+/)*)")

MEMORY_CODES: Final = (137, -9, 9, 247, 143, -15)
"""Exit codes of a process that was killed, as sh, Python, make, and a C int cut to a byte tell them."""
CRASH_CODES: Final = (139, -11, 134, -6, 135, -7, 132, -4)
"""The same of one that died by itself: SEGV, ABRT, BUS, ILL."""
TIME_CODE: Final = 124
"""What `timeout` of coreutils ends with."""


def memory(found: Found) -> str:
    """Say what to do when memory ran out."""
    what = f" ({found.listed})" if found.names else ""
    return (
        f"The process was killed{what}, almost always because memory ran out. On a GB10 the GPU's memory is"
        " the same: stop models and containers first. Fewer compilers at once help: raise memory_per_unit in"
        " the"
        " recipe (outside sparkbuild: lower MAX_JOBS and NVCC_THREADS). Then run the same again."
    )


def _gpu_memory(_found: Found) -> str:
    return (
        "The GPU's memory ran out while a program ran; that is no fault of the build. Serve with a smaller"
        " model, context or share of memory. Did a kernel fall back to a bigger format? `sparkbuild audit"
        " WHEEL --arch 12.1a` shows which modules have machine code for this GPU."
    )


def crash(found: Found) -> str:
    """Say what to do when a compiler crashed."""
    what = f" ({found.listed})" if found.names else ""
    about = " ".join((found.text, *found.names))
    known = ""
    if "flash_bwd" in about and ("hdim256" in about or "hdim128" in about):
        known = " Known: nvcc 12.8 and 12.9 crash in flash-attention's backward kernels of these head sizes."
    elif "SVE" in about or "sve" in about:
        known = " Known: gcc 13 on aarch64 crashes in SVE code with -march=native."
    return (
        f"A compiler crashed{what}. Run that unit once more, alone: a machine short of memory looks the same."
        f" When it dies again, it is a bug of the compiler: take another toolkit (`--cuda pip`,"
        f" `--cuda PATH`) or another host compiler.{known}"
    )


def _disk(found: Found) -> str:
    folder = _DIRECTORY.match(found.first)
    where = folder[1].rstrip("/") or "/" if folder else ""
    which = f"The file system of {where} is full" if where else "A file system is full"
    look = f"`df -h {where}` and `df -i {where}` show it" if where else "`df -h` and `df -i` show which"
    temporary = " /tmp is often small: point TMPDIR at a bigger disk." if where.startswith("/tmp") else ""  # noqa: S108 - no file is made
    return f"{which}: {look}.{temporary} `sparkbuild store gc` frees what sparkbuild no longer needs."


def _cache(_found: Found) -> str:
    return (
        "The compiler cache failed, not the compiler. Look at its folder (space, owner, a network disk), or"
        " empty it with `ccache --clear` or `sccache --stop-server`, and build without it to be sure."
    )


def _stale(_found: Found) -> str:
    return (
        "The build folder was configured for another place or another source, so what it holds cannot be"
        " trusted. Remove it, and configure again."
    )


def timed_out(_found: Found) -> str:
    """Say what to do when time was up."""
    return (
        "A time limit ended it, not an error. The last lines of the output show where it stood; give it more"
        " time, or compile for fewer arches (`--arch 12.1a` alone)."
    )


_MEMORY_CODE: Final = r"(?:137|143|247|-?9|-15)"
_CRASH_CODE: Final = r"(?:139|135|134|132|-11|-7|-6|-4)"

RULES: Final[tuple[Rule, ...]] = (
    row(
        "oom",
        "Killed",
        r"(?:\A(?:[\w./+-]{1,80}: (?:line )?\d+: +)?(?:\d+ )?Killed\b(?:\Z|  | \(core dumped\))"
        r"|Killed signal terminated program (?P<what>[\w+-]{1,40})"
        r"|internal compiler error: Killed|Out of memory: Killed process)",
        memory,
        retry=True,
    ),
    row(
        "oom",
        "died due to signal",
        r"'(?P<what>[\w.+-]{1,40})' died due to signal (?:9|15)\b",
        memory,
        retry=True,
    ),
    row(
        "oom",
        "annot allocate memory|virtual memory exhausted|bad_alloc|out of memory|MemoryError|oom-kill"
        "|Out of memory",
        r"(?:[Cc]annot allocate memory|virtual memory exhausted|bad_alloc|LLVM ERROR: out of memory"
        r"|cc1plus: out of memory|\AMemoryError\b|oom-kill|rustc.{0,80}out of memory"
        r"|memory allocation of \d+ bytes failed)",
        memory,
        retry=True,
    ),
    row(
        "oom",
        "CUDA out of memory|CUDA error: out of memory|NV_ERR_NO_MEMORY|OutOfMemoryError|cudaErrorMemory"
        "|NVRM: Out of memory",
        r"CUDA out of memory|CUDA error: out of memory|NV_ERR_NO_MEMORY|\.OutOfMemoryError"
        r"|cudaErrorMemoryAllocation|NVRM: Out of memory",
        _gpu_memory,
    ),
    row(
        "oom",
        "FAILED: ",
        rf"\AFAILED: \[code={_MEMORY_CODE}\] ?(?P<what>.{{0,200}})",
        memory,
        role="echo",
        retry=True,
    ),
    row(
        "oom",
        "exit status|exit code|exited with|Error: |*** ",
        rf"(?:exit (?:status|code):? {_MEMORY_CODE}(?:\b|\Z)|exited with(?: code)? {_MEMORY_CODE}\b"
        rf"|<Signals\.SIG(?:KILL|TERM): |\*\*\* \[(?P<what>[^\]]{{1,200}})\] (?:Error {_MEMORY_CODE}\Z"
        r"|Killed))",
        memory,
        role="echo",
        retry=True,
    ),
    row(
        "compiler-crash",
        "nternal compiler error|internal error: |died due to signal|died with status|PLEASE|COMPILER ERROR",
        r"(?:[Ii]nternal compiler error|INTERNAL COMPILER ERROR|\binternal error: assertion"
        r"|'(?P<what>[\w.+-]{1,40})' died (?:due to signal (?!2\b)\d+|with status 0x)"
        r"|\APLEASE (?:submit|ATTACH))",
        crash,
        retry=True,
    ),
    row(
        "compiler-crash",
        "Segmentation fault|Bus error",
        r"\A(?:[\w./+-]{1,80}: (?:line )?\d+: +)?(?:\d+ )?(?:Segmentation fault|Bus error)\b",
        crash,
        retry=True,
    ),
    row(
        "compiler-crash",
        "FAILED: ",
        rf"\AFAILED: \[code={_CRASH_CODE}\] ?(?P<what>.{{0,200}})",
        crash,
        role="echo",
        retry=True,
    ),
    row(
        "compiler-crash",
        "exit status|exit code|Error: |*** ",
        rf"(?:exit (?:status|code):? {_CRASH_CODE}(?:\b|\Z)|<Signals\.SIG(?:SEGV|BUS|ABRT|ILL): "
        rf"|\*\*\* \[(?P<what>[^\]]{{1,200}})\] (?:Error {_CRASH_CODE}\Z|Segmentation fault))",
        crash,
        role="echo",
        retry=True,
    ),
    row(
        "disk-full",
        "No space left",
        r"(?P<what>/[^\s'\":]{1,250})['\"]?: No space left on device",
        _disk,
    ),
    row(
        "disk-full",
        "No space left|quota exceeded|Error: [|ot enough free space|ot enough disk|ENOSPC|rror: ",
        r"(?:No space left on device|[Dd]isk quota exceeded|\[Errno (?:28|122)\]|[Nn]ot enough (?:free"
        r"|disk) space"
        r"|\bENOSPC\b|little space left)(?:[^/]{0,40}(?P<what>/[^\s'\"]{1,250}))?",
        _disk,
    ),
    row(
        "cache-tool",
        "ccache: error:",
        r"(?:\A|[\s/])s?ccache: (?:error|FATAL|fatal|caused by)\b",
        _cache,
    ),
    row(
        "cache-tool",
        "ailed to send|ailed to start",
        r"Failed to send data to or receive data from server|[Ff]ailed to start sccache server"
        r"|sccache server (?:startup failed|looks like it shut down)",
        _cache,
    ),
    row(
        "cache-tool",
        "CMake Error: |CMake Error at ",
        r"current CMakeCache\.txt directory .{1,400} is different"
        r"|does not match the source .{1,400}used to generate",
        _stale,
    ),
    row(
        "timeout",
        "imed out|TimeoutExpired|imeout|TIME LIMIT|exceeded the maximum|did not end within",
        r"(?:TimeoutExpired|[Tt]imed out after \d+|exceeded the maximum execution time|DUE TO TIME LIMIT"
        r"|\A(?:[\w.]{0,60}\.)?TimeoutError\b|did not end within [\d.]+ s|Timeout \(>?[\d.]+ ?s\))",
        timed_out,
    ),
)
