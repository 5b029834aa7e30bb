"""flashmla: for Hopper and datacenter Blackwell, each only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import wheelhouse
from shippedplans import shipped_plan

from orchestrator.package.rewrite import finish_wheel, local_version

if TYPE_CHECKING:
    from pathlib import Path

BOTH = ("FLASH_MLA_DISABLE_SM90", "FLASH_MLA_DISABLE_SM100")


@pytest.mark.parametrize(
    ("arch", "effective", "left_out"),
    [
        ("9.0a", "9.0a", ("FALSE", "TRUE")),
        ("9.0a;12.1a", "9.0a", ("FALSE", "TRUE")),
        ("10.0f;12.1a", "10.0f", ("TRUE", "FALSE")),
        ("10.3a", "10.0f", ("TRUE", "FALSE")),
        ("9.0a;10.0f", "9.0a;10.0f", ("FALSE", "FALSE")),
    ],
)
def test_what_was_not_asked_for_is_left_out(arch: str, effective: str, left_out: tuple[str, str]) -> None:
    keyed = shipped_plan(arch).step("flashmla").keyed
    assert keyed.arch == effective
    assert tuple(keyed.view.build.env[name] for name in BOTH) == left_out
    assert keyed.arch_env == {"TORCH_CUDA_ARCH_LIST": effective}


@pytest.mark.parametrize("arch", ["12.1a", "12.0f"])
def test_on_12_x_it_is_a_row_that_says_what_to_use(arch: str) -> None:
    step = shipped_plan(arch).step("flashmla")
    assert step.action == "not-applicable"
    assert "made for 9.0a, 10.0f only" in step.why
    assert "Triton MLA" in step.why


def test_the_time_in_its_version_does_not_reach_what_is_served(tmp_path: Path) -> None:
    local = local_version(toolkit="13.0.88", torch="2.14.0", arches=("sm_90a",))
    finished = []
    for moment in ("2026-12-01-15-30-00", "2026-12-02-07-00-01"):
        folder = tmp_path / moment
        folder.mkdir()
        version = "1.0.0+" + moment.replace("-", ".")
        wheel = wheelhouse.make_wheel(folder, "flash_mla", {"flash_mla/__init__.py": ""}, version=version)[1]
        (folder / "out").mkdir()
        finished.append(finish_wheel(wheel, local=local, epoch=315532800, out=folder / "out"))
    one, two = finished
    assert one.name == "flash_mla-1.0.0+cu130.torch2140.sm90a-py3-none-any.whl"
    assert (one.name, one.read_bytes()) == (two.name, two.read_bytes())
