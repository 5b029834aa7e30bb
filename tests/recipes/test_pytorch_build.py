"""PyTorch's recipe on a small tree of the same shape: what reaches CMake, and what comes out."""

from __future__ import annotations

import json
import zipfile
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from solibs import linkage_of
from torchproject import BACKEND, TorchProject

from orchestrator.audit.dynamic import Linkage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.network, pytest.mark.toolkit]

NVIDIA = tuple(
    f"$ORIGIN/../../nvidia/{name}/lib" for name in ("cudnn", "nvshmem", "nccl", "cusparselt", "cu13")
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, shared_layers: Path) -> TorchProject:
    """Return the project, built."""
    made = TorchProject.make(tmp_path_factory.mktemp("torch"), shared_layers)
    made.build()
    return made


@pytest.fixture(scope="module")
def held(project: TorchProject) -> dict[str, bytes]:
    """Return all files of the wheel."""
    with zipfile.ZipFile(project.wheel) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


@pytest.fixture(scope="module")
def reached(held: dict[str, bytes]) -> dict[str, dict[str, str]]:
    """Return what reached CMake, with the step's own folders as placeholders."""
    found: dict[str, dict[str, Any]] = json.loads(held["torch/reached.json"])
    scratch = found["environment"]["NCCL_ROOT"].removesuffix("/nccl")
    return {
        group: {name: value.replace(scratch, "{work}") for name, value in values.items()}
        for group, values in found.items()
    }


def test_the_environment_that_cmake_forwards(reached: dict[str, dict[str, str]]) -> None:
    ours = {
        name: value
        for name, value in reached["environment"].items()
        if name.startswith(("USE_", "BUILD_", "NCCL_", "CUDNN_", "CUSPARSELT_", "NVSHMEM_", "PYTORCH_", "T"))
    }
    assert {name: value for name, value in ours.items() if name not in ("TMPDIR", "TZ", "PYTORCH_NVCC")} == {
        **dict.fromkeys(("USE_CUDA", "USE_CUPTI_SO", "TH_BINARY_BUILD", "PYTORCH_BUILD_NUMBER"), "1"),
        **dict.fromkeys(("USE_NCCL", "USE_SYSTEM_NCCL", "USE_CUDNN", "USE_CUSPARSELT"), "1"),
        **dict.fromkeys(("USE_NVSHMEM", "USE_CUFILE"), "1"),
        **dict.fromkeys(("USE_CUDA_STATIC_LINK", "USE_STATIC_NCCL", "USE_STATIC_CUDNN"), "0"),
        **dict.fromkeys(("BUILD_TEST", "USE_CUDSS", "USE_MPI", "USE_NUMA", "USE_ROCM", "USE_XPU"), "0"),
        **dict.fromkeys(("USE_MAGMA", "USE_MSLK", "USE_CCACHE"), "0"),
        **({"USE_STATIC_MKL": "1"} if reached["environment"]["BLAS"] == "MKL" else {}),
        "PYTORCH_BUILD_VERSION": "2.14.0",
        "TORCH_CUDA_ARCH_LIST": "12.1a",
        "TORCH_NVCC_FLAGS": "-Xfatbin -compress-all -compress-mode=size",
        "NCCL_ROOT": "{work}/nccl",
        "NCCL_INCLUDE_DIR": "{work}/nccl/include",
        "NCCL_LIB_DIR": "{work}/nccl/lib",
        "CUDNN_ROOT": "{work}/cudnn",
        "CUDNN_INCLUDE_DIR": "{work}/cudnn/include",
        "CUDNN_LIBRARY": "{work}/cudnn/lib",
        "CUSPARSELT_ROOT": "{work}/cusparselt",
        "CUSPARSELT_INCLUDE_DIR": "{work}/cusparselt/include",
        "CUSPARSELT_LIBRARY": "{work}/cusparselt/lib",
        "NVSHMEM_HOME": "{work}/nvshmem",
    }
    assert reached["environment"]["INSTALL_TEST"] == reached["environment"]["ATEN_STATIC_CUDA"] == "0"


def test_what_the_modules_of_pytorch_make_of_it(reached: dict[str, dict[str, str]]) -> None:
    found = dict(reached["cmake"])
    assert " -gencode arch=compute_121a,code=sm_121a " in found.pop("CMAKE_CUDA_FLAGS")
    assert found == {
        "CMAKE_VERSION": BACKEND["cmake"],
        "CMAKE_BUILD_TYPE": "Release",
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "NVCC_FLAGS_EXTRA": "-gencode arch=compute_121a,code=sm_121a",
        "CUDNN_INCLUDE_PATH": "{work}/cudnn/include",
        "CUDNN_LIBRARY_PATH": "{work}/cudnn/lib/libcudnn.so",
        "CUSPARSELT_INCLUDE_PATH": "{work}/cusparselt/include",
        "CUSPARSELT_LIBRARY_PATH": "{work}/cusparselt/lib/libcusparseLt.so",
        "NCCL_INCLUDE_DIRS": "{work}/nccl/include",
        "NCCL_LIBRARIES": "{work}/nccl/lib/libnccl.so",
        "NVSHMEM_INCLUDE_DIR": "{work}/nvshmem/include",
        "NVSHMEM_HOST_LIB": "{work}/nvshmem/lib/libnvshmem_host.so",
        "NVSHMEM_DEVICE_LIB": "{work}/nvshmem/lib/libnvshmem_device.a",
    }


def test_requirements_are_the_published_wheels(project: TorchProject, held: dict[str, bytes]) -> None:
    def stated(metadata: bytes) -> set[str]:
        texts = BytesHeaderParser().parsebytes(metadata).get_all("Requires-Dist", [])
        return {str(Requirement(text)) for text in texts if "extra ==" not in text}

    (metadata,) = (data for name, data in held.items() if name.endswith(".dist-info/METADATA"))
    assert stated(metadata) == stated(project.metadata)
    assert project.wheel.name.startswith("torch-2.14.0+cu130.sm121a-cp")


def test_libraries_look_where_the_published_ones_do(held: dict[str, bytes]) -> None:
    def linkage(name: str) -> Linkage:
        found = linkage_of(held[name])
        assert isinstance(found, Linkage)
        return found

    cuda = linkage("torch/lib/libtorch_cuda.so")
    assert cuda.runpath == linkage("torch/lib/libgomp.so.1").runpath == (*NVIDIA, "$ORIGIN")
    assert {"libnccl.so.2", "libcudnn.so.9", "libcusparseLt.so.0", "libcudart.so.13"} <= set(cuda.needed)
    assert linkage("torch/_C.so").runpath == (*NVIDIA, "$ORIGIN", "$ORIGIN/lib")
    assert linkage("torch/bin/torch_shm_manager").runpath == ("$ORIGIN/../lib",)


def test_the_audit_found_the_arch_in_every_unit(project: TorchProject) -> None:
    again = project.build()
    (row,) = (row for row in again["rows"] if row["name"] == "pytorch")
    assert (row["action"], row["coverage"]) == ("reuse", "sm_121a 2/2")
