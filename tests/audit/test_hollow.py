"""Kernels without work: a fault only when nothing serves the device instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kernelfiles import mangled, module, unpacked

from orchestrator.audit.hollow import find_hollow, findings
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from orchestrator.audit.facts import FileFacts

SPARK, HOPPER, AMPERE = Device(12, 1), Device(9, 0), Device(8, 0)


def told(facts: FileFacts, device: Device = SPARK) -> dict[str, str]:
    """Return code -> text of what is found, without the errors' and warnings' levels."""
    found = list(findings(find_hollow(facts, device), device))
    assert len({finding.code for finding in found}) == len(found)
    return {f"{finding.level} {finding.code}": finding.text for finding in found}


def launched(*names: str) -> str:
    """Return the mangled `cutlass::device_kernel` of a class."""
    return mangled("cutlass::device_kernel", "N" + "".join(f"{len(each)}{each}" for each in names) + "E")


def test_real_guards_are_faults_where_nothing_else_serves() -> None:
    found = find_hollow(unpacked("hollow.so"), SPARK)
    assert found.kernels == 4
    assert {kernel.name: kernel.hollow for kernel in found.faults} == {"guarded": "trap", "asserts": "trap"}
    assert list(told(unpacked("hollow.so"))) == ["error hollow"]
    assert told(unpacked("hollow.so"), HOPPER) == {}


def test_a_kernel_that_is_empty_on_every_arch_is_meant_so() -> None:
    assert "nothing" not in {kernel.name for kernel in find_hollow(unpacked("hollow.so"), SPARK).faults}


def test_without_other_arches_single_guards_cannot_be_told_from_what_is_meant() -> None:
    found = find_hollow(unpacked("hollow121.so"), SPARK)
    assert found.kernels == 4
    assert found.faults == ()


def test_flash_attention_3_for_one_other_chip() -> None:
    """All kernels of all units are empty, and there is one arch only: the guard is seen all the same."""
    first, second = launched("flash", "FlashAttnFwdSm90", "A"), launched("flash", "FlashAttnFwdSm90", "B")
    found = told(module({"sm_121a": f"{first}-"}, {"sm_121a": f"{second}!"}))
    assert found == {
        "error hollow": (
            "2 kernels in 2 containers do nothing or only stop on 12.1, and no variant of them does: "
            f"{', '.join(map(shown, (first, second)))}"
        )
    }


def shown(name: str) -> str:
    """Return a name as it is shown, whether names can be demangled here or not."""
    from orchestrator.audit.names import short

    return short(name, 120)


def test_flash_attention_3_with_the_default_arch_of_nvcc() -> None:
    name = launched("flash", "FlashAttnFwdSm90")
    assert list(told(module({"sm_75": f"{name}-", "compute_75": name}))) == ["error hollow"]


def test_another_class_of_the_same_launcher_is_no_variant() -> None:
    attention, combine = launched("flash", "FlashAttnFwdSm90"), launched("flash", "FlashAttnFwdCombine")
    found = find_hollow(module({"sm_121a": f"{attention}-"}, {"sm_121a": combine}), SPARK)
    assert [kernel.name for kernel in found.faults] == [attention]


def test_variants_in_units_of_their_own_that_say_their_arch() -> None:
    """As FlashMLA: kernels for 9.0 and for 10.0, each built for both, guarded to its own."""
    hopper, blackwell = mangled("sm90::prefill"), mangled("sm100::fwd::decode")
    facts = module(
        {"sm_90a": hopper, "sm_100f": f"{hopper}!"},
        {"sm_90a": f"{blackwell}!", "sm_100f": blackwell},
    )
    for device, idle in ((HOPPER, "decode"), (Device(10, 0), "prefill")):
        found = told(facts, device)
        assert list(found) == ["warning hollow-units", "info guarded"]
        assert idle in found["warning hollow-units"]
    assert told(facts) == {}, "nothing runs on 12.1, and coverage tells of that"


def test_variants_by_a_number_in_the_name() -> None:
    """As in torch: `fmha_sm75` is empty from 8.0 on, where `fmha_sm80` serves."""
    facts = module({"sm_80": "fmha_f16_sm75- fmha_f16_sm80", "sm_120": "fmha_f16_sm75- fmha_f16_sm80"})
    assert told(facts) == {}, "nowhere does it do any work here"
    facts = module({"sm_75": "fmha_sm75 fmha_sm80-", "sm_80": "fmha_sm75- fmha_sm80"})
    assert told(facts, AMPERE) == {
        "info guarded": "1 of 2 kernels does nothing on 8.0; variants of them serve it"
    }


def test_a_unit_without_work_among_others_that_serve() -> None:
    """As machete in vLLM: made for 9.0, while other GEMMs of the module serve 12.1."""
    machete = mangled("cutlass::device_kernel", "N7cutlass4gemm13GemmUniversalI7macheteEE")
    other = mangled("cutlass::device_kernel", "N7cutlass4gemm13GemmUniversalI4sm12EE")
    found = told(module({"sm_90a": machete, "sm_120": f"{machete}-"}, {"sm_120f": other}))
    assert list(found) == ["warning hollow-units", "info guarded"]
    assert found["warning hollow-units"].startswith(
        "1 container holds only kernels without work on 12.1, which leave it to others: "
    )


def test_a_unit_without_work_on_any_arch() -> None:
    found = told(module({"sm_80": "a- b-", "sm_120": "a- b-"}, {"sm_80": "c", "sm_120": "c"}))
    assert list(found) == ["warning hollow-units", "info guarded"]
    assert found["warning hollow-units"].startswith(
        "1 container holds only kernels without work on any arch that they were built for: "
    )


def test_what_runs_by_jit_shows_what_its_machine_code_shows() -> None:
    """As scaled_mm_c2x in vLLM: up to sm_89 and PTX of it, where the kernels for 8.0 only stop."""
    old, new = (
        mangled("cutlass::Kernel2", "17enable_sm80_to_89"),
        mangled("cutlass::Kernel2", "17enable_sm89_to_90"),
    )
    facts = module(
        {"sm_80": f"{old} {new}!", "sm_89": f"{old}! {new}", "compute_89": f"{old} {new}"},
        {"sm_120": "others"},
    )
    found = told(facts)
    assert list(found) == ["warning hollow-jit", "info guarded"]
    assert found["warning hollow-jit"] == (
        "1 container runs on 12.1 by JIT of compute_89 only, and 1 of 2 kernels in it only stops: "
        f"{shown(old)}"
    )
    assert told(facts, AMPERE) == {
        "info guarded": "1 of 2 kernels only stops on 8.0; variants of them serve it"
    }


def test_ptx_alone_tells_nothing() -> None:
    assert told(module({"compute_80": "a b", "sm_75": "a- b"})) == {}


def test_a_driver_that_cannot_compile_the_ptx() -> None:
    facts = module({"sm_75": "a-", "compute_75@9.1": "a"})
    assert find_hollow(facts, SPARK, (9, 1)).kernels == 1
    assert find_hollow(facts, SPARK, (9, 0)).kernels == 0


@pytest.mark.parametrize("name", [mangled("cub::EmptyKernel", "v"), mangled("marlin::MarlinDefault")])
def test_what_is_empty_by_design(name: str) -> None:
    assert told(module({"sm_120": f"{name}-"})) == {}


def test_what_must_be_linked_first_and_what_was_not_read() -> None:
    assert told(module({"sm_121": None}, {"sm_121": ""})) == {}
    assert find_hollow(unpacked("rdc.o"), SPARK).kernels == 0
