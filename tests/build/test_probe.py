"""Probes without a toolkit: what is tried, what is watched, and how an object is judged."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from purestack import PureStack
from samples import KERNELS, with_recipe

from orchestrator.build import representative
from orchestrator.build.logfile import MARK
from orchestrator.build.representative import Watch, judge_object, wanted
from orchestrator.errors import AuditFailedError
from orchestrator.jobs.images import images
from orchestrator.jobs.pick import Pick
from orchestrator.jobs.units import Record, Unit
from orchestrator.model.arch import parse_request
from orchestrator.model.lock import LockedSource
from orchestrator.model.recipe import ModulePolicy, Probe
from orchestrator.plan.planner import decide, keyed_steps

if TYPE_CHECKING:
    from orchestrator.plan.steps import Step

DATA = Path(__file__).parents[1] / "data" / "device"
DEVICE = "{{}}\narch: {{env: {{ARCH: nvcc}}}}\nprobe: {{{probe}}}"
"""For `PureStack.project`: a recipe that compiles device code, so that it is probed."""
NVCC = """\
import os, subprocess
open("nvcc", "w").write("#!/bin/sh\\nexec true\\n")
os.chmod("nvcc", 0o755)
print("begins", flush=True)
"""
COMPILE = """\
subprocess.run([os.environ["CMAKE_CXX_COMPILER_LAUNCHER"], "./nvcc", "-c", "x.cu",
    *os.environ["ARCH"].split()], check=True)
"""


MAKES_OBJECTS = """\
import os, subprocess
open("nvcc", "w").write('#!/bin/sh\\nwhile [ "$1" != -o ]; do shift; done\\nexec cp {object} "$2"\\n')
os.chmod("nvcc", 0o755)
"""
NINJA = """\
text = "rule cu\\n  command = $launch ./nvcc -c $in -o $out " + os.environ["ARCH"] + "\\n"
for n in range(9):
    open(f"u{n}.cu", "w").close()
    text += f"build u{n}.o: cu u{n}.cu\\n"
text = "launch = " + os.environ["CMAKE_CXX_COMPILER_LAUNCHER"] + "\\n" + text
open("build.ninja", "w").write(text)
subprocess.run(["ninja"], check=True)
"""


def probed(stack: PureStack, *names: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Probe a stack; return exit code, component -> row, and what was told."""
    process = stack.start("probe", *names)
    out, err = process.communicate(timeout=100)
    rows = json.loads(out)["rows"] if out else []
    return process.returncode, {row["name"]: row for row in rows}, err


def step_of(arch: str = "12.1a", **changes: Any) -> Step:
    """Return the step of a sample recipe with some fields changed."""
    inputs = with_recipe(msgspec.structs.replace(KERNELS, **changes))
    inputs = dataclasses.replace(inputs, arch=parse_request(arch))
    return decide(inputs, keyed_steps(inputs, ()), {}, {}).step("kernels")


# --- what is tried -----------------------------------------------------------------------------------


def test_what_compiles_no_device_code_and_what_builds_on_what_is_not_there(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("base")
    stack.project("top", "base", code=NVCC + COMPILE, build=DEVICE.format(probe="unit: x.cu"))
    code, rows, _ = probed(stack)
    assert code == 0
    assert {name: row["result"] for name, row in rows.items()} == {"base": "host-only", "top": "skipped"}
    assert rows["top"]["note"] == "needs base built first"
    assert not list(stack.home.glob("logs/*/*.log"))


def test_with_what_it_builds_on_stored_it_is_tried_on_that(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("base")
    assert stack.run("base").code == 0
    code = "import base\nprint(base.SAYS, flush=True)\n" + NVCC + COMPILE
    stack.project("top", "base", code=code, build=DEVICE.format(probe="unit: x.cu"))
    exit_code, rows, err = probed(stack, "top")
    assert "['base']" in stack.log("top")
    assert (rows["base"]["result"], rows["top"]["result"]) == ("reuse", "falls-short")
    assert exit_code == 3
    assert "left no object" in err, "this stand-in for nvcc makes none"


def test_a_build_that_says_what_is_refused_is_stopped_at_once(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    code = NVCC + (
        'for n in range(2000):\n    print("-- line", n)\nprint("-- Not building Marlin kernels")\n'
        'for n in range(2000):\n    print("-- more", n)\n'
        "import sys, time\nsys.stdout.flush()\ntime.sleep(60)\n"
    )
    stack.project("made", code=code, build=DEVICE.format(probe='refuse: ["-- Not building Mar*"]'))
    begin = time.monotonic()
    exit_code, rows, err = probed(stack)
    assert time.monotonic() - begin < 30
    assert (exit_code, rows["made"]["result"]) == (3, "falls-short")
    assert "(-- Not building Mar*): -- Not building Marlin kernels" in err


def test_a_build_that_fails_before_it_compiles_anything_failed(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project(
        "made", code=NVCC + "raise ValueError('no headers')\n", build=DEVICE.format(probe="unit: x.cu")
    )
    exit_code, rows, err = probed(stack)
    assert (exit_code, rows["made"]["result"]) == (1, "failed")
    assert "no headers" in err


def test_a_build_that_ends_without_a_word_of_the_unit_falls_short(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("made", code=NVCC, build=DEVICE.format(probe="unit: x.cu"))
    exit_code, rows, err = probed(stack)
    assert (exit_code, rows["made"]["result"]) == (3, "falls-short")
    assert "never asked for x.cu" in err


def test_one_that_goes_wrong_stops_no_other(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    stack.project("a", code=NVCC + "raise ValueError\n", build=DEVICE.format(probe="unit: x.cu"))
    stack.project("b", code=NVCC, build=DEVICE.format(probe="unit: x.cu"))
    exit_code, rows, _ = probed(stack)
    assert {name: row["result"] for name, row in rows.items()} == {"a": "failed", "b": "falls-short"}
    assert exit_code == 1, "the earlier stage of the two"


@pytest.mark.parametrize("gone", [False, True])
def test_one_for_which_the_machine_is_not_fit_stops_no_other(tmp_path: Path, *, gone: bool) -> None:
    stack = PureStack(tmp_path)
    stack.project("a", code=NVCC, build=DEVICE.format(probe="unit: x.cu"))
    stack.project("b", build='{compiler: {gcc: ">=99", clang: ">=99"}}')
    if gone:
        recipe = stack.recipes / "b.yaml"
        text = recipe.read_text().replace("local: projects/b", f"git: '{(tmp_path / 'gone').as_uri()}'")
        recipe.write_text(text.replace("sources:\n", "sources:\n  more: {git: 'file:///nowhere'}\n"))
        stack.sources["b"] = {
            "main": LockedSource(commit="1" * 40, submodules={}),
            "more": LockedSource(commit="2" * 40, submodules={}),
        }
    exit_code, rows, err = probed(stack)
    assert {name: row["result"] for name, row in rows.items()} == {"a": "falls-short", "b": "unfit"}
    assert exit_code == (5 if gone else 4), "the earliest stage of all"
    assert "b needs gcc >=99 or clang >=99, and the host compiler is" in rows["b"]["note"]
    assert ("source main cannot be had" in rows["b"]["note"]) == gone
    assert "error: b needs gcc >=99" in err
    assert "apt install g++-99" in err
    listed = [line for line in err.splitlines() if line.startswith("    source ")]
    assert [line.split()[1:4] for line in listed] == [
        ["more:", "commit", "2" * 40],
        ["main:", "commit", "1" * 40],
    ][: 2 * gone]
    ran = stack.run()
    assert (ran.code, ran.actions, list(stack.home.glob("artifacts/*"))) == (4, {}, [])


@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja on PATH")
def test_ninja_is_asked_for_the_one_unit_and_what_it_is_made_from(tmp_path: Path) -> None:
    stack = PureStack(tmp_path)
    code = MAKES_OBJECTS.format(object=str(DATA / "plain.o")) + NINJA
    stack.project("made", code=code, build=DEVICE.format(probe="unit: u7.cu"))
    exit_code, rows, err = probed(stack)
    assert (exit_code, rows["made"]["coverage"]) == (0, "sm_121a 1/1"), err
    assert (rows["made"]["unit"], rows["made"]["asked"]) == ("u7.cu", 1)
    (records,) = stack.home.glob("logs/*/made.units.jsonl")
    assert [json.loads(line)["unit"] for line in records.read_text().splitlines()] == ["u7.cu"]
    assert not list(stack.home.glob("work/*"))


# --- which unit --------------------------------------------------------------------------------------


def unit(source: str, *flags: str) -> Unit:
    """Return a unit as a build asks for it."""
    return Unit(1, "kernels", "/work/kernels/src/build", "compile", "/cuda/bin/nvcc", ("-c", source, *flags))


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ("../csrc/a_bf16.cu", True),
        ("/work/kernels/src/csrc/a_bf16.cu", True),
        ("../csrc/a_fp16.cu", False),
        ("../other_csrc/a_bf16.cu", False),
        ("../csrc/a_bf16.cpp", False),
    ],
)
def test_the_recipes_unit_is_told_by_the_end_of_its_path(source: str, *, fits: bool) -> None:
    step = step_of(probe=Probe(unit="csrc/*_bf16.c*"))
    assert wanted(step)(unit(source), ()) is fits


@pytest.mark.parametrize(("arch", "fits"), [("120f", True), ("121a", True), ("90a", False)])
def test_without_one_any_that_holds_code_for_the_device(arch: str, *, fits: bool) -> None:
    asked = unit("x.cu", f"-gencode=arch=compute_{arch},code=sm_{arch}")
    assert wanted(step_of())(asked, images(asked.arguments)) is fits


# --- what is watched ---------------------------------------------------------------------------------


def pick(folder: Path) -> Pick:
    """Return one that nothing has come to yet."""
    return Pick(lambda *_: True, None, folder / "unit.o")


def test_lines_are_read_whole_and_only_those_of_the_build(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("bad: of an earlier command\n")
    watch = Watch(log, ("bad*",), pick(tmp_path))
    with log.open("ab") as file:
        for text in (b"good: bad\n", f"{MARK}env X=bad\n".encode(), b"b", b"a"):
            file.write(text)
            file.flush()
            watch("")
        file.write(b"d \xff\nand more")
        file.flush()
    with pytest.raises(AuditFailedError) as caught:
        watch("")
    assert "(bad*): bad \ufffd" in caught.value.message


def test_it_ends_when_the_unit_is_there_and_a_failed_build_has_time_to_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well, ill = pick(tmp_path), pick(tmp_path)
    for one, code in ((well, 0), (ill, 2)):
        asked = dataclasses.replace(unit("x.cu"), number=1)
        assert one.lets(asked, (), time.monotonic())
        one.ended(Record(asked, "failed" if code else "ran", code), time.monotonic())
    with pytest.raises(representative._EnoughError):
        Watch(tmp_path / "log", (), well)("")
    Watch(tmp_path / "log", (), ill)("")
    monkeypatch.setattr(representative, "_GRACE_S", 0.0)
    with pytest.raises(representative._EnoughError):
        Watch(tmp_path / "log", (), ill)("")


# --- how an object is judged -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "arch", "verdict", "held"),
    [
        ("plain.o", "12.1a", "pass", "sm_121a 1/1"),
        ("plain.o", "9.0a", "fail", "sm_121a 0/1"),
        ("rdc.o", "12.1a", "pass", "compute_120f, sm_120f, to be linked"),
        ("rdc.o", "9.0a", "fail", "compute_120f, sm_120f, to be linked"),
    ],
)
def test_an_object_is_judged_for_what_is_to_be_served(file: str, arch: str, verdict: str, held: str) -> None:
    report, told = judge_object(step_of(arch), DATA / file, "x.o")
    assert (report.verdict, told) == (verdict, held)


def test_an_object_without_device_code_or_none_at_all_falls_short(tmp_path: Path) -> None:
    source, target = tmp_path / "x.c", tmp_path / "x.o"
    source.write_text("int x;")
    subprocess.run([shutil.which("cc") or "", "-c", str(source), "-o", str(target)], check=True)
    assert judge_object(step_of(), target, "x.o")[0].verdict == "fail"
    assert judge_object(step_of(), tmp_path / "none.o", "x.o")[0].verdict == "fail"


def test_ptx_serves_where_the_recipe_leaves_all_to_the_driver() -> None:
    policy = (ModulePolicy(match="*.so", expect="jit"),)
    ptx = DATA / "ptx.90.fatbin"
    assert judge_object(step_of("12.1"), ptx, "x.fatbin")[0].verdict == "fail"
    assert judge_object(step_of("12.1", modules=policy), ptx, "x.fatbin")[0].verdict == "pass"
