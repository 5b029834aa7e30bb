"""flash-attn-3: for 9.0a alone, whatever else is asked for."""

from __future__ import annotations

import pytest
from shippedplans import shipped_catalog, shipped_plan

from orchestrator.errors import ArchError, NotApplicableError


@pytest.mark.parametrize("arch", ["12.1a", "12.0f", "10.0f", "10.0f;12.1a"])
def test_elsewhere_it_is_a_row_that_says_what_to_use(arch: str) -> None:
    step = shipped_plan(arch).step("flash-attn-3")
    assert step.action == "not-applicable"
    assert "made for 9.0a only" in step.why
    assert "flash-attn, whose kernels run on 12.x" in step.why


def test_alone_it_is_refused() -> None:
    with pytest.raises(NotApplicableError, match=r"flash-attn-3 cannot be built for 12\.1a") as caught:
        shipped_plan("12.1a", "flash-attn-3")
    assert caught.value.exit_code == 2
    assert caught.value.hint
    with pytest.raises(ArchError) as missing:
        shipped_plan("9.0", "flash-attn-3")
    assert missing.value.hint == "write 9.0a"


@pytest.mark.parametrize("arch", ["9.0a", "9.0a;12.1a", "9.0a;10.0f;12.0f"])
def test_it_is_built_for_9_0a_and_nothing_else(arch: str) -> None:
    keyed = shipped_plan(arch).step("flash-attn-3").keyed
    assert keyed.arch == "9.0a"
    assert [str(device) for device in keyed.devices] == ["9.0"]
    assert keyed.arch_env == {"TORCH_CUDA_ARCH_LIST": "9.0a"}
    assert keyed.view.build.env["FLASH_ATTENTION_DISABLE_SM80"] == "TRUE"


def test_cutlass_lies_where_its_submodule_would() -> None:
    sources = shipped_catalog().recipe("flash-attn-3").sources
    assert not sources["main"].submodules
    assert sources["cutlass"].into == "csrc/cutlass"
