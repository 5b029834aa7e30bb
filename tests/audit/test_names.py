"""Names of kernels."""

from __future__ import annotations

import pytest
from kernelfiles import mangled

from orchestrator.audit.names import demangled, family, fits, majors, short

COMBINE = mangled("cutlass::device_kernel", "N5flash19FlashAttnFwdCombineILi64EEE")
GEMM = mangled("cutlass::device_kernel", "NS_4gemm6kernel13GemmUniversalILi1EEE")
ADD = "_ZN2at6native29vectorized_elementwise_kernelILi4EFivEEEviT_"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fmha_f16_sm75", "fmha_f_sm"),
        ("add", "add"),
        ("", ""),
        (ADD, "at::native::vectorized_elementwise_kernel"),
        ("_Z3addPi", "add"),
        ("_ZN4sm906decodeEv", "sm::decode"),
        (mangled("cutlass::Kernel2", "N3one1AE"), "cutlass::Kernel"),
        (COMBINE, "cutlass::device_kernel::flash::FlashAttnFwdCombine"),
        (GEMM, "cutlass::device_kernel::gemm::kernel::GemmUniversal"),
        (mangled("cutlass::device_kernel", "Li4E"), "cutlass::device_kernel"),
        (mangled("cutlass::device_kernel"), "cutlass::device_kernel"),
        (mangled("other::device_kernel", "N3one1AE"), "other::device_kernel"),
        ("_Z", "_Z"),
        ("_ZN", "_ZN"),
        ("_ZN99999999999a", "_ZN99999999999a"),
        ("_ZN9abc", "abc"),
    ],
)
def test_family(name: str, expected: str) -> None:
    assert family(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fmha_f16_sm75", {7}),
        (mangled("sm90::prefill"), {9}),
        (mangled("sm100::prefill::run", "Li64ENS_3fwdE"), {10}),
        (mangled("run", "Lin90EN4arch4Sm90E"), {9}),
        (mangled("run", "N3sm_2oftE"), set()),
        ("FlashAttnFwdSm90", {9}),
        ("enable_sm80_to_sm89", {8}),
        ("sm_121_and_sm_100", {12, 10}),
        ("sm1234", set()),
        ("smem80", set()),
        ("plain", set()),
    ],
)
def test_majors(name: str, expected: set[int]) -> None:
    assert majors(name) == expected


@pytest.mark.parametrize(
    ("pattern", "fit"),
    [
        (COMBINE, True),
        ("_ZN7cutlass13device_kernel*", True),
        ("*FlashAttnFwdCombine*", True),
        ("*FlashAttn?wdCombine*", True),
        ("FlashAttnFwdCombine", False),
        ("*flashattnfwdcombine*", False),
        ("void cutlass::device_kernel<flash::FlashAttnFwdCombine<64>>*", True),
        ("*device_kernel<flash::*", True),
        ("cutlass::*", False),
    ],
)
def test_fits(pattern: str, *, fit: bool) -> None:
    assert fits(pattern, COMBINE) is fit


def test_demangled() -> None:
    assert demangled("_Z3addPi") == "add(int*)"
    assert demangled("add") == "add"
    assert demangled("_Zno") == "_Zno"


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [
        ("_Z3addPi", 100, "add"),
        ("plain", 100, "plain"),
        ("plain", 5, "plain"),
        ("plain", 4, "pla…"),
        ("_ZN12_GLOBAL__N_13addEPFviE", 100, "add"),
        (ADD, 100, "at::native::vectorized_elementwise_kernel<4, int ()>"),
    ],
)
def test_short(name: str, most: int, expected: str) -> None:
    assert short(name, most) == expected
