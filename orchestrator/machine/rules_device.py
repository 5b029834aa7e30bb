"""Rules for what is wrong with arches, toolchains and device code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from orchestrator.machine.rules import Found, Rule, note, row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.archvalues import Device

_SINCE: Final[Mapping[int, str]] = {
    89: "11.8",
    90: "11.8",
    100: "12.8",
    103: "12.9",
    110: "13.0",
    120: "12.8",
    121: "12.9",
}
"""SM number -> the first CUDA toolkit that compiles for it. Source: release notes of the toolkit."""

_OTHER_CHIPS: Final[Mapping[str, frozenset[int]]] = {
    "mla": frozenset({9, 10}),
    "machete": frozenset({9}),
    "w4a8": frozenset({9}),
    "allspark": frozenset({8}),
    "c2x": frozenset({7, 8}),
}
"""Word in the name of a kernel of vLLM -> the majors that it is for. Source: vLLM's CMakeLists.txt."""

SM_NUMBER: Final = re.compile(r"(?:sm_?|SM_?|_)(\d{2,3})[af]?(?![0-9])")


def concerns(name: str, device: Device) -> bool:
    """Say whether a kernel that is not built can matter on `device`: its name speaks of no other chip."""
    numbers = [int(number) // 10 for number in SM_NUMBER.findall(name)]
    if numbers:
        return device.major in numbers
    lower = name.lower()
    return all(device.major in majors for word, majors in _OTHER_CHIPS.items() if word in lower)


def _best(found: Found) -> str:
    from orchestrator.model.arch import best_for

    return best_for(found.device)


def first_best(found: Found) -> str:
    """Return the arch to ask for on the device, such as 12.1a."""
    return _best(found).split(" or ", maxsplit=1)[0]


def _corrupt(found: Found) -> str:
    what = found.first or "It"
    if "(2." in what:
        why = f"PyTorch's CMake turns {what} into compute_20 when no list is set"
    elif what.startswith("2."):
        why = f"{found.device} was misread as {what}, which is compute_20"
    else:
        why = f"{what} comes from a list that was guessed or misread"
    return (
        f"The arch that reached the compiler is not the one that was asked for: {why}. Kernels are skipped,"
        " or"
        f" built for the wrong chip. Stop before compiling, and name it: `--arch {first_best(found)}`"
        " (outside"
        f" sparkbuild: TORCH_CUDA_ARCH_LIST={first_best(found)})."
    )


def dropped(found: Found) -> str:
    """Say what to do when kernels are left out."""
    return (
        f"The build goes on without {found.listed or 'kernels'}: for the arch that was asked for they are not"
        f" compiled, and the wheel would lack them. Stop now. Ask for {_best(found)}; where the component's"
        " own"
        " list lacks it, it wants a patch or a newer version. `sparkbuild arch` shows what each build system"
        " makes of a list."
    )


def _suffix(found: Found) -> str:
    target = re.search(r"'sm_(\d{2,3})([af]?)'", found.text)
    if target and target[2]:
        return (
            f"sm_{target[1]}{target[2]} has no such instruction: the kernel is for another chip. Leave that"
            " arch out for it; `sparkbuild plan all` shows what applies to which arch."
        )
    from orchestrator.model.archnotes import best_for
    from orchestrator.model.archvalues import Arch, loads_sass

    named = Arch.from_sm(int(target[1])) if target else None
    # 12.0a would not load on 12.1: whoever compiles sm_120 for it wants 12.1a or 12.0f.
    device = found.device if named is None or loads_sass(named, found.device) else named.device
    best = best_for(device)
    return (
        f"The arch lacks its suffix: instructions such as FP4 exist only for the chip itself or its family."
        " The"
        f" hardware is fine. Ask for {best}: `--arch {best.split(' or ', maxsplit=1)[0]}`. The same again"
        " fails again."
    )


def _extension_suffix(found: Found) -> str:
    return (
        f"torch's extension builder does not read {found.first or 'this arch'} (it knows no f). Ask for"
        f" {first_best(found)}; `sparkbuild arch` shows what each build system understands."
    )


def _since(found: Found) -> str:
    number = re.search(r"(?:sm|compute)_(\d{2,3})", " ".join((*found.names, found.text)))
    since = _SINCE.get(int(number[1])) if number else None
    return f" (it takes CUDA {since} or newer)" if since else ""


def _ptxas(found: Found) -> str:
    arch = f" {found.first}" if found.names else " this arch"
    path = next(iter(found.notes.get("ptxas", ())), "")
    if "triton" in found.notes or "triton" in found.text.lower() or "ptxas-blackwell" in found.text:
        own = path or "triton/backends/nvidia/bin/ptxas"
        return (
            f"Triton's own ptxas ({own}) does not know{arch}{_since(found)}. Set TRITON_PTXAS_PATH to the"
            " ptxas"
            " of a newer toolkit, such as /usr/local/cuda/bin/ptxas, or take a newer Triton."
        )
    return (
        f"The ptxas that ran ({path or 'of the toolkit that comes first'}) does not"
        f" know{arch}{_since(found)}."
        " Take the toolkit that the stack locks, with `--cuda pip`."
    )


def _nvcc(found: Found) -> str:
    arch = found.first or "this arch"
    return (
        f"The nvcc that ran does not know {arch}{_since(found)}: an old one comes first on the PATH. Take the"
        " toolkit that the stack locks, with `--cuda pip`, or name a newer one with `--cuda PATH`."
    )


def _host_compiler(_found: Found) -> str:
    return (
        "Host compiler and CUDA toolkit do not fit: the toolkit is older than this gcc or C library. Take a"
        " newer"
        " toolkit (`--cuda pip`), or an older gcc."
    )


def _tool_version(found: Found) -> str:
    what = f" ({found.listed})" if found.names else ""
    return (
        f"A tool is older than the component needs{what}. In a build, raise it in the recipe's build.requires"
        " and lock again; a system's own tool must be upgraded."
    )


def _ptx(found: Found) -> str:
    module = next(iter(found.notes.get("ops", ())), "")
    which = f"{module} holds" if module else "A module holds"
    often = "" if module else " (In vLLM it is often _vllm_fa2_C.)"
    return (
        f"{which} only PTX for this GPU, made by a newer toolkit than the driver can compile.{often}"
        " `sparkbuild"
        f" audit WHEEL --arch {first_best(found)}` names the modules with PTX only. Build them with machine"
        " code"
        f" (`--arch {first_best(found)}`), or upgrade the driver."
    )


def _driver(found: Found) -> str:
    number = int(found.first or 0)
    knows = f" (it knows CUDA {number // 1000}.{number % 1000 // 10} and older)" if number else ""
    return (
        f"The driver is older than the CUDA toolkit that the program was built with{knows}. Upgrade the"
        " driver; or install, or build, what an older toolkit made (`--cuda PATH` names one). `nvidia-smi`"
        " shows the newest CUDA version that the driver knows."
    )


def _guard(found: Found) -> str:
    if "fmha_cutlass" in found.text:
        return (
            f"The kernel was compiled for {found.device}, and a generated range check refuses to run it. It"
            " wants the"
            " patch of pytorch/pytorch#176243, which raises the range to sm121; build torch again with it."
        )
    return (
        f"The code is there, and a check on the GPU's version refuses {found.device}. It wants a patch of"
        " that"
        " check, or a newer version; where the kernel has no code for this GPU, choose another backend."
    )


def _image(found: Found) -> str:
    device = found.device
    odd = ""
    if device.minor:
        odd = f" Cubins for a sibling chip, such as sm_{device.major}0a, load on {device.major}.0 only."
    return (
        f"The code holds no image that loads on {device}.{odd} `sparkbuild audit WHEEL --arch"
        f" {first_best(found)}` names the modules; build them with `--arch {first_best(found)}`."
    )


RULES: Final[tuple[Rule, ...]] = (
    note("asked", "CUDA target arch", r"CUDA target architectures:\s{0,4}(?P<what>[\d.af;+PTX ]{1,200})\Z"),
    note(
        "kept",
        "CUDA supported target arch",
        r"CUDA supported target architectures:\s{0,4}(?P<what>[\d.af;+PTX ]{0,200})\Z",
    ),
    note("built", "for archs: ", r"Building .{1,100} for archs:\s{0,4}(?P<what>[\d.af;+PTX ]{1,200})\Z"),
    note(
        "ptxas",
        "/ptxas",
        r"(?:\A|[\s'\"`(=])(?P<what>/[\w./+-]{1,200}/ptxas(?:-blackwell)?)(?=[\s'\"`):]|\Z)",
    ),
    note("triton", "PTXASError", r"(?P<what>PTXASError|Triton PTX)"),
    note("capability", "cuda capability", r"which is of cuda capability (?P<what>\d{1,2}\.\d)(?!\d)"),
    note("range", ") - (", r"\((?P<what>\d{1,2}\.\d\) - \(\d{1,2}\.\d)\)"),
    note("ops", "torch.ops.", r"torch\.ops\.(?P<what>\w{1,60})"),
    row(
        "arch-corruption",
        "(2.0)|(2.1)",
        r"(?P<what>\d{1,2}\.\d\(2\.[01]\))",
        _corrupt,
        role="silent",
    ),
    row(
        "arch-corruption",
        "CUDA target arch",
        r"CUDA target architectures:\s{0,4}(?:[^;]{1,20};){0,9}(?P<what>2\.[01])(?![0-9])",
        _corrupt,
        role="silent",
    ),
    row(
        "arch-corruption",
        "Unsupported gpu arch|arch_bin wasn't set",
        r"Unsupported gpu architecture '(?P<what>compute_(?:[2-6]\d|7[0-4]|native|2)|sm_(?:[2-6]\d|7[0-4]))\b"
        r"|arch_bin wasn't set",
        _corrupt,
    ),
    row(
        "arch-dropped",
        "Not building ",
        r"Not building (?P<what>.{1,80}?) (?:as|since|because) (?:there are )?no (?:compatible"
        r"|supported) archs?",
        dropped,
        role="silent",
        concerns=concerns,
    ),
    row(
        "wrong-suffix",
        "not supported on .target|cannot be compiled for arch|Arch conditional|requires .target",
        r"(?:(?:Instruction|Feature|Modifier) '(?P<what>[^']{1,80})' (?:not supported on \.target"
        r"|cannot be compiled for arch"
        r"|requires \.target)|not supported on \.target 'sm_"
        r"|Arch conditional .{1,60} used without targeting)",
        _suffix,
    ),
    row(
        "wrong-suffix",
        "Unknown CUDA arch",
        r"Unknown CUDA arch(?:itecture name)? \(?(?P<what>[\w.+]{1,20})",
        _extension_suffix,
    ),
    row(
        "toolchain-too-old",
        "is not defined for option|Unsupported .version",
        r"ptxas[\w-]{0,20} {1,6}fatal {0,6}: {1,6}(?:Value '(?P<what>sm_\w{1,10})' is not defined"
        r"|Unsupported \.version)"
        r"|Value '(?:sm_\w{1,10})' is not defined for option 'gpu-name'|\A(?:.{0,200}[;:] {0,6})?(?:fatal"
        r"|error) {0,6}: {1,6}Unsupported \.version",
        _ptxas,
    ),
    row(
        "toolchain-too-old",
        "Unsupported gpu arch",
        r"Unsupported gpu architecture '(?P<what>\w{1,20})",
        _nvcc,
    ),
    row(
        "toolchain-too-old",
        "requires CUDA >=|supported on CUDA",
        r"(?P<what>SM \d+\.\w) requires CUDA >=|only supported on CUDA \d+",
        _nvcc,
    ),
    row(
        "toolchain-too-old",
        "unsupported GNU version|error: identifier|is not defined for option 'std'|error: unrecognized",
        r"unsupported GNU version|identifier \"__(?:SV|Float32x|builtin_aarch64)\w{0,60}\" is undefined"
        r"|Value '[\w+]{1,20}' is not defined for option 'std'|unrecognized command[ -]line option '-std=",
        _host_compiler,
    ),
    row(
        "toolchain-too-old",
        "higher is required|exactly by one",
        r"(?:(?P<what>[A-Z]\w{1,30} [\d.]{1,12}) or higher is required"
        r"|`?(?P<key>project\.license)`? must be valid exactly by one)",
        _tool_version,
    ),
    row(
        "ptx-newer-than-driver",
        "unsupported toolchain|UNSUPPORTED_PTX_VERSION|cudaErrorUnsupported",
        r"PTX was compiled with an unsupported toolchain|UNSUPPORTED_PTX_VERSION"
        r"|cudaEcudaErrorUnsupportedPtxVersion",
        _ptx,
    ),
    row(
        "ptx-newer-than-driver",
        "system is too old|version is insufficient|cudaErrorInsufficientDriver",
        r"driver on your system is too old(?: \(found version (?P<what>\d{4,6})\))?"
        r"|CUDA driver version is insufficient for CUDA runtime|cudaErrorInsufficientDriver",
        _driver,
    ),
    row(
        "runtime-guard",
        "but was built for sm|expects arch to be one of|No valid attention backend|nsupported GPU"
        "|only supports ",
        r"is for sm\d{2,3}-sm\d{2,3}, but was built for sm|expects arch to be one of"
        r"|No valid attention backend found"
        r"|RuntimeError: Unsupported GPU|only supports (?:Ampere|Hopper|Blackwell) GPUs",
        _guard,
    ),
    row(
        "wrong-arch-image",
        "no kernel image|cudaErrorNoKernel|ERROR_NO_BINARY|No compiled |Error Internal"
        "|device kernel image is invalid|not compatible with the current PyTorch",
        r"no kernel image is available|cudaEcudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
        r"|No compiled \w{1,80} for .{0,80}capability|\bcutlass\w{0,60}: Error Internal"
        r"|device kernel image is invalid|is not compatible with the current PyTorch installation",
        _image,
    ),
)
