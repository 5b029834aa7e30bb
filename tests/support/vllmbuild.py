"""vLLM's own setup.py and CMake, run up to where compiling would begin: what each source is compiled for.

Real: the sdist, torch, the toolkit, the build requirements, a host compiler that vLLM takes. Stand-ins: the
ten other source trees, which an index does not have. They hold the files that vLLM's CMake files name, all
empty, and a CMakeLists.txt where vLLM runs that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shippedplans import shipped_catalog
from upstreams import lay_sdist

from orchestrator.build.environ import command_environ
from orchestrator.build.venv import add_wheels, make_environment
from orchestrator.model.arch import parse_request
from orchestrator.model.dialects import env_value
from orchestrator.model.lock import LockedFile
from orchestrator.model.placeholders import filled
from orchestrator.source.wheels import fetch_wheels

if TYPE_CHECKING:
    from upstreams import TorchBox

    from orchestrator.build.venv import Environment
    from orchestrator.model.recipe import Recipe
    from orchestrator.store.home import Home

CUTLASS_LIBRARY = LockedFile(
    name="nvidia-cutlass",
    version="4.2.0.0",
    file="nvidia_cutlass-4.2.0.0-py3-none-any.whl",
    sha256="f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6",
    size=6440597,
)
"""CUTLASS's Python package, with which Machete's sources are generated."""

CUTLASS = """\
set(CUTLASS_DIR "${CMAKE_CURRENT_SOURCE_DIR}" CACHE PATH "")
set(CUTLASS_INCLUDE_DIR "${CMAKE_CURRENT_SOURCE_DIR}/include" CACHE PATH "")
"""
# Only the two lines that patch 0004 changes are the project's own. The rest is ours, with vLLM's functions.
FLASH_ATTENTION = """\
cmake_minimum_required(VERSION 3.26)
project(stand_in LANGUAGES CXX CUDA)
set(CUDA_SUPPORTED_ARCHS "8.0;8.6;8.9;9.0")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
    list(APPEND CUDA_SUPPORTED_ARCHS "10.0" "11.0" "12.0")
endif()
cuda_archs_loose_intersection(CUDA_ARCHS "${CUDA_SUPPORTED_ARCHS}" "${CUDA_ARCHS}")
if(TRUE)
    if(TRUE)
        cuda_archs_loose_intersection(FA2_ARCHS "8.0+PTX" "${CUDA_ARCHS}")
    endif()
endif()
set_gencode_flags_for_srcs(SRCS fa2.cu CUDA_ARCHS "${FA2_ARCHS}")
add_library(_vllm_fa2_C OBJECT fa2.cu)
cuda_archs_loose_intersection(FA3_ARCHS "9.0a" "${CUDA_ARCHS}")
set_gencode_flags_for_srcs(SRCS fa3.cu CUDA_ARCHS "${FA3_ARCHS}")
add_library(_vllm_fa3_C OBJECT fa3.cu)
"""
NINJA = """\
#!/bin/sh
# Runs for all that CMake tries out. What vLLM would build is written down, and not built.
case " $* " in
  *" cumem_allocator "*) printf '%s\\n' "$@" > {targets}; exit 1;;
esac
exec {real} "$@"
"""
_NAMED = re.compile(r"\$\{([\w-]+)_SOURCE_DIR\}/([\w./*-]+\.(?:cu|cpp|py))\b")
_TREES = {"deepgemm", "deepselect", "flashkda", "flashmla", "fmha_sm100", "qutlass", "tml_fa4"}
"""What vLLM's CMake files call the trees; a source of the recipe has the same name with `-`."""
_GENCODE = re.compile(r"-gencode arch=(\S+)")
_COMPILERS = ("g++-13", "g++-14", "g++-15", "clang++", "clang++-20", "clang++-19", "clang++-18", "clang++-17")


@dataclass(frozen=True, slots=True)
class Configured:
    """How far vLLM's build came."""

    gencode: dict[str, str]
    """Source of device code -> what its -gencode arguments say, sorted, as `compute_121a,sm_121a`."""
    targets: tuple[str, ...]
    """What it would build."""
    launchers: frozenset[str]
    """Programs that would be put before compilers."""
    log: str


@dataclass(frozen=True, slots=True)
class VllmBox:
    """An environment in which vLLM can be configured."""

    root: Path
    home: Home
    torch: TorchBox
    environment: Environment
    cxx: Path
    recipe: Recipe = field(default_factory=lambda: shipped_catalog().recipe("vllm"))

    @classmethod
    def make(cls, root: Path, torch: TorchBox, home: Home) -> VllmBox:
        """Make one below `root`: torch's layers, and the recipe's build requirements as pip resolves them."""
        recipe = shipped_catalog().recipe("vllm")
        assert recipe.build is not None
        wheels = root / "wheels"
        command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", str(wheels)]
        subprocess.run([*command, *recipe.build.requires], check=True)
        environment = make_environment(root / "env", layers=torch.environment.layers)
        add_wheels(environment, sorted(wheels.glob("*.whl")))
        (root / "tmp").mkdir()
        ninja = environment.bin / "ninja"
        ninja.rename(root / "ninja.real")
        # What a user may have on PATH, and what a build of ours puts there.
        launcher = '#!/bin/sh\nexec "$@"\n'
        programs = dict.fromkeys(("ccache", "sccache", "sparkbuild-launcher"), launcher)
        programs["rustc"] = "#!/bin/sh\necho rustc 1.95.0 '(0 2026-01-01)'\n"
        programs["cargo"] = f"#!/bin/sh\ntouch {root}/cargo-ran\n"
        for name, script in programs.items():
            (environment.bin / name).write_text(script)
            (environment.bin / name).chmod(0o755)
        return cls(root, home, torch, environment, _host_compiler())

    def configure(self, name: str, arch: str, *, patched: bool) -> Configured:
        """Run vLLM's setup.py for a request, until it would compile.

        Args:
            name: of a new folder.
            arch: the request.
            patched: with the recipe's patches.
        """
        folder = self.root / name
        tree = lay_sdist("vllm", folder / "main", self.home)
        trees = self._stand_ins(tree, folder)
        if patched:
            self._patch({"main": tree, **trees})
        targets = folder / "targets"
        ninja = self.environment.bin / "ninja"
        ninja.write_text(NINJA.format(real=self.root / "ninja.real", targets=targets))
        ninja.chmod(0o755)
        done = subprocess.run(
            [self.environment.python, "setup.py", "build_ext"],
            cwd=tree,
            env=self._environ(arch, trees),
            check=False,
            capture_output=True,
            text=True,
        )
        log = done.stdout + done.stderr
        built = list(tree.glob("build/temp.*"))
        if not targets.is_file():
            return Configured({}, (), frozenset(), log)
        (made,) = built
        graph = (made / "build.ninja").read_text(encoding="utf-8")
        words = targets.read_text(encoding="utf-8").split()
        return Configured(
            _gencode(made / "compile_commands.json", {"": tree, **trees}),
            tuple(word for word in words if not word.startswith("-") and not word.isdigit()),
            frozenset(re.findall(r"(\S*(?:ccache|launcher))\s", graph)),
            log,
        )

    def rust(self, name: str) -> tuple[int, str, bool]:
        """Run the part of vLLM's build that is in Rust; return its status, its log, and if it ran cargo."""
        tree = lay_sdist("vllm", self.root / name / "main", self.home)
        done = subprocess.run(
            [self.environment.python, "setup.py", "build_rust"],
            cwd=tree,
            env=self._environ("12.1a", dict.fromkeys(self.recipe.sources, tree)),
            check=False,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr, (self.root / "cargo-ran").exists()

    def _environ(self, arch: str, trees: dict[str, Path]) -> dict[str, str]:
        build = self.recipe.build
        assert build is not None
        extra = {name: filled(value, {"version": "0.33.0"}) for name, value in build.env.items()}
        entries = parse_request(arch).entries
        extra |= {name: env_value(entries, dialect) or "" for name, dialect in self.recipe.arch.env.items()}
        cmake = [extra["CMAKE_ARGS"], "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        for name, source in self.recipe.sources.items():
            if source.env:
                extra[source.env] = str(trees[name])
            if source.cmake:
                cmake.append(f"-D{source.cmake}={trees[name]}")
        extra["CMAKE_ARGS"] = " ".join(cmake)
        return command_environ(
            prefix=self.environment.prefix,
            home=self.root / "tmp",
            tmp=self.root / "tmp",
            jobs=2,
            source_date_epoch=315532800,
            maps={self.root: "box"},
            toolkit=self.torch.toolkit,
            cc=self.torch.compiler.cc,
            cxx=self.cxx,
            extra=extra,
        )

    def _stand_ins(self, tree: Path, folder: Path) -> dict[str, Path]:
        trees = {name: folder / name for name in self.recipe.sources if name != "main"}
        for place in trees.values():
            place.mkdir()
            (place / "not-empty").touch()  # vLLM's condition for taking it
        for file in sorted((tree / "cmake" / "external_projects").glob("*.cmake")):
            for called, path in _NAMED.findall(file.read_text(encoding="utf-8")):
                if called in _TREES:
                    made = trees[called.replace("_", "-")] / path.replace("*", "any")
                    made.parent.mkdir(parents=True, exist_ok=True)
                    made.touch()
        cutlass = trees["cutlass"]
        (cutlass / "include" / "cutlass").mkdir(parents=True)
        (cutlass / "include" / "cutlass" / "cutlass.h").touch()
        (cutlass / "CMakeLists.txt").write_text(CUTLASS)
        (wheel,) = fetch_wheels([CUTLASS_LIBRARY], home=self.home).values()
        with zipfile.ZipFile(wheel) as held:
            names = [name for name in held.namelist() if re.fullmatch(r"cutlass_library/\w+\.py", name)]
            held.extractall(cutlass / "python", names)
        attention = trees["flash-attention"]
        (attention / "CMakeLists.txt").write_text(FLASH_ATTENTION)
        (attention / "fa2.cu").touch()
        (attention / "fa3.cu").touch()
        return trees

    def _patch(self, trees: dict[str, Path]) -> None:
        from orchestrator.source.patch import apply
        from orchestrator.source.patch_format import read_patch

        catalog = shipped_catalog()
        for name, place in trees.items():
            wanted = [patch for patch in self.recipe.patches if patch.source == name]
            apply(place, [read_patch(catalog.patch_file("vllm", patch)) for patch in wanted])


def _host_compiler() -> Path:
    """Return a C++ compiler that vLLM takes: GCC from 13 on, or clang."""
    names = [os.environ.get("SPARKBUILD_TEST_CXX", ""), *_COMPILERS]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    assert found, f"vLLM takes none of this machine's compilers; install one of {', '.join(_COMPILERS)}"
    return Path(found)


def _gencode(commands: Path, trees: dict[str, Path]) -> dict[str, str]:
    """Return the -gencode arguments of each source, by its path in the tree that it is from."""
    found: dict[str, set[str]] = {}
    for entry in json.loads(commands.read_text(encoding="utf-8")):
        if entry["file"].endswith(".cu"):
            names = (
                "/".join(filter(None, (name, entry["file"].removeprefix(f"{place}/"))))
                for name, place in trees.items()
                if entry["file"].startswith(f"{place}/")
            )
            found.setdefault(next(names), set()).update(_GENCODE.findall(entry["command"]))
    return {source: " ".join(sorted(said)).replace("code=", "") for source, said in sorted(found.items())}
