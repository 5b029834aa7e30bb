"""Listings of device code, and what they say of a device."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from orchestrator.machine.diagnose import diagnose
from orchestrator.model.arch import Device

if TYPE_CHECKING:
    from orchestrator.machine.faults import Diagnosis


def judged(text: str, device: str = "12.1") -> Diagnosis:
    return diagnose(io.BytesIO(text.encode()), device=Device.parse(device))


@pytest.mark.parametrize(
    ("text", "device", "summary"),
    [
        ("a.so  elf sm_80 sm_121a  ptx sm_80", "12.1", "exact for 12.1 through sm_121a"),
        ("a.so  elf sm_80 sm_120  ptx", "12.1", "compatible with 12.1 through sm_120, not exact"),
        ("a.so  elf sm_120f", "12.1", "compatible with 12.1 through sm_120f, not exact"),
        ("a.so  elf sm_90 ptx sm_80", "9.0", "exact for 9.0 through sm_90"),
        ("['sm_80', 'sm_120']", "12.1", "compatible with 12.1 through sm_120, not exact"),
        (">>> ['sm_80', 'compute_90']", "12.1", "runs on 12.1 only as the driver compiles its PTX"),
        ("ELF file    1: a.1.sm_90.cubin\nPTX file    1: a.1.sm_90.ptx", "12.1", "runs on 12.1 only as"),
        ("Fatbin elf code:\n======\narch = sm_121\n", "12.1", "exact for 12.1 through sm_121"),
        ("Fatbin ptx code:\n======\narch = sm_80\n", "12.1", "runs on 12.1 only as"),
    ],
)
def test_what_loads(text: str, device: str, summary: str) -> None:
    diagnosis = judged(text, device)
    assert diagnosis.faults == ()
    assert diagnosis.summary.startswith(f"no fault found: {summary}")


@pytest.mark.parametrize(
    ("text", "device", "words"),
    [
        ("a.so  elf sm_120a  ptx", "12.1", ["sm_120a loads on 12.0 only", "12.1a or 12.0f"]),
        ("a.so  elf sm_75  ptx", "12.1", ["sm_75 loads on 7.5 only"]),
        ("a.so  elf sm_121a  ptx", "12.0", ["sm_121a loads on 12.1 only"]),
        ("ELF file 1: a.1.sm_100f.cubin", "12.1", ["sm_100f loads on 10.0, 10.3"]),
        ("['sm_121', 'compute_121']", "12.0", ["sm_121, compute_121"]),
        ("a.so  elf  ptx", "12.1", ["no image"]),
    ],
)
def test_what_does_not(text: str, device: str, words: list[str]) -> None:
    (fault,) = judged(text, device).faults
    assert (fault.fault_class, fault.line, fault.evidence) == ("wrong-arch-image", 1, text)
    assert [word for word in words if word not in fault.advice] == []


def test_of_several_modules_those_that_load_nothing_are_named() -> None:
    text = "a.so elf sm_120 ptx\nb.so elf sm_90a ptx\nc.so elf sm_75 ptx\n"
    diagnosis = judged(text)
    (fault,) = diagnosis.faults
    assert (fault.line, fault.count) == (2, 2)
    assert diagnosis.summary == "nothing in b.so, c.so loads on 12.1"
    assert "(a.so)" in judged("a.so elf sm_120 ptx\nb.so elf sm_121a ptx").summary


def test_our_own_audit() -> None:
    head = "PASS  x.whl\n      75 of 75 containers\n\n  verdict exact compat jit none total  module\n"
    assert "exact for 12.1" in judged(f"{head}  native     71      0   0    0    71  a.so\n").summary
    assert "not exact" in judged(f"{head}  native      1      1   0    0     2  a.so\n").summary
    assert "part of the code" in judged(f"{head}  partial     1      1   0    3     5  a.so\n").summary
    (fault,) = judged(f"{head}  none     0      0   0    3     3  a.so\n      3 none: only sm_90\n").faults
    assert "a.so" in fault.advice


@pytest.mark.parametrize(
    "text",
    [
        "nvcc -gencode arch=compute_121a,code=sm_121a -c a.cu",
        "copying build/lib/a.sm_90/x.py",
        "the elf sm_x ptx",
    ],
)
def test_other_text_is_no_listing(text: str) -> None:
    assert judged(text).summary == "no fault found"


def test_a_log_with_a_fault_comes_before_a_listing_in_it() -> None:
    diagnosis = judged("RuntimeError: CUDA error: no kernel image is available\n['sm_75']\n")
    assert [fault.line for fault in diagnosis.faults] == [1]
