"""`sparkbuild probe` on the tiny project, with the real nvcc."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from processes import survivors

if TYPE_CHECKING:
    from tinyproject import Ran, TinyProject

pytestmark = pytest.mark.toolkit

BROKEN = """\
Why: to fail.
--- a/csrc/{unit}.cu
+++ b/csrc/{unit}.cu
@@ -1,1 +1,2 @@
 #include "tinymath.cuh"
+int broken = no_such_name;
"""
OTHER_ARCH = """\
Why: to compile for something else.
--- a/tinybuild.py
+++ b/tinybuild.py
@@ -16,1 +16,1 @@
-    gencode = os.environ["TINY_NVCC_GENCODE"].split()
+    gencode = ["-gencode", "arch=compute_90,code=sm_90"]
"""
TRAPS = """\
Why: to have a kernel that only traps, as guards make of one that the arch does not have.
--- a/csrc/shift.cu
+++ b/csrc/shift.cu
@@ -5,2 +5,2 @@
-  if (i < n) data[i] = tinymath::fused(data[i], 1.0f, shift);
+  __trap();
 }
"""


def probed(tiny: TinyProject, unit: str = "csrc/shift.cu", **probe: Any) -> tuple[Ran, dict[str, Any]]:
    """Probe the second of the two units, see that nothing is left running, and return the one row."""
    tiny.probe = {"unit": unit, **probe}
    tiny.write()
    ran = tiny.run("probe", "--stack", "tiny", "--json")
    assert survivors(str(tiny.home)) == []
    (row,) = json.loads(ran.out)["rows"]
    return ran, row


def compiled(tiny: TinyProject) -> dict[str, str]:
    """Return unit -> what became of it, in the newest run."""
    path = max(tiny.home.glob("logs/*/tiny-cuda.units.jsonl"))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {record["unit"]: record["how"] for record in records}


def test_one_unit_is_compiled_and_audited_and_the_build_has_it_from_the_cache(tiny: TinyProject) -> None:
    ran = tiny.run("probe", "all", "--stack", "tiny")
    assert ran.code == 0, ran.err
    assert "passes: sm_121a 1/1" in ran.out
    assert compiled(tiny) == {"csrc/scale.cu": "ran"}, (
        "without a name it is the first, and the others are not"
    )
    assert not list(tiny.home.glob("work/*")), "its tree goes"
    assert not list(tiny.home.glob("artifacts/*"))
    assert json.loads(tiny.run("plan", "--stack", "tiny", "--json").out)["steps"][0]["action"] == "build"
    tiny.build()
    found = {name: how for name, how in compiled(tiny).items() if name.endswith(".cu")}
    assert found == {"csrc/scale.cu": "hit", "csrc/shift.cu": "ran"}


def test_a_build_that_compiles_one_after_another_gets_to_the_unit_that_is_meant(tiny: TinyProject) -> None:
    ran, row = probed(tiny)
    assert ran.code == 0, ran.err
    assert (row["result"], row["unit"], row["images"]) == ("passes", "csrc/shift.cu", ["sm_121a"])
    assert (row["asked"], row["coverage"]) == (2, "sm_121a 1/1")
    assert 0 < row["cpu_s"] < 60
    assert probed(tiny)[1]["cached"], "the second time it costs nothing"


def test_a_unit_for_another_arch_is_stopped(tiny: TinyProject) -> None:
    tiny.add_patch(text=OTHER_ARCH)
    ran, row = probed(tiny)
    assert (ran.code, row["result"]) == (3, "falls-short")
    assert "csrc/scale.cu would hold sm_90, of which nothing loads on 12.1" in ran.err
    assert compiled(tiny) == {"csrc/scale.cu": "refused"}


def test_an_object_that_holds_less_than_its_flags_said_falls_short(tiny: TinyProject) -> None:
    """Its kernels do no work: what a guard against the arch leaves of them."""
    tiny.add_patch(text=TRAPS)
    ran, row = probed(tiny)
    assert (ran.code, row["result"]) == (3, "falls-short"), ran.err
    assert "the object of csrc/shift.cu does not hold what is asked for" in ran.err
    assert list(tiny.home.glob("work/*-probe/tiny-cuda/object/unit.o")), "it is kept to look at"


def test_a_unit_that_does_not_compile_is_a_failed_build(tiny: TinyProject) -> None:
    tiny.add_patch(text=BROKEN.format(unit="shift"))
    ran, row = probed(tiny)
    assert (ran.code, row["result"]) == (1, "failed")
    assert 'csrc/shift.cu(2): error: identifier "no_such_name" is undefined' in ran.err
    assert row["log"] in ran.err


def test_a_patch_that_does_not_apply_is_told_before_anything_is_compiled(tiny: TinyProject) -> None:
    tiny.add_patch(text=BROKEN.format(unit="shift").replace("tinymath.cuh", "other.cuh"))
    ran, row = probed(tiny)
    assert (ran.code, row["result"], row["log"]) == (1, "failed", None)
    assert "other.cuh" in ran.err


def test_what_the_recipe_refuses_to_read_stops_it(tiny: TinyProject) -> None:
    ran, row = probed(tiny, refuse=["*nvcc * csrc/scale.cu *"])
    assert (ran.code, row["result"]) == (3, "falls-short")
    assert "the build says what its recipe refuses (*nvcc * csrc/scale.cu *)" in ran.err


def test_a_unit_that_the_build_never_asks_for_falls_short(tiny: TinyProject) -> None:
    ran, row = probed(tiny, "csrc/left_out.cu")
    assert (ran.code, row["result"]) == (3, "falls-short")
    assert "never asked for csrc/left_out.cu, only for 2 other units of device code" in ran.err


def test_what_cannot_be_had_is_named(tiny: TinyProject) -> None:
    tiny.commit = "1" * 40
    ran, row = probed(tiny)
    assert (ran.code, row["result"]) == (5, "missing")
    assert "source main cannot be had" in row["note"]
    assert "1" * 40 in ran.err


def test_a_signal_ends_all_that_runs(tiny: TinyProject) -> None:
    process = tiny.start("probe", "--stack", "tiny", "--json")
    end = time.monotonic() + 100
    while not any("csrc" in path.read_text() for path in tiny.home.glob("logs/*/tiny-cuda.log")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 143
    assert json.loads(out)["rows"][0]["result"] == "stopped"
    assert survivors(str(tiny.home)) == []


def test_what_is_built_already_is_not_compiled_again(tiny: TinyProject) -> None:
    tiny.build()
    before = len(list(tiny.home.glob("logs/*")))
    ran, row = probed(tiny)
    assert (ran.code, row["result"]) == (0, "reuse")
    assert len(list(tiny.home.glob("logs/*"))) == before
