"""Names of kernels that stay the same from build to build."""

from __future__ import annotations

import pytest

from orchestrator.audit.stablenames import stable


@pytest.mark.parametrize(
    ("name", "same"),
    [
        (
            "_ZN2at4cuda40_GLOBAL__N__b51f33dc_8_Sleep_cu_088d913f11spin_kernelEl",
            "_ZN2at4cuda12_GLOBAL__N_111spin_kernelEl",
        ),
        (
            "_ZN61_GLOBAL__N__c9441e83_23_dcp_direct_kv_gather_cu_d1c01ebb_645628materializeI5uint4EEvPKT_",
            "_ZN12_GLOBAL__N_128materializeI5uint4EEvPKT_",
        ),
        ("_ZN3cub18CUB_300001_SM_10006detail11EmptyKernelIvEEvv", "_ZN3cub3CUB6detail11EmptyKernelIvEEvv"),
        (
            "_ZN3cub44CUB_300001_SM_800_870_890_900_1000_1100_12006detail11EmptyKernelIvEEvv",
            "_ZN3cub3CUB6detail11EmptyKernelIvEEvv",
        ),
        ("_ZN6thrust20THRUST_300001_SM_9004cudaE", "_ZN6thrust6THRUST4cudaE"),
        # an identifier in front that ends with digits
        ("_ZN5sm10040_GLOBAL__N__b51f33dc_8_Sleep_cu_088d913f4spinEv", "_ZN5sm10012_GLOBAL__N_14spinEv"),
    ],
)
def test_what_changes_is_taken_out(name: str, same: str) -> None:
    assert stable(name) == same
    assert stable(same) == same


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "",
        "_ZN5flash16flash_fwd_kernelI3FooEEvT_",
        "_ZN99_GLOBAL__N__b51f33dc_8_Sleep_cu_088d913f4spinEv",  # a length that is wrong
        "_ZN40_GLOBAL__N__nothexes_8_Sleep_cu_088d913f4spinEv",
        "_ZN3cub18CUB_",
        "1" * 5000 + "CUB_1_SM_1",
    ],
)
def test_other_names_stay(name: str) -> None:
    assert stable(name) == name
