"""A stand-in for PyTorch, built by the shipped recipe: its git repository, stack, lock and state folder.

Real are git with a submodule, scikit-build-core, CMake, ninja, nvcc, patchelf and the CMake modules of the
published wheel. NVIDIA's other libraries are small ones of the same names, in wheels of the same names.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from published import members
from tinyproject import DATA, SPARKBUILD, git, make_repository, toolkit_files
from wheelhouse import make_wheel

from orchestrator.inspect.indexed import IndexName, fetch_index_wheel
from orchestrator.model.catalog import Catalog, find_places, lock_file
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource, lock_bytes
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WHEEL = "torch-2.14.0-cp312-cp312-manylinux_2_28_x86_64.whl"
CMAKE = "torch/share/cmake/Caffe2"
# Place in the source: place in the wheel, which keeps three of them apart from where they come from.
MODULES = {
    "public": ("cuda.cmake", "utils.cmake"),
    "Modules": ("FindCUDAToolkit.cmake", "FindCUDSS.cmake", "FindCUSPARSELT.cmake"),
    "Modules_CUDA_fix": ("FindCUDA.cmake", "FindCUDNN.cmake"),
    "Modules_CUDA_fix/upstream": (
        "CMakeInitializeConfigs.cmake",
        "FindCUDA.cmake",
        "FindPackageMessage.cmake",
        "FindCUDA/make2cmake.cmake",
        "FindCUDA/parse_cubin.cmake",
        "FindCUDA/run_nvcc.cmake",
        "FindCUDA/select_compute_arch.cmake",
    ),
}
METADATA = "torch-2.14.0.dist-info/METADATA"
BACKEND = {
    "scikit-build-core": "1.1.2",
    "pathspec": "1.1.1",
    "packaging": "26.4",
    "cmake": "4.4.5",
    "ninja": "1.13.2",
}
# Distribution: folder, header, what stands in it, library, what it exports.
LIBRARIES = {
    "nvidia-nccl-cu13": ("nvidia/nccl", "nccl.h", "", "libnccl.so.2", "ncclGetVersion"),
    "nvidia-cudnn-cu13": (
        "nvidia/cudnn",
        "cudnn.h",
        "#define CUDNN_MAJOR 9",
        "libcudnn.so.9",
        "cudnnGetVersion",
    ),
    "nvidia-cusparselt-cu13": (
        *("nvidia/cusparselt", "cusparseLt.h", "#define CUSPARSELT_VER_MINOR 8"),
        *("libcusparseLt.so.0", "cusparseLtGetVersion"),
    ),
    "nvidia-nvshmem-cu13": ("nvidia/nvshmem", "nvshmem.h", "", "libnvshmem_host.so.3", "nvshmemx_init"),
    "nvpl-blas": ("nvpl", "nvpl_blas_cblas.h", "", "libnvpl_blas_core.so.0", "dgemm_"),
}
NVPL = ("libnvpl_blas_lp64_gomp.so.0", "libnvpl_lapack_core.so.0", "libnvpl_lapack_lp64_gomp.so.0")
STACK = """\
schema: sparkbuild.stack/1
name: stand-in
summary: The shipped recipe of PyTorch on a small tree
platforms: [linux-x86_64, linux-aarch64]
pythons: ["3.11", "3.12", "3.13", "3.14"]
toolkit:
  version: "==13.0.*"
  packages: ["cuda-toolkit[nvcc,cudart]==13.0.3"]
  headers: [cuda_runtime.h]
components:
  pytorch:
    version: "2.14.0"
    sources: {{main: {{git: "{url}"}}}}
    commits: {{main: "{commit}"}}
  triton: {{version: "3.8.0", prebuilt: true}}
"""


TRITON = """\
schema: sparkbuild.recipe/1
name: triton
summary: A stand-in
"""


@dataclass(frozen=True)
class TorchProject:
    """All of it below `root`."""

    root: Path
    home: Home
    metadata: bytes
    """METADATA of the published wheel."""

    @classmethod
    def make(cls, root: Path, shared: Path) -> TorchProject:
        """Make repositories, stack and lock; layers and downloads are shared between tests."""
        home = Home(root / "home")
        home.claim()
        for name in ("wheels", "layers", "downloads"):
            (shared / name).mkdir(parents=True, exist_ok=True)
            (home.root / name).symlink_to(shared / name)
        modules = {
            f"cmake/{folder}/{name}": f"{CMAKE}/{'' if folder == 'Modules' else f'{folder}/'}{name}"
            for folder, names in MODULES.items()
            for name in names
        }
        published = members(WHEEL, (*modules.values(), METADATA), shared)
        commit = _repository(root, {place: published[name] for place, name in modules.items()})
        project = cls(root, home, published[METADATA])
        project.write(commit)
        return project

    @property
    def wheel(self) -> Path:
        """The one wheel that is served."""
        (wheel,) = (self.root / "dist/stand-in").glob("*.whl")
        return wheel

    def build(self, *arguments: str) -> dict[str, Any]:
        """Build, which must go well, and return the run's JSON."""
        command = [*SPARKBUILD, "--recipes", str(self.root / "recipes"), "pytorch", "--stack", "stand-in"]
        ran = subprocess.run(
            [*command, "--arch", "12.1a", "--cuda", "pip", "--json", *arguments],
            cwd=self.root,
            env=os.environ | {"SPARKBUILD_HOME": str(self.home.root)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        report: dict[str, Any] = json.loads(ran.stdout)
        return report

    def write(self, commit: str) -> None:
        """Write stack and lock."""
        stacks = self.root / "recipes" / "stacks"
        stacks.mkdir(parents=True)
        repository = self.root / "pytorch"
        (stacks / "stand-in.yaml").write_text(STACK.format(url=repository.as_uri(), commit=commit))
        target = Target.here()
        catalog = Catalog(find_places([stacks.parent]))
        stack = catalog.stack("stand-in")
        (self.root / "made").mkdir()
        requires = [*self._libraries(), *(self._fetched(name, version) for name, version in BACKEND.items())]
        lock = Lock(
            schema="sparkbuild.lock/1",
            stack=stack.name,
            platform=target.platform,
            python=target.python,
            inputs=lock_inputs(stack, catalog.recipes(stack.components), target),
            toolkit=toolkit_files(target),
            components={
                "pytorch": LockedComponent(
                    version="2.14.0",
                    sources={"main": LockedSource(commit=commit)},
                    requires=tuple(sorted(requires)),
                ),
                "triton": LockedComponent(version="3.8.0", prebuilt=self._made("triton", {}, "3.8.0")),
            },
        )
        (stacks / lock_file(stack.name, target)).write_bytes(lock_bytes(lock))
        # The shipped recipe expects of a published triton what a stand-in does not hold.
        (stacks.parent / "triton.yaml").write_text(TRITON)

    def _libraries(self) -> list[LockedFile]:
        made = []
        for name, (folder, header, words, library, exported) in LIBRARIES.items():
            text = f'#pragma once\n{words}\nextern "C" int {exported}();\n'
            files: dict[str, bytes | str] = {
                f"{folder}/include/{header}": text,
                f"{folder}/lib/{library}": self._compiled(library, exported),
            }
            if folder == "nvidia/nvshmem":
                files[f"{folder}/lib/libnvshmem_device.a"] = b"!<arch>\n"
            if folder == "nvpl":
                files |= {f"nvpl/lib/{each}": self._compiled(each, exported) for each in NVPL}
            made.append(self._made(name, files))
        return made

    def _compiled(self, library: str, exported: str) -> bytes:
        unit = self.root / "made" / "unit.c"
        unit.write_text(f"int {exported}(void) {{ return 7; }}\n")
        target = self.root / "made" / library
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(target), str(unit)]
        subprocess.run(command, check=True)
        return target.read_bytes()

    def _made(self, name: str, files: Mapping[str, bytes | str], version: str = "1.0") -> LockedFile:
        """Make a wheel and put it where downloads lie."""
        locked, path = make_wheel(self.root / "made", name, files, version=version)
        place = self.home.downloads / locked.sha256
        place.mkdir(exist_ok=True)
        path.replace(place / path.name)
        return locked

    def _fetched(self, name: str, version: str) -> LockedFile:
        """Download a wheel from the index."""
        path = fetch_index_wheel(IndexName(name, version), platform=None, python=None, home=self.home)
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        return LockedFile(name=name, version=version, file=path.name, sha256=digest, size=len(data))


def _repository(root: Path, modules: Mapping[str, bytes]) -> str:
    """Make the repository with its submodule and return the commit."""
    make_repository(root / "tinymath", DATA / "tinymath")
    repository = root / "pytorch"
    make_repository(repository, DATA / "torch")
    for place, data in modules.items():
        (repository / place).parent.mkdir(parents=True, exist_ok=True)
        (repository / place).write_bytes(data)
    git(repository, "submodule", "-q", "add", "../tinymath", "third_party/tinymath")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "with the modules of the published wheel")
    return git(repository, "rev-parse", "HEAD")
