"""Rules for what is wrong between a module and the torch, the libraries and the symbols that it meets."""

from __future__ import annotations

from typing import Final

from orchestrator.machine.rules import Found, Rule, note, row
from orchestrator.machine.rules_device import SM_NUMBER, first_best


def _runtime_library(found: Found) -> str:
    return (
        f"The system's libraries are older than those that the wheel was built with ({found.listed}). Build"
        " it on"
        " this system, or upgrade the system."
    )


def _replaced(found: Found) -> str:
    other = next((name for name in found.notes.get("torch", ()) if name), "")
    now = f" (now torch {other})" if other else ""
    return (
        f"torch was replaced by one without CUDA, or by another version{now}: an installer resolved torch"
        " anew."
        " Install the stack's own torch again, and install wheels with `--no-deps` from dist/ and its index."
    )


def _abi(found: Found) -> str:
    from orchestrator.audit.names import demangled

    symbol = demangled(found.first) if found.names else "a symbol"
    known = found.notes.get("torch", ())
    installed = f"torch {known[0]} is installed" if known else "`pip show torch` tells the installed one"
    return (
        f"The module wants {symbol}, which the installed torch does not have: it was built against another"
        " torch."
        f" {installed}; the wheel's local version, such as +cu130.torch2140, tells the one it was built with."
        f" Build it against the installed one (`sparkbuild NAME --arch {first_best(found)}`), or install"
        " that one."
    )


def _own(found: Found) -> str:
    from orchestrator.audit.names import demangled

    symbol = demangled(found.first)
    number = SM_NUMBER.search(symbol)
    chip = f" (its name says sm_{number[1]})" if number else ""
    return (
        f"{symbol}{chip} is called, and no source that defines it was compiled: a feature macro is set"
        " without"
        " its source. It is the component's own symbol, so torch is not to blame. It wants a patch that sets"
        " the"
        f" macro only where the source is built; check the arch list too (`--arch {first_best(found)}`)."
    )


def _major(found: Found) -> str:
    what = f" ({found.listed})" if found.names else ""
    return (
        f"Parts for different CUDA versions are mixed{what}: a binary wants libraries of another major"
        " version"
        " than the ones here, or nvcc is not the version that torch was built with. Build it with the stack's"
        " toolkit and torch; do not install the other version's libraries beside."
    )


RULES: Final[tuple[Rule, ...]] = (
    note(
        "torch",
        "torch 2|torch==2|torch-2",
        r"\btorch(?:==| |-)(?P<what>2\.\d{1,3}\.\d{1,3}[\w.+]{0,40}?)(?=\Z|[\s,;)'\"]|-cp)",
    ),
    row(
        "toolchain-too-old",
        "not found",
        r"version [`'](?P<what>GLIBC(?:XX)?_[\d.]{1,12})' not found",
        _runtime_library,
    ),
    row(
        "torch-replaced",
        "cannot open shared",
        r"(?P<what>lib(?:torch_cuda\w{0,20}|c10_cuda)\.so): cannot open shared object",
        _replaced,
    ),
    row(
        "torch-replaced",
        "not compiled with CUDA|rror: ",
        r"Torch not compiled with CUDA enabled|changed a locked package",
        _replaced,
    ),
    row(
        "torch-replaced", "uninstalled torch-", r"Successfully uninstalled torch-\d", _replaced, role="silent"
    ),
    row(
        "torch-abi",
        "undefined symbol: ",
        r"undefined symbol: (?P<what>(?:_Z(?:T[ISVT]|GV)?N[KVRO]{0,3}(?:2at|3c10|5torch|6caffe2)|aoti_torch_"
        r"|THP)\w{0,2000})",
        _abi,
    ),
    row(
        "torch-abi",
        "undefined reference to",
        r"undefined reference to [`'](?P<what>(?:(?:typeinfo|vtable) for )?(?:at|c10|torch"
        r"|caffe2)::[^'`]{1,500})",
        _abi,
    ),
    row(
        "cuda-major-mix",
        "cannot open shared object|detected CUDA",
        r"(?P<what>lib(?:cudart|nvrtc|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvJitLink|cupti"
        r"|nvToolsExt|npp\w{1,8})\.so\.\d{1,4}(?:\.\d{1,4})?)"
        r": cannot open shared object|detected CUDA version .{0,60}mismatches the version",
        _major,
    ),
    row(
        "cuda-major-mix",
        "undefined symbol: |not found",
        r"undefined symbol: (?P<what>(?:cu[A-Z]|cuda[A-Z]|__cuda|cublas|cusparse|cusolver|cufft|curand|nvrtc"
        r"|_{0,2}nvJitLink)\w{0,200})"
        r"|version [`']libcudart\.so\.\d{1,3}' not found",
        _major,
    ),
    row(
        "toolchain-too-old",
        "undefined symbol: ",
        r"undefined symbol: (?P<what>_Z(?:T[ISV])?(?:N[KVRO]{0,3})?St\w{1,2000})",
        _runtime_library,
    ),
    row(
        "own-symbol",
        "undefined symbol: ",
        r"undefined symbol: (?P<what>(?!_?Py[A-Z_])[A-Za-z_][\w.$]{0,2000})",
        _own,
    ),
)
