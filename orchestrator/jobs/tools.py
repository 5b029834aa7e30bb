"""The scripts that stand for compilers in a build, and the variables that make builds use them."""

from __future__ import annotations

import py_compile
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = Path(__file__).parents[1]
_MODULES = ("__init__.py", "jobs/__init__.py", "jobs/command.py", "jobs/wrapper.py")
LAUNCHER = "sparkbuild-launcher"
GATE = "sparkbuild-gate"
_FLAGS = "-ISXutf8"
"""Nothing of the user's, no site-packages, and bytes as they are; in one word, as `#!` takes no more."""
_LINE_LIMIT = 120
"""Of a line after `#!`; kernels before 5.1 read 127 bytes."""


def write_tools(folder: Path, compilers: Mapping[str, Path]) -> None:
    """Write the scripts into a new folder: launcher, gate, and one by each compiler's name.

    What they run is compiled beside them, so that it starts fast wherever we are installed, and stays the
    same when we are updated under a running build.

    Args:
        folder: made here. Its path must not hold a space: ccache splits CCACHE_PREFIX there.
        compilers: name, such as `nvcc` or `g++`, and the compiler behind it.
    """
    real = folder / ".real"
    real.mkdir(parents=True)
    library = folder / ".lib"
    for module in _MODULES:
        _compile(module, library)
    _script(folder / LAUNCHER, library, "launch", "sys.argv[1:]")
    _script(folder / GATE, library, "gate", "sys.argv[1:]")
    for name, compiler in compilers.items():
        (real / name).symlink_to(compiler)
        _script(folder / name, library, "launch", f"[{str(compiler)!r}, *sys.argv[1:]]")


def shadow(folder: Path, toolkit: Path) -> Path:
    """Make a toolkit folder whose nvcc is ours, for builds that call `$CUDA_HOME/bin/nvcc`; return it.

    All else in it are links. nvcc itself finds its parts beside the real one.

    Args:
        folder: as given to `write_tools`, with an `nvcc`.
        toolkit: the real CUDA_HOME.
    """
    place = folder / "cuda"
    (place / "bin").mkdir(parents=True)
    for part in toolkit.iterdir():
        if part.name != "bin":
            (place / part.name).symlink_to(part)
    for program in (toolkit / "bin").iterdir():
        (place / "bin" / program.name).symlink_to(program if program.name != "nvcc" else folder / "nvcc")
    return place


def narrow_ninja(folder: Path, *, search: str, prefix: Path, unit: str) -> None:
    """Put a script before ninja that asks it for one object only; see `jobs.onlyone`.

    Without a ninja, nothing is put: builds ask whether there is one. That of the environment is replaced:
    some builds look for it there, and not on PATH.

    Args:
        folder: as given to `write_tools`.
        search: the PATH on which the real one is.
        prefix: the build environment.
        unit: glob on the end of the path of the object's source.
    """
    found = shutil.which("ninja", path=search)
    if found is None:
        return
    ninja = Path(found)
    if ninja.is_relative_to(prefix):
        ninja = ninja.rename(folder / ".real-ninja")
        Path(found).symlink_to(folder / "ninja")
    library = folder / ".lib"
    _compile("jobs/onlyone.py", library)
    code = f"from orchestrator.jobs.onlyone import main\nmain({str(ninja)!r}, sys.argv[1:], {unit!r})\n"
    _write(folder / "ninja", library, code)


def variables(
    folder: Path, *, broker: str, step: str, ccache: Path | None = None, silence_s: float | None = None
) -> dict[str, str]:
    """Return the variables that bring a build's compilers to the broker. `folder` also goes first on PATH.

    CMake takes launchers (CMAKE_<LANG>_COMPILER_LAUNCHER; they serve compilers that a project names by their
    full path), torch's extension builder and FlashInfer a command (PYTORCH_NVCC,
    FLASHINFER_NVCC_LAUNCHER), all others CC and CXX.

    Args:
        folder: as given to `write_tools`.
        broker: the broker's address.
        step: the step's name.
        ccache: the program; None: without.
        silence_s: seconds after which a broker that says nothing is done without; None: 30.
    """
    real = {path.name: str(path.readlink()) for path in sorted((folder / ".real").iterdir())}
    found = {
        "SPARKBUILD_BROKER": broker,
        "SPARKBUILD_COMPILERS": ":".join(dict.fromkeys(real.values())),
        "SPARKBUILD_GATE": str(folder / GATE),
        "SPARKBUILD_STEP": step,
        "SPARKBUILD_TOOLS": str(folder),
        "CMAKE_C_COMPILER_LAUNCHER": str(folder / LAUNCHER),
        "CMAKE_CXX_COMPILER_LAUNCHER": str(folder / LAUNCHER),
    }
    if ccache is not None:
        found["SPARKBUILD_CCACHE"] = str(ccache)
    if silence_s is not None:
        found["SPARKBUILD_SILENCE_S"] = str(silence_s)
    for variable, names in (("CC", ("gcc", "cc", "clang")), ("CXX", ("g++", "c++", "clang++"))):
        name = next((name for name in names if name in real), None)
        if name is not None:
            found[variable] = str(folder / name)
    if "nvcc" in real:
        found["CMAKE_CUDA_COMPILER_LAUNCHER"] = found["FLASHINFER_NVCC_LAUNCHER"] = str(folder / LAUNCHER)
        found["PYTORCH_NVCC"] = str(folder / "nvcc")
    return found


def _compile(module: str, library: Path) -> None:
    target = library / "orchestrator" / f"{module}c"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(_PACKAGE / module), str(target), doraise=True, optimize=2, invalidation_mode=mode)


def _script(path: Path, library: Path, role: str, command: str) -> None:
    _write(path, library, f"from orchestrator.jobs.wrapper import main\nmain({role!r}, {command})\n")


def _write(path: Path, library: Path, code: str) -> None:
    python = getattr(sys, "_base_executable", None) or sys.executable
    code = f"import sys\nsys.path.insert(0, {str(library)!r})\n{code}"
    line = f"#!{python} {_FLAGS}"
    if len(line) > _LINE_LIMIT or " " in python:
        # the same by way of a shell, which takes half a millisecond more
        code = f'exec {shlex.join([python, _FLAGS, "-c", code])} "$@"\n'
        line = "#!/bin/sh"
    path.write_text(f"{line}\n{code}")
    path.chmod(0o755)
