"""Names of kernels that stay the same from build to build."""

from __future__ import annotations

import pytest

from orchestrator.audit.stablenames import stable

BARRIER = "_ZN4c10d16symmetric_memory14barrier_kernelEPPjiiim"


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
        # a static kernel, behind the id of its file: torch 2.14.0 and 2.14.1
        (
            f"__nv_static_48__a7f2b488_20_nvshmem_extension_cu_7a258fee_39268_{BARRIER}",
            BARRIER,
        ),
        (
            f"__nv_static_48__0c1d2e3f_20_nvshmem_extension_cu_516304e7_39268_{BARRIER}",
            BARRIER,
        ),
        (
            "__nv_static_28__5ba52bd0_7_topk_cu_f2f78010__ZN37_INTERNAL_5ba52bd0_7_topk_cu_f2f780104cuda3stdE",
            "_ZN12_GLOBAL__N_14cuda3stdE",
        ),
        (
            "_ZN57_INTERNAL_a7f2b488_20_nvshmem_extension_cu_7a258fee_392684cuda3std3__45__cpo5beginE",
            "_ZN12_GLOBAL__N_14cuda3std3__45__cpo5beginE",
        ),
        # the id of a file where no length says how long it is
        ("__fatbinwrap_a7f2b488_20_nvshmem_extension_cu_7a258fee_39268", "__fatbinwrap_nvshmem_extension_cu"),
        ("_x_516304e7_14_init_device_cu_7a258fee__k", "_x_init_device_cu__k"),
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
        "__nv_static_48__a7f2b488_20_short",
        "__nv_static_20__a7f2b488_20_nvshmem_extension_cu_7a258feeabc",  # a length that is wrong
        "k_a7f2b488_19_nvshmem_extension_cu_7a258fee_3",  # a length that is wrong
        "1" * 5000 + "CUB_1_SM_1",
    ],
)
def test_other_names_stay(name: str) -> None:
    assert stable(name) == name
