"""What NVIDIA's CUDA 13 wheels need before they serve as a CUDA_HOME.

Put together they are nearly a toolkit: `nvidia/cu13` holds bin, include, lib and nvvm. But nvcc.profile
has the linker look into `lib64` and `lib64/stubs`, libraries bear their versioned names only, and
libcuda.so, which a driver installs, is in no wheel.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from orchestrator.errors import ToolkitError
from orchestrator.toolchain.ask import ask

REPAIRS = 1
"""Raised by hand when a repair changes: layers are then made anew."""

SALT = f"cuda-repairs-{REPAIRS}"

_EXECUTABLE = 0o555
_VERSIONED = re.compile(r"(lib.+\.so)\.\d[\d.]*")

# Library, its soname, a header that declares what it exports, and names to look for there. Names too many
# do no harm: the stub is linked against and never loaded.
_STUBS = (
    ("libcuda.so", "libcuda.so.1", "cuda.h", re.compile(r"\bcu[A-Z]\w*")),
    ("libnvidia-ml.so", "libnvidia-ml.so.1", "nvml.h", re.compile(r"\bnvml[A-Z]\w*(?=\s*\()")),
)
# cuda.h appends these when the default stream is one per thread.
_PER_THREAD = ("", "_ptsz", "_ptds")


def cuda_root(site: Path) -> Path:
    """Return the folder in a layer's `site` that serves as CUDA_HOME.

    Raises:
        ToolkitError: the wheels hold no nvcc, or several.
    """
    found = sorted(site.glob("nvidia/*/bin/nvcc"))
    if len(found) != 1:
        raise ToolkitError(
            f"the locked toolkit wheels hold {len(found) or 'no'} nvcc",
            where=str(site),
            hint="the stack's `toolkit.packages` should name cuda-toolkit[nvcc,cudart,cccl] of one version; "
            "then `sparkbuild lock`",
        )
    return found[0].parent.parent


def repair(tree: Path, cc: Path) -> None:
    """Make a merged tree of CUDA wheels a toolkit that nvcc, linkers and CMake accept.

    Args:
        tree: a layer in the making; files are shared with other layers, so none is changed in place.
        cc: C compiler that makes the stubs. What it writes into them reaches no wheel: a linker reads
            their names and sonames only.

    Raises:
        ToolkitError: no nvcc, or a stub cannot be made.
        ToolMissingError: `cc` cannot be run.
        OSError: as the system says it.
    """
    root = cuda_root(tree / "site")
    lib = root / "lib"
    lib.mkdir(exist_ok=True)
    if not (root / "lib64").exists():
        (root / "lib64").symlink_to("lib", target_is_directory=True)
    _link_unversioned(lib)
    stubs = lib / "stubs"
    stubs.mkdir(exist_ok=True)
    for name, soname, header, names in _STUBS:
        declared = root / "include" / header
        if declared.is_file() and not (stubs / name).exists():
            text = declared.read_text("utf-8", errors="replace")
            exports = sorted({f"{found}{suffix}" for found in names.findall(text) for suffix in _PER_THREAD})
            _make_stub(stubs / name, soname, exports, cc)
    for folder in (root / "bin", root / "nvvm" / "bin"):
        for tool in folder.iterdir() if folder.is_dir() else ():
            if tool.is_file() and not tool.stat().st_mode & 0o111 and _is_program(tool):
                tool.chmod(_EXECUTABLE)  # its mode is no content: other layers want it too


def _link_unversioned(lib: Path) -> None:
    # Shortest first: of libx.so.13 and libx.so.13.1 the former is what the loader is asked for.
    for library in sorted(lib.iterdir(), key=lambda path: (len(path.name), path.name)):
        found = _VERSIONED.fullmatch(library.name)
        if found and not (lib / found[1]).exists():
            (lib / found[1]).symlink_to(library.name)


def _make_stub(path: Path, soname: str, names: list[str], cc: Path) -> None:
    """Make a shared library that exports `names` and does nothing.

    It exports them because distributions link with --as-needed: a library that resolves nothing would
    be left out, and the extension would not find the driver when it is loaded.
    """
    with tempfile.TemporaryDirectory(prefix="sparkbuild-") as folder:
        unit = Path(folder, "stub.c")
        unit.write_text("".join(f"void {name}(void) {{}}\n" for name in names), "utf-8")
        # No -O: not a thing here is run. -nostdlib: the stub must need nothing.
        options = ["-shared", "-fPIC", "-nostdlib", "-w", "-fno-builtin", "-Wl,--build-id=none"]
        answer = ask([cc, *options, f"-Wl,-soname,{soname}", "-o", path, unit])
    if answer.code:
        raise ToolkitError(
            f"the stub of {soname} cannot be linked: {answer.telling_line}",
            where=str(cc),
            hint="set CC to a C compiler that can link a shared library, such as gcc",
        )
    path.chmod(_EXECUTABLE)


def _is_program(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) in {b"\x7fELF", b"#!/b"}
