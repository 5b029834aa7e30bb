"""Wheels through PEP 517 hooks: real hook processes of small in-tree backends."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from processes import alive
from wheelmaker import make_layer

from orchestrator.build.pep517 import LEGACY, BuiltWheel, build_wheel, read_build_system
from orchestrator.build.venv import make_environment
from orchestrator.errors import BuildFailedError, TorchReplacedError

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT = '[build-system]\nrequires = ["whatever>99"]\nbuild-backend = "maker"\nbackend-path = ["tools"]\n'
ASKS = "def get_requires_for_build_wheel(config_settings=None): return {}\n"
BUILDS = """
import os, zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    print("building with", config_settings, os.environ["MARK"] != "", os.getcwd())
    name = "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        archive.writestr("thing.py", str(config_settings))
    return name
"""


class Project:
    """A source tree with a backend of its own, and all that a build of it needs."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.tree = bench.folder / "src"
        (self.tree / "tools").mkdir(parents=True)
        self.out = bench.folder / "out"
        self.write("pyproject.toml", PYPROJECT)
        self.write("tools/maker.py", BUILDS)
        layer = make_layer(bench.folder / "layer", "Present_Thing", "2.5.0rc1", {"present.py": ""})
        self.environment = make_environment(bench.folder / "env", layers=[layer])

    def write(self, path: str, text: str) -> None:
        (self.tree / path).write_text(text)

    def build(self, **more: Any) -> BuiltWheel:
        return build_wheel(
            self.tree,
            environment=self.environment,
            env=self.bench.env,
            out=self.out,
            log=self.bench.log,
            **more,
        )


@pytest.fixture
def project(bench: Any) -> Project:
    return Project(bench)


def test_a_wheel_is_built(project: Project) -> None:
    calls: list[None] = []
    built = project.build(config_settings={"fast": "no"}, after=lambda: calls.append(None))
    assert built.path == project.out / "thing-1.0-py3-none-any.whl"
    assert zipfile.ZipFile(built.path).read("thing.py") == b"{'fast': 'no'}"
    assert len(built.commands) == len(calls) == 2
    assert all(command.returncode == 0 and command.cpu_s > 0 for command in built.commands)
    assert f"building with {{'fast': 'no'}} True {project.tree}" in project.bench.output()


@pytest.mark.parametrize(
    "asked",
    [
        "[]",
        "['present-thing']",
        "['Present.Thing >= 2.0']",
        "['present_thing[extra]<3']",
        "['absent; python_version < \"3\"']",
    ],
)
def test_what_is_there_may_be_asked_for(project: Project, asked: str) -> None:
    project.write("tools/maker.py", BUILDS + ASKS.format(asked))
    assert project.build().path.is_file()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("['absent>=1']", "absent>=1"),
        ("['present-thing>=3']", "present-thing>=3"),
        ("['not a name !']", "not a name !"),
    ],
)
def test_what_is_missing_is_named(project: Project, asked: str, named: str) -> None:
    project.write("tools/maker.py", BUILDS + ASKS.format(asked))
    with pytest.raises(BuildFailedError, match=f"asks for {named}, which") as caught:
        project.build()
    assert caught.value.hint == f"add '{named}' to the recipe's build.requires, and lock again"
    assert "building with" not in project.bench.output()


def test_a_backend_that_is_not_there(project: Project) -> None:
    project.write("pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "flit_core.buildapi"\n')
    with pytest.raises(
        BuildFailedError, match=r"flit_core\.buildapi cannot be imported: .*flit_core"
    ) as caught:
        project.build()
    assert "build.requires" in str(caught.value.hint)


def test_a_backend_that_fails(project: Project) -> None:
    project.write("tools/maker.py", "def build_wheel(*args):\n    raise RuntimeError('no such gpu')\n")
    with pytest.raises(BuildFailedError, match="ended with exit code 1: RuntimeError: no such gpu") as caught:
        project.build()
    assert str(caught.value.where).startswith(f"{project.bench.log}:")


def test_a_backend_without_the_hook(project: Project) -> None:
    project.write("tools/maker.py", "")
    with pytest.raises(BuildFailedError, match=r"cannot build wheels|build_wheel"):
        project.build()


def test_a_backend_that_names_another_file(project: Project) -> None:
    project.write("tools/maker.py", BUILDS.replace("return name", "return 'other-1.0-py3-none-any.whl'"))
    with pytest.raises(BuildFailedError, match=r"says it made 'other-1\.0-py3-none-any\.whl'.*thing-1\.0"):
        project.build()


def test_a_backend_that_makes_two(project: Project) -> None:
    two = BUILDS.replace(
        "    return name", "    open(wheel_directory + '/b-1-py3-none-any.whl', 'w')\n    return name"
    )
    project.write("tools/maker.py", two)
    with pytest.raises(BuildFailedError, match="in its folder are: b-1"):
        project.build()


def test_a_hook_that_takes_too_long(project: Project) -> None:
    project.write("tools/maker.py", "import time\ndef build_wheel(*args): time.sleep(600)\n")
    with pytest.raises(BuildFailedError, match="did not end within 1 s"):
        project.build(timeout_s=1)
    assert not alive(project.bench.tag)


def test_what_the_check_after_a_hook_raises_ends_the_build(project: Project) -> None:
    def meddled() -> None:
        raise TorchReplacedError("torch changed")

    with pytest.raises(TorchReplacedError):
        project.build(after=meddled)
    assert "building with" not in project.bench.output()


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "build-system = 3",
        "[build-system]\nbuild-backend = 3",
        '[build-system]\nbackend-path = "tools"',
        "[build-system]\nbackend-path = [1]",
    ],
)
def test_a_malformed_pyproject(project: Project, text: str) -> None:
    project.write("pyproject.toml", text)
    with pytest.raises(BuildFailedError, match=r"pyproject\.toml is malformed") as caught:
        project.build()
    assert caught.value.where == str(project.tree / "pyproject.toml")


def test_a_pyproject_in_another_encoding(project: Project) -> None:
    (project.tree / "pyproject.toml").write_bytes(b"x = '\xff'")
    with pytest.raises(BuildFailedError, match="malformed"):
        project.build()


def test_a_backend_path_outside(project: Project) -> None:
    project.write("pyproject.toml", PYPROJECT.replace('"tools"', '"../tools"'))
    with pytest.raises(BuildFailedError, match="backend-path"):
        project.build()


def test_which_backend(tmp_path: Path) -> None:
    with pytest.raises(BuildFailedError, match="neither pyproject"):
        read_build_system(tmp_path)
    (tmp_path / "setup.py").write_text("")
    assert read_build_system(tmp_path).backend == LEGACY
    (tmp_path / "pyproject.toml").write_text("[tool.x]\n")
    assert read_build_system(tmp_path).backend == LEGACY
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    assert (read_build_system(tmp_path).backend, read_build_system(tmp_path).backend_path) == (
        "maker",
        ("tools",),
    )
