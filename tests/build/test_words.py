"""What placeholders of a recipe stand for, in a real build and where there is nothing to stand for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from purestack import PureStack
from samples import plan_inputs, with_locked

from orchestrator.build.venv import make_environment
from orchestrator.build.words import filled, words_of
from orchestrator.errors import RecipeError
from orchestrator.plan.planner import decide, keyed_steps

if TYPE_CHECKING:
    from orchestrator.plan.planner import PlanInputs


def words(inputs: PlanInputs, tmp_path: Path, *layers: Path) -> dict[str, str]:
    plan = decide(inputs, keyed_steps(inputs, ()), {}, {})
    environment = make_environment(tmp_path / "tree" / "env")
    return words_of(
        plan.step("kernels"),
        plan,
        tree=tmp_path / "tree",
        main=tmp_path / "tree" / "src",
        layers=layers,
        environment=environment,
    )


def test_requirements_are_the_last_layer(tmp_path: Path) -> None:
    found = words(plan_inputs(), tmp_path, tmp_path / "torch", tmp_path / "own")
    assert found["requires"] == str(tmp_path / "own" / "site")
    assert found["version"] == "1.0"
    assert found["work"] == str(tmp_path / "tree" / "scratch")


def test_requirements_that_all_come_with_what_it_is_built_on_have_no_folder(tmp_path: Path) -> None:
    inputs = with_locked("kernels", requires=())
    found = words(inputs, tmp_path, tmp_path / "torch")
    assert "requires" not in found
    assert filled("{src}", found, name="kernels") == found["src"]
    with pytest.raises(RecipeError, match=r"recipe kernels: \{requires\} stands for nothing"):
        filled("{requires}/nvidia", found, name="kernels")


def test_a_build_sees_them_filled_in_and_the_key_does_not(tmp_path: Path) -> None:
    pure = PureStack(tmp_path)
    code = (
        "import os\n"
        "assert os.path.isdir(os.environ['SCRATCH'])\n"
        "says += [os.environ['PLACES'], os.environ['LITERAL'], config_settings['where']]"
    )
    build = (
        '{env: {PLACES: "{src}:{out}:{version}", SCRATCH: "{work}", LITERAL: "{{src}} ${HOME}"}, '
        'config_settings: {where: "{src}/csrc"}}'
    )
    pure.project("one", code=code, build=build)
    ran = pure.run()
    assert ran.actions == {"one": "built"}, ran.err
    with zipfile.ZipFile(pure.stored("one")) as wheel:
        _, places, literal, where = ast.literal_eval(wheel.read("one.py").decode().partition("= ")[2])
    source, out, version = places.split(":")
    assert Path(source).name == "src"
    assert (out, version, where) == (str(Path(source).with_name("out")), "1.0", f"{source}/csrc")
    assert literal == "{src} ${HOME}"
    (manifest,) = pure.home.glob("artifacts/*/manifest.json")
    text = manifest.read_text()
    assert '"env PLACES":"{src}:{out}:{version}"' in text.replace(": ", ":").replace('": "', '":"')
    assert source not in text.replace(str(pure.home / "logs"), "")


def test_a_compiler_that_does_not_fit_is_told_by_plan_and_refused_by_a_build(tmp_path: Path) -> None:
    pure = PureStack(tmp_path)
    pure.project("one", build='{compiler: {gcc: ">=99"}}')
    ran = pure.run()
    assert (ran.code, ran.actions) == (4, {})
    assert "one needs gcc >=99, and the host compiler is" in ran.err
    assert "apt install g++-99" in ran.err
    assert not list(pure.home.glob("work/*"))
    command = [sys.executable, "-P", "-m", "orchestrator", "--recipes", str(pure.recipes)]
    command += ["plan", "all", "--stack", "pure", "--arch", "12.1a"]
    env = os.environ | {"SPARKBUILD_HOME": str(pure.home)}
    plan = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert plan.returncode == 0, plan.stderr
    assert "warning: one needs gcc >=99" in plan.stderr
    pure.project("one", build='{compiler: {gcc: ">=1", clang: ">=1"}}')
    assert pure.run().actions == {"one": "built"}
    pure.project("one", build='{compiler: {gcc: ">=99"}}')
    assert pure.run().actions == {"one": "reuse"}, "what is stored needs no compiler"


def test_prebuilt_wants_a_published_wheel_in_the_lock(tmp_path: Path) -> None:
    pure = PureStack(tmp_path)
    pure.project("one")
    ran = pure.run("all", "--prebuilt", "one")
    assert ran.code == 2
    assert "no published wheel of one" in ran.err
    assert "published: true" in ran.err
    assert pure.run("all", "--prebuilt", "on").code == 2


def test_sources_of_what_is_not_built_are_refused(tmp_path: Path) -> None:
    pure = PureStack(tmp_path)
    pure.project("one")
    folder = pure.recipes / "projects" / "one"
    ran = pure.run("all", "--prebuilt", "one", "--source", f"one={folder}")
    assert ran.code == 2
    assert "--source gives sources of one, which is taken as published" in ran.err
