"""Wheels that claim CUDA and hold no device code."""

from __future__ import annotations

import pytest

from orchestrator.audit.claims import check_claim

RUNTIME, DRIVER, TORCH = "libcudart.so.13", "libcuda.so.1", "libtorch.so"


@pytest.mark.parametrize(
    ("name", "version", "needed", "level"),
    [
        ("vision", "0.29.0+cu130", (), "error"),
        ("flash-attn", "2.8.3+cu12torch2.8cxx11abiTRUE", (), "error"),
        ("kernels", "1.0+torch2140.cu130.sm121a", (), "error"),
        ("kernels", "1.0", (TORCH, RUNTIME), "error"),
        ("kernels", "1.0", ("libcudart-c3a75b33.so.12.8.90",), "error"),
        ("kernels-cu13", "1.0", (RUNTIME,), "error"),
        ("kernels-cu13", "1.0", (DRIVER,), "warning"),
        ("cupy_cuda13x", "14.2.0", (), "warning"),
        ("kernels-cu130", "1.0", (), "warning"),
        ("triton", "3.8.0", (DRIVER,), "info"),
        ("triton", "3.8.0", (), None),
        ("kernels", "1.0+cpu", (TORCH,), None),
        ("kernels", "1.0+custom.1", (TORCH,), None),
        ("cuckoo13", "1.0", (), None),
        ("torch", "2.14.1", ("libcudart_static.so", "libcudadebugger.so"), None),
        ("nvidia-cuda-runtime-cu13", "13.0.96", (), None),
        ("nvidia_cufile_cu13", "1.15", (RUNTIME,), None),
        ("cuda-bindings", "13.0.3", (), None),
    ],
)
def test_claims(name: str, version: str, needed: tuple[str, ...], level: str | None) -> None:
    found = check_claim(name, version, needed, has_device_code=False)
    assert [finding.level for finding in found] == ([level] if level else [])
    assert {finding.code for finding in found} <= {"claims-cuda"}
    assert check_claim(name, version, needed, has_device_code=True) == []


def test_the_claim_is_named() -> None:
    (finding,) = check_claim("vision", "0.29.0+cu130", [RUNTIME], has_device_code=False)
    assert finding.text == (
        "it holds no device code, but its version 0.29.0+cu130 says that it was built for CUDA"
    )
