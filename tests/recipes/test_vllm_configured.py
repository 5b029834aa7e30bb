"""vLLM, configured for real by its own setup.py and CMake: what each source would be compiled for."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vllmbuild import VllmBox

if TYPE_CHECKING:
    from upstreams import TorchBox
    from vllmbuild import Configured

    from orchestrator.store.home import Home

pytestmark = pytest.mark.upstream

TABLE = Path(__file__).parents[1] / "data" / "vllm-0.33-gencode.json"
REQUESTS = ("12.1a", "12.1f", "12.0f", "9.0a;12.1a", "10.0f;12.1a")
FA2, FA3 = "flash-attention/fa2.cu", "flash-attention/fa3.cu"
STATES = ("patched", "unpatched")


@pytest.fixture(scope="module")
def box(torch_box: TorchBox, upstream_home: Home, tmp_path_factory: pytest.TempPathFactory) -> VllmBox:
    return VllmBox.make(tmp_path_factory.mktemp("vllm"), torch_box, upstream_home)


@pytest.fixture(scope="module", params=[(arch, state) for arch in REQUESTS for state in STATES], ids="-".join)
def case(request: pytest.FixtureRequest, box: VllmBox) -> tuple[str, str, Configured]:
    """Return a request, whether with the patches, and what came of it: a minute each."""
    arch, state = request.param
    configured = box.configure(f"{state}-{arch.replace(';', '-')}", arch, patched=state == "patched")
    assert configured.gencode, configured.log[-5000:]
    return arch, state, configured


def test_each_source_gets_what_the_table_says(case: tuple[str, str, Configured]) -> None:
    arch, state, configured = case
    expected = {
        source: row[state][arch]
        for row in json.loads(TABLE.read_text(encoding="utf-8"))
        for source in row["sources"]
        if arch in row[state]
    }
    found = {source: said for source, said in configured.gencode.items() if source not in (FA2, FA3)}
    assert found == expected


def test_flash_attention_2_is_compiled_and_3_for_9_0a_only(case: tuple[str, str, Configured]) -> None:
    arch, state, configured = case
    hopper = "9.0a" in arch
    assert "_vllm_fa2_C" in configured.targets
    assert ("_vllm_fa3_C" in configured.targets) == (hopper or state == "unpatched")
    # The stand-in has the two lines that the patch changes; with its own functions upstream drops the suffix.
    if state == "unpatched":
        assert configured.gencode[FA2] == "compute_80,compute_80 compute_80,sm_80"
    elif arch in ("12.1a", "12.1f", "12.0f"):
        assert "compute_80" not in configured.gencode[FA2]
    # What vLLM would compile for nvcc's default arch: nothing was asked for.
    assert (configured.gencode[FA3] == "") == (not hopper)


def test_compilers_are_called_through_our_launcher_alone(case: tuple[str, str, Configured]) -> None:
    """A ccache and an sccache are on PATH, and setup.py would take them."""
    _, _, configured = case
    assert configured.launchers == {"sparkbuild-launcher"}


def test_the_version_is_the_stacks(case: tuple[str, str, Configured]) -> None:
    _, _, configured = case
    assert "Overriding VLLM version with 0.33.0 from VLLM_VERSION_OVERRIDE" in configured.log


def test_nothing_that_the_probe_refuses_was_said(case: tuple[str, str, Configured], box: VllmBox) -> None:
    _, _, configured = case
    assert box.recipe.probe is not None
    said = configured.log.splitlines()
    assert "-- Building moe_data for archs:" in configured.log
    refused = [line for glob in box.recipe.probe.refuse for line in said if fnmatchcase(line, glob)]
    assert not refused


def test_the_rust_frontend_is_off_whatever_the_machine_has(box: VllmBox) -> None:
    code, log, ran = box.rust("rust")
    assert (code, ran) == (0, False), log
    assert "optional Rust extension vllm.vllm-rs failed" in log
