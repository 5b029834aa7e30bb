"""Whether what a wheel's libraries need can be found: torch's symbols, their own, one CUDA.

Nothing here is a guess at a missing system library: only names are judged that nobody but torch, or the
wheel itself, can define. Weak symbols are never judged.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.audit.names import demangled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchestrator.audit.dynamic import Linkage

_SHOWN = 3
_LENGTH_AT_MOST = 160
_MANGLED = r"_Z(?:T[ISVTCW]|G[VR]|Th[n0-9]+_|Tv[n0-9]+_[n0-9]+_)?"
_TORCH = re.compile(_MANGLED + r"N[rVKRO]*(?:3c10|4c10d|2at|5torch|6caffe2)|(?:aoti_)?torch_")
"""Names of torch: its C++ namespaces, and its stable C interface (aoti_torch/c/shim.h, stable/c/shim.h)."""
_RUNTIME = re.compile(
    _MANGLED + r"(?:N[rVKRO]*)?(?:S|9__gnu_cxx|10__cxxabiv1|P*K?[a-z]$|P*K?D[a-z]$|F)|_Z(?:n[wa]|d[la])"
)
"""Names of the C++ runtime: std, its helpers, types built in, operators new and delete."""
_TORCH_GLOBAL = re.compile(
    r"_Z(?:T[ISV])?\d+(?:TH|torch_|FLAGS_|nvshmem|libshm_|activateGPUTrace|getPyInterpreter)"
)
"""What torch exports outside namespaces, as far as torch 2.14.1 shows."""
_GLOBAL = re.compile(r"_Z\d")
_DEVICE_LINK = re.compile("__cudaRegisterLinkedBinary_|__fatbinwrap_")
"""What `nvcc -dlink` writes for every object compiled with -rdc=true."""
_TORCH_LIBRARY = re.compile(
    r"lib(?:torch(?:_(?:cpu|cuda|cuda_linalg|python|global_deps|nvshmem))?|c10(?:_cuda)?|shm|caffe2_nvrtc)"
    r"(?:-[0-9a-f]{6,})?\.so"
)
_BARREN = re.compile(
    r"(?:lib(?:c|m|pthread|dl|rt|util|resolv|stdc\+\+|gcc_s|gomp|atomic|quadmath|gfortran|z|numa|ibverbs"
    r"|python3[.\d]*[a-z]*|cuda|cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusolverMg|cusparse"
    r"|cusparseLt|cudnn|cudss|cufile|cupti|cutensor|nccl|npp[a-z]+|nvblas|nvfatbin|nvidia-ml|nvJitLink"
    r"|nvjpeg|nvrtc|nvshmem_host|nvToolsExt)|ld-linux-[\w-]+)(?:-[0-9a-f]{6,})?\.so(?:\.|$)"
)
"""Libraries that export no C++ names but those of the runtime: of libc, compilers, Python, CUDA."""
_CUDA = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvblas|nvrtc|nvJitLink|nvfatbin|cupti|nvjpeg|npp[a-z]+)"
    r"(?:-[0-9a-f]{6,})?\.so\.(\d+)"
)
"""Libraries whose first number is the major of their CUDA (NVIDIA's cuda-pathfinder lists all; cudart, cublas
and cublasLt of 11, 12 and 13 are what bitsandbytes 0.50.2 needs, nvrtc and cupti 13 what torch 2.14.1 does).
Not so, for CUDA 11, 12, 13: cufft 10, 11, 12; cusolver 11, 11, 12; cusparse 11, 12, 12; curand always 10."""
_SAYS_CUDA = re.compile(r"cu(?:da)?[_-]?(\d{2})", re.IGNORECASE)


def check_linkage(
    files: Mapping[str, Linkage], *, torch: frozenset[str] | None, cuda_major: int | None
) -> dict[str, list[Finding]]:
    """Check what the files of one wheel, or of wheels that belong together, need of each other and others.

    Args:
        files: path -> linkage, of all that are dynamic.
        torch: names that the libraries of the pinned torch export; None when it is not known.
        cuda_major: major of the CUDA to be used, such as 13; None when it is not known.

    Returns:
        Path -> findings, for files that have any: `cuda-major-mix`, `undefined-torch-symbol`, `own-symbol`.
    """
    found: dict[str, list[Finding]] = {}
    for path, finding in _check_cuda(files, cuda_major):
        found.setdefault(path, []).append(finding)
    own = frozenset[str]().union(*(linkage.defined for linkage in files.values()))
    bundled = {path.rpartition("/")[2]: linkage for path, linkage in files.items()}
    bundled |= {linkage.soname: linkage for linkage in files.values() if linkage.soname}
    for path, linkage in files.items():
        missing = linkage.undefined - own
        if torch is not None:
            missing -= torch
        reached = _reached(linkage, bundled)
        foreign = sorted(
            name for name in reached if not _BARREN.match(name) and not _TORCH_LIBRARY.match(name)
        )
        findings = list(_check_torch(missing, torch, foreign))
        if reached and not foreign:
            uses = any(map(_TORCH_LIBRARY.match, reached)) or any(map(_TORCH.match, linkage.undefined))
            findings += _check_own(missing, any_namespace=torch is not None or not uses)
        if findings:
            found.setdefault(path, []).extend(findings)
    return found


def _reached(linkage: Linkage, bundled: Mapping[str, Linkage]) -> frozenset[str]:
    """Return the libraries outside the wheel that are loaded with a file, as far as the wheel tells."""
    outside: set[str] = set()
    seen: set[str] = set()
    ahead = list(linkage.needed)
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in bundled:
            ahead += bundled[name].needed
        else:
            outside.add(name)
    return frozenset(outside)


def _check_torch(
    missing: frozenset[str], torch: frozenset[str] | None, foreign: list[str]
) -> Iterable[Finding]:
    """Yield what torch should define and does not. With a library that nobody knows it is a warning."""
    names = sorted(name for name in missing if _TORCH.match(name))
    if torch is None or not names:
        return
    text = f"torch does not define {_listed(names)}: it was built against another torch"
    if foreign:
        yield Finding("warning", "undefined-torch-symbol", f"{text}, unless {foreign[0]} defines it")
    else:
        yield Finding("error", "undefined-torch-symbol", text)


def _check_own(missing: frozenset[str], *, any_namespace: bool) -> Iterable[Finding]:
    """Yield names that only the wheel's own sources can define: those of C++, and of a device link.

    Other C names are not judged: extension modules commonly leave those of Python, libc and libm undefined
    without naming the library. Unless `any_namespace`, only names outside namespaces are judged: torch
    exports parts of many projects, so that without knowing torch one cannot tell.
    """
    linked = sorted(name for name in missing if _DEVICE_LINK.match(name))
    if linked:
        text = f"nothing defines {_listed(linked)}: relocatable device code was not linked"
        yield Finding("error", "own-symbol", text)
    names = [name for name in missing if name.startswith("_Z")]
    names = sorted(name for name in names if not _TORCH.match(name) and not _RUNTIME.match(name))
    if not any_namespace:
        names = [name for name in names if _GLOBAL.match(name) and not _TORCH_GLOBAL.match(name)]
    if names:
        text = f"nothing defines {_listed(names)}: a source file was left out of the build"
        yield Finding("error", "own-symbol", text)


def _check_cuda(files: Mapping[str, Linkage], wanted: int | None) -> Iterable[tuple[str, Finding]]:
    """Yield files that need a CUDA of another major than the rest, or than `wanted`.

    A file whose path names the CUDA that it needs (`libbitsandbytes_cuda118.so`) is one of several
    variants, of which the right one is loaded.
    """
    needs: dict[str, dict[int, str]] = {}
    for path, linkage in files.items():
        majors = {int(match[1]): name for name in linkage.needed if (match := _CUDA.match(name))}
        if len(majors) > 1:
            text = f"it needs libraries of several CUDA majors: {', '.join(sorted(majors.values()))}"
            yield path, Finding("error", "cuda-major-mix", text)
        elif majors and not any(int(said) in majors for said in _SAYS_CUDA.findall(path)):
            needs[path] = majors
    if not needs:
        return
    counted = Counter(major for majors in needs.values() for major in majors)
    usual = wanted or max(counted, key=lambda major: (counted[major], major))
    other = next((path for path, majors in needs.items() if usual in majors), None)
    why = f"the CUDA in use has major {usual}" if wanted else f"{other} needs CUDA {usual}"
    for path, majors in needs.items():
        for major, name in majors.items():
            if major != usual:
                yield path, Finding("error", "cuda-major-mix", f"it needs {name}, but {why}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(_shown(name) for name in names[:_SHOWN]) + more


def _shown(name: str) -> str:
    """Return a name as people write it; long ones are cut."""
    text = demangled(name)
    return text if len(text) <= _LENGTH_AT_MOST else f"{text[:_LENGTH_AT_MOST]}..."
