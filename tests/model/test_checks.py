"""Arch limits, compilers, placeholders, probes and files of a recipe: what they become, what is a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import RecipeError
from orchestrator.model.reader import load_recipe
from orchestrator.model.recipe import ArchLimit, Files, Probe, Recipe

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """\
schema: sparkbuild.recipe/1
name: vec
summary: A vector
sources: {main: {sdist: vec}}
arch:
  limits:
    - {major: 12, suffixes: [a, f], at_most: 1, reason: no FP4 without, instead: "12.1a"}
build:
  requires: [ninja]
  compiler: {gcc: ">=13", clang: ">=16,<20"}
  env: {NCCL_ROOT: "{requires}/nvidia/nccl", JSON: '{{"a": 1}}', SHELL_VARIABLE: "${HOME}"}
  config_settings: {cmake.define.ROOT: "{work}/links:{src}"}
  commands: [["{python}", setup.py, -o, "{out}", "{version}"]]
  variants:
    - {when: {source: git}, env: {FROM: "{src}"}}
probe: {unit: "csrc/*_sm80.cu", refuse: ["Not building *"]}
modules:
  - {match: "vec*.so", expect: native, required: false}
files: {only: ["vec/**", "vec*.so"]}
assemblers:
  - {file: vec/bin/ptxas, from: 8.0, below: "10.0", when: {version: ">=3"}}
"""


def recipe(tmp_path: Path, text: str) -> Recipe:
    path = tmp_path / "vec.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path)


def test_what_is_read(tmp_path: Path) -> None:
    found = recipe(tmp_path, GOOD)
    assert found.arch.limits == (
        ArchLimit(major=12, suffixes=("a", "f"), at_most=1, reason="no FP4 without", instead="12.1a"),
    )
    assert found.build is not None
    assert found.build.compiler == {"gcc": ">=13", "clang": ">=16,<20"}
    assert found.build.env["NCCL_ROOT"] == "{requires}/nvidia/nccl"
    assert found.build.variants[0].when.source == "git"
    assert found.probe == Probe(unit="csrc/*_sm80.cu", refuse=("Not building *",))
    assert not found.modules[0].required
    assert found.files == Files(only=("vec/**", "vec*.so"))
    (assembler,) = found.assemblers
    assert (assembler.file, assembler.lowest, assembler.below) == ("vec/bin/ptxas", "8.0", "10.0")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("major: 12", "major: twelve", "arch.limits[0].major: found 'twelve', expected a whole number"),
        ("major: 12", "major: -1", "found '-1', expected a whole number"),
        ("[a, f]", "[a, x]", "arch.limits[0].suffixes[1]: found 'x', expected one of a, f, none"),
        ("[a, f]", "[a, a]", "'a' a second time"),
        ("suffixes: [a, f], at_most: 1, ", "", "arch.limits[0]: found a limit that limits nothing"),
        ("at_most: 1", "at_most: 0", "expected at least 1"),
        ("reason: no FP4 without", 'reason: " "', "arch.limits[0].reason: found ' '"),
        ('instead: "12.1a"', 'instead: " "', "arch.limits[0].instead: found ' '"),
        (', instead: "12.1a"', "", "arch.limits[0].instead: found no such field"),
        ('{gcc: ">=13"', '{gc: ">=13"', "a kind of compiler (gcc, clang) (did you mean gcc?)"),
        ('gcc: ">=13"', 'gcc: "13"', "build.compiler.gcc: found '13', expected version specifiers"),
        ('gcc: ">=13"', 'gcc: ""', "build.compiler.gcc: found nothing, expected version specifiers"),
        ("{requires}/nvidia", "{require}/nvidia", "build.env.NCCL_ROOT: found {require}, expected one of"),
        ("{requires}/nvidia", "{require}/nvidia", "(did you mean requires?)"),
        ("{requires}/nvidia", "{/nvidia", "found {, expected one of {requires}, {src}"),
        ("'{{\"a\": 1}}'", "'{\"a\": 1}'", "a brace itself is written {{ or }}"),
        ("{work}/links", "{scratch}/links", "build.config_settings.cmake.define.ROOT: found {scratch}"),
        ('"{version}"]', '"{sm}"]', "build.commands[0][4]: found {sm}"),
        ('FROM: "{src}"', 'FROM: "{sources}"', "build.variants[0].env.FROM: found {sources}"),
        ("  requires: [ninja]\n", "", "build.env.NCCL_ROOT: found {requires}, expected requirements in"),
        ("{source: git}", "{source: hg}", "build.variants[0].when.source: found 'hg', expected one of"),
        ('{unit: "csrc/*_sm80.cu", refuse: ["Not building *"]}', "{}", "probe: found nothing to look at"),
        ("csrc/*_sm80.cu", "../*.cu", "probe.unit: found '../*.cu', expected a relative path"),
        ('"Not building *"', '"*"', "probe.refuse[0]: found '*'"),
        ("required: false", "required: maybe", "modules[0].required: found 'maybe', expected true or false"),
        ('["vec/**", "vec*.so"]', "[]", "files.only: found an empty list"),
        ('"vec/**", ', '"/vec/**", ', "files.only[0]: found '/vec/**', expected a relative path"),
        ('"vec/**", ', '"vec*.so", ', "'vec*.so' a second time"),
        ("{only: ", "{olny: ", "files.olny: found an unknown field"),
        ("vec/bin/ptxas", "/bin/ptxas", "assemblers[0].file: found '/bin/ptxas', expected a relative path"),
        (
            "vec/bin/ptxas",
            "vec/bin/ptxas*",
            "assemblers[0].file: found 'vec/bin/ptxas*', expected the path of",
        ),
        ("from: 8.0", "from: sm_80", "assemblers[0].from: found 'sm_80' ('sm_80' is no device), expected a"),
        ("from: 8.0", "from: 8.1", "(there is no device of compute capability 8.1), expected a device such"),
        ('below: "10.0"', "below: 8.0", "assemblers[0].below: found '8.0', expected a device above 8.0"),
        ('{version: ">=3"}', "{}", "assemblers[0].when: found no condition"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert GOOD.count(old) == 1, f"{old!r} must stand once in the good recipe"
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, GOOD.replace(old, new))
    assert told in caught.value.message


@pytest.mark.parametrize("given", ["probe: {unit: a.cu}", "files: {only: [a.py]}"])
def test_what_concerns_a_build_needs_one(tmp_path: Path, given: str) -> None:
    head = "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\n"
    with pytest.raises(RecipeError, match="without `build`"):
        recipe(tmp_path, f"{head}{given}\n")
