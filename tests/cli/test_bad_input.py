"""Bad input by the command line: each mistake has its exit code, says what and where, and what to do next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

STACK = """\
schema: sparkbuild.stack/1
name: demo
summary: For tests
platforms: [linux-x86_64]
pythons: ["3.12"]
components: {components}
"""
QUICK = ("--stack", "quickstart")
"""The default stack has a lock for one Python alone."""
RECIPE = """\
schema: sparkbuild.recipe/1
name: {name}
summary: For tests
sources:
  main: {{sdist: {name}}}
needs: {{build: [{needs}]}}
build: {{}}
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Place:
    """A folder of recipes and a state folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipes = root / "recipes"
        (self.recipes / "stacks").mkdir(parents=True)

    def recipe(self, name: str, *needs: str) -> None:
        (self.recipes / f"{name}.yaml").write_text(RECIPE.format(name=name, needs=", ".join(needs)))

    def stack(self, *names: str) -> None:
        components = {name: {"version": "1.0"} for name in names}
        (self.recipes / "stacks" / "demo.yaml").write_text(STACK.format(components=json.dumps(components)))

    def run(self, *arguments: str, **environment: str) -> Ran:
        command = [sys.executable, "-P", "-m", "orchestrator", "--recipes", str(self.recipes), *arguments]
        ran = subprocess.run(
            command,
            cwd=self.root,
            env=os.environ | {"SPARKBUILD_HOME": str(self.root / "home")} | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["alll", "--arch", "12.1a"], 2, ["no command or recipe named 'alll'", "did you mean all?"]),
        (["causal-conv", "--arch", "12.1a"], 2, ["did you mean causal-conv1d?"]),
        (["plan", "causal_conv1d", "--arch", "12.1a"], 2, ["did you mean causal-conv1d?"]),
        (["plan", "--stack", "quikstart", "--arch", "12.1a"], 2, ["did you mean quickstart?"]),
        (["plan"], 2, ["no arch", "--arch 12.1a"]),
        (["plan", "--arch", ""], 2, ["no arch"]),
        (["plan", "--arch", "12.1(2.0)"], 2, ["12.1(2.0)", "CMake"]),
        (["plan", "--arch", "native"], 2, ["native"]),
        (["plan", "--arch", "12.1b"], 2, ["12.1b"]),
        (["plan", "--arch", "12.0a", "--device", "12.1"], 2, ["12.0a", "12.1"]),
        (["plan", "--arch", "12.1a", "--device", "spark"], 2, ["'spark' is no device"]),
        (["plan", *QUICK, "--arch", "12.1a", "--cuda", "/nowhere"], 4, ["/nowhere", "--cuda"]),
        (["plan", *QUICK, "--arch", "12.1a", "--source", "causal-conv1d"], 2, ["NAME=DIR"]),
        (["plan", *QUICK, "--arch", "12.1a", "--source", "nope=."], 2, ["in this stack named 'nope'"]),
        (["plan", *QUICK, "--arch", "12.1a", "--source", "causal-conv1d/x=."], 2, ["'x'", "main"]),
        (["plan", *QUICK, "--arch", "12.1a", "--source", "causal-conv1d=./none"], 2, ["is no folder"]),
        (["lock", "--platform", "linux-riscv64"], 2, ["linux-riscv64", "linux-aarch64"]),
        (["lock", "--python", "2.7"], 2, ["2.7"]),
        (["why", "nope", "--arch", "12.1a"], 2, ["no recipe named 'nope'"]),
        (["plan", "--no-such-option"], 2, ["No such option"]),
        ([], 2, ["Usage: sparkbuild"]),
    ],
)  # fmt: skip
def test_arguments(place: Place, arguments: list[str], code: int, said: list[str]) -> None:
    ran = place.run(*arguments)
    assert ran.code == code, ran
    for text in said:
        assert text in ran.err, ran.err
    assert ran.out == ""


def test_an_unknown_folder_of_recipes(place: Place) -> None:
    ran = place.run("--recipes", "/nowhere", "plan", "--arch", "12.1a")
    assert ran.code == 2
    assert "/nowhere" in ran.err


def test_a_circle_is_shown(place: Place) -> None:
    place.recipe("hen", "egg")
    place.recipe("egg", "hen")
    place.stack("hen", "egg")
    for command in (["lock"], ["plan", "--stack", "quickstart", "--arch", "12.1a"]):
        ran = place.run(*command, "--stack", "demo")
        assert ran.code == 2
        assert "egg -> hen -> egg" in ran.err


def test_a_mistake_in_a_recipe_is_told_with_its_place(place: Place) -> None:
    (place.recipes / "odd.yaml").write_text(
        "schema: sparkbuild.recipe/1\nname: odd\nsummary: x\nbuild:\n  requirs: [ninja]\n"
    )
    place.stack("odd")
    ran = place.run("plan", "--stack", "demo", "--arch", "12.1a")
    assert ran.code == 2
    assert "odd.yaml:5:3" in ran.err
    assert "requirs" in ran.err
    assert "did you mean requires?" in ran.err


def test_a_recipe_named_like_a_command_and_two_of_one_name(place: Place) -> None:
    place.recipe("audit")
    ran = place.run("plan", "--arch", "12.1a")
    assert (ran.code, "a recipe cannot be named audit" in ran.err) == (2, True)
    (place.recipes / "audit.yaml").unlink()
    place.recipe("twin")
    (place.recipes / "twin.yml").write_text("")
    ran = place.run("plan", "--arch", "12.1a")
    assert ran.code == 2
    assert "twin.yaml and twin.yml" in ran.err


def test_a_missing_lock_names_the_command_that_makes_it(place: Place) -> None:
    place.recipe("part")
    place.stack("part")
    ran = place.run("plan", "--stack", "demo", "--arch", "12.1a")
    assert ran.code == 2
    assert "sparkbuild lock --stack demo --platform linux-" in ran.err


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("platform", "linux-riscv64", "this lock is for"),
        ("python", "2.7", "this lock is for"),
        ("inputs", "0" * 64, "stale"),
        ("schema", "sparkbuild.lock/99", "schema"),
        ("toolkit", 3, "toolkit"),
    ],
)
def test_a_lock_that_does_not_fit(place: Place, field: str, value: object, said: str) -> None:
    from orchestrator.model.catalog import Catalog, find_places, lock_file
    from orchestrator.model.platform import Target

    name = lock_file("quickstart", Target.here())
    built_in = Catalog(find_places())
    lock = json.loads(built_in.lock_path("quickstart", Target.here()).read_bytes())
    stack = built_in.stack_path("quickstart").read_bytes()
    (place.recipes / "stacks" / "quickstart.yaml").write_bytes(stack)
    (place.recipes / "stacks" / name).write_text(json.dumps(lock | {field: value}))
    ran = place.run("plan", "--stack", "quickstart", "--arch", "12.1a")
    assert ran.code == 2, ran
    assert said in ran.err
    assert name in ran.err
    assert "sparkbuild lock --stack quickstart" in ran.err


def test_no_compiler_is_told_with_what_to_install(place: Place) -> None:
    empty = place.root / "bin"
    empty.mkdir()
    ran = place.run("plan", *QUICK, "--arch", "12.1a", PATH=str(empty))
    assert ran.code == 4
    assert "build-essential" in ran.err


def test_a_compiler_that_does_not_work(place: Place) -> None:
    fake = place.root / "c++"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    ran = place.run("plan", *QUICK, "--arch", "12.1a", CC=str(fake), CXX=str(fake))
    assert ran.code == 4
    assert str(fake) in ran.err


@pytest.mark.parametrize(
    ("home", "said"),
    [
        ("file", "is a file"),
        ("taken", "holds other things"),
        ("with space", "' '"),
        ("co:lon", "':'"),
        ("quo'te", '"\'"'),
        ("$(touch x)", "'$'"),
        ("~nobody-of-this-name/x", "nobody-of-this-name"),
        (b"\xff", "cannot carry"),
    ],
)
def test_a_state_folder_that_cannot_serve(place: Place, home: str | bytes, said: str) -> None:
    (place.root / "file").write_text("")
    (place.root / "taken" / "work" / "mine").mkdir(parents=True)
    named = os.fsdecode(home) if isinstance(home, bytes) else home
    for command in (
        ["plan", "--stack", "quickstart", "--arch", "12.1a"],
        ["all", "--stack", "quickstart", "--arch", "12.1a"],
        ["store", "gc", "--unused-for", "0"],
    ):
        ran = place.run(*command, SPARKBUILD_HOME=named)
        assert ran.code == 2, ran
        assert said in ran.err
        assert "SPARKBUILD_HOME" in ran.err
    assert (place.root / "taken" / "work" / "mine").is_dir(), "what is not ours is never cleaned"
    assert not (place.root / "x").exists()


def test_a_state_folder_on_a_read_only_place(place: Place) -> None:
    ran = place.run("all", "--stack", "quickstart", "--arch", "12.1a", SPARKBUILD_HOME="/proc/sparkbuild")
    assert ran.code == 4
    assert "/proc/sparkbuild" in ran.err


@pytest.mark.parametrize("option", ["--stack", "--cuda", "--dist", "--device"])
def test_an_empty_value_is_no_default(place: Place, option: str) -> None:
    ran = place.run("all", "--arch", "12.1a", option, "")
    assert ran.code == 2, ran
    assert f"{option} is empty" in ran.err


def test_a_misspelt_choice_of_toolkit(place: Place) -> None:
    ran = place.run("plan", "--stack", "quickstart", "--arch", "12.1a", "--cuda", "systme")
    assert ran.code == 2
    assert "did you mean system?" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["plan", "--stack", "quickstart", "--arch", "12.1a"], ["arch", "12.1a"], ["store", "list"]],
)
def test_a_standard_output_that_nobody_reads(place: Place, arguments: list[str]) -> None:
    def ended(redirection: str) -> tuple[int, str]:
        command = [sys.executable, "-P", "-m", "orchestrator", *arguments]
        shell = ["/bin/bash", "-c", f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}', "bash", *command]
        home = {"SPARKBUILD_HOME": str(place.root / "home")}
        ran = subprocess.run(shell, env=os.environ | home, capture_output=True, text=True, check=False)
        assert "Traceback" not in ran.stderr
        return ran.returncode, ran.stderr

    place.run(*arguments)
    assert ended(">&-")[0] == 0
    assert ended("> /dev/full")[0] == 4
    assert ended("| (exec <&-; sleep 1)")[0] in {0, 141}


def test_offline_and_nothing_there(place: Place) -> None:
    ran = place.run("fetch", "all", "--stack", "quickstart", "--arch", "12.1a", "--offline")
    assert ran.code == 5
    assert "is not here, and the network is not allowed" in ran.out
    assert "causal_conv1d-1.7.0.tar.gz" in ran.out


def test_debug_shows_the_traceback(place: Place) -> None:
    command = [sys.executable, "-P", "-m", "orchestrator", "--debug", "plan", "--arch", "nope"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place.root)
    assert ran.returncode == 2
    assert "Traceback" in ran.stderr
    assert "ArchError" in ran.stderr
