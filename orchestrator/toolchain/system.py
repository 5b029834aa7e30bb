"""CUDA toolkits that are installed on this machine: where they are, and whether one serves."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import MachineError, ToolkitError
from orchestrator.store.atomic import sha256_file
from orchestrator.toolchain.ask import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.model.stack import Toolkit as Spec
    from orchestrator.store.facts import Facts

_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")
_TOP = re.compile(r"^#\$ TOP=(.+?)\s*$", re.MULTILINE)

# NVIDIA calls an Arm server `sbsa`. A target folder of another machine is for cross builds.
_TARGETS = {"x86_64": ("x86_64-linux",), "aarch64": ("sbsa-linux", "aarch64-linux")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that may be a toolkit, and what led there."""

    root: Path
    origin: str


@dataclass(frozen=True, slots=True)
class Fitness:
    """What a toolkit lacks for a stack; nothing: it serves."""

    root: Path
    version: str | None
    """Of nvcc, such as `13.0.88`."""
    faults: tuple[str, ...]


def candidates(
    facts: Facts, *, environ: Mapping[str, str] | None = None, local: Path = Path("/usr/local")
) -> list[Candidate]:
    """Return where toolkits may be, the likeliest first, each folder once.

    That is CUDA_HOME, CUDA_PATH, the nvcc on the PATH (links followed, wrappers asked), and
    `/usr/local/cuda*`, newest first.
    """
    environ = os.environ if environ is None else environ
    found: dict[Path, Candidate] = {}
    for root, origin in _places(facts, environ, local):
        found.setdefault(root.resolve(), Candidate(root, origin))
    return list(found.values())


def examine(root: Path, spec: Spec, facts: Facts) -> Fitness:
    """Judge a toolkit by its version and its files. Starts nvcc once, and then never while it is the same."""
    nvcc = root / "bin" / "nvcc"
    if not nvcc.is_file():
        return Fitness(root, None, ("bin/nvcc",))
    try:
        said = facts.get_or(nvcc, "nvcc --version", lambda path: ask([path, "--version"]).text)
    except (MachineError, OSError) as error:
        return Fitness(root, None, (f"an nvcc that runs ({getattr(error, 'message', error)})",))
    found = _VERSION.search(said)
    if found is None:
        return Fitness(root, None, ("an nvcc that tells its version",))
    version = found[1]
    if not _satisfies(version, spec.version):
        return Fitness(root, version, (f"CUDA {spec.version} (it is {version})",))
    tools = [name for name, path in _tools(root).items() if path is None]
    headers = [name for name in spec.headers if not _any_has(_include_folders(root), name)]
    libraries = [name for name in spec.libraries if not _any_has(_library_folders(root), name)]
    return Fitness(root, version, (*tools, *headers, *libraries))


def identity(root: Path, facts: Facts) -> str:
    """Return `system-` and one sha256 over nvcc, cicc, ptxas, fatbinary and cuda.h.

    Raises:
        ToolkitError: one of them is missing or cannot be read.
    """
    digests: list[str] = []
    for name, path in _tools(root).items():
        try:
            digests.append(f"{name} {facts.get_or(path or root / name, 'sha256', sha256_file)}")
        except OSError as error:
            raise ToolkitError(
                f"{name} cannot be read: {error.strerror}", where=str(root), hint="choose another with --cuda"
            ) from error
    return f"system-{hashlib.sha256(chr(10).join(digests).encode()).hexdigest()}"


def _places(facts: Facts, environ: Mapping[str, str], local: Path) -> Iterator[tuple[Path, str]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            yield Path(environ[variable]).expanduser().absolute(), variable
    nvcc = shutil.which("nvcc", path=environ.get("PATH", os.defpath))
    if nvcc and (root := _root_of(Path(nvcc).absolute(), facts)):
        yield root, f"{nvcc} on the PATH"
    numbered = [path for path in local.glob("cuda-*") if re.fullmatch(r"cuda-[\d.]+", path.name)]
    newest = sorted(numbered, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)
    for root in (local / "cuda", *newest):
        if root.is_dir():
            yield root, str(root)


def _root_of(nvcc: Path, facts: Facts) -> Path | None:
    """Return the toolkit that an nvcc on the PATH belongs to."""
    real = nvcc.resolve()
    if real.name == "nvcc" and real.parent.name == "bin" and _is_elf(real):
        return real.parent.parent
    # A script, or a compiler cache that bears the name: nvcc itself says where it lies. Its path is kept
    # as it stands, so that a link in it, such as /usr/local/cuda, is followed anew each time.
    try:
        said = facts.get_or(nvcc, "nvcc TOP", lambda path: ask([path, "-dryrun", "-c", "unit.cu"]).text)
    except (MachineError, OSError):
        return None
    found = _TOP.search(said)
    return Path(os.path.normpath(found[1])) if found and found[1].startswith("/") else None


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False


def _satisfies(version: str, specifiers: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifiers).contains(version)


def _tools(root: Path) -> dict[str, Path | None]:
    """Return the files that decide what code comes out; None for one that is not there."""
    wanted = {
        "nvcc": ("bin/nvcc",),
        "cicc": ("nvvm/bin/cicc", "bin/cicc"),
        "ptxas": ("bin/ptxas",),
        "fatbinary": ("bin/fatbinary",),
        "cuda.h": tuple(f"{folder}/cuda.h" for folder in _include_folders(root)),
    }
    return {
        name: next((root / place for place in places if (root / place).is_file()), None)
        for name, places in wanted.items()
    }


def _include_folders(root: Path) -> list[Path]:
    folders = [root / "include", *(root / "targets" / name / "include" for name in _targets())]
    # nvcc 13 adds cccl by itself (nvcc.profile, SYSTEM_INCLUDES).
    return [path for folder in folders for path in (folder, folder / "cccl")]


def _library_folders(root: Path) -> list[Path]:
    folders = [root / "lib64", root / "lib", *(root / "targets" / name / "lib" for name in _targets())]
    return [path for folder in folders for path in (folder, folder / "stubs")]


def _targets() -> tuple[str, ...]:
    return _TARGETS.get(platform.machine(), ())


def _any_has(folders: list[Path], name: str) -> bool:
    # `exists` follows links, so an unversioned name that leads nowhere does not count.
    return any((folder / name).exists() for folder in folders)
