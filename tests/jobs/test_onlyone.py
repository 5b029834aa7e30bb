"""ninja, asked for one object of all: the real one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from programs import find_program

from orchestrator.jobs.onlyone import narrowed
from orchestrator.jobs.tools import narrow_ninja, write_tools

if TYPE_CHECKING:
    from pathlib import Path

BUILD = """\
rule cc
  command = cp $in $out
rule cat
  command = cat $in > $out
build gen/all.h: cat one.txt
build obj/a.o: cc src/a.cu || gen/all.h
build obj/b.o: cc src/b.cu || gen/all.h
build src/copy/b.cu: cat src/b.cu
build lib.so: cat obj/a.o obj/b.o
default lib.so
"""


@pytest.fixture
def ninja() -> str:
    """Return the real program."""
    found = find_program("ninja")
    assert found, "these tests need ninja: pip install ninja"
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with two sources, an object of each, and a library of both."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    for name in ("src/a.cu", "src/b.cu", "one.txt"):
        (folder / name).write_text(name)
    (folder / "build.ninja").write_text(BUILD)
    return folder


def made(folder: Path) -> set[str]:
    """Return what was built, relative to the folder."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in names if name.startswith(("obj/", "gen/", "lib", "src/copy"))}


def test_only_the_object_and_what_it_is_made_from_is_built(ninja: str, project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    write_tools(tools, {})
    narrow_ninja(tools, search=ninja.rpartition("/")[0], prefix=tmp_path / "env", unit="src/b.cu")
    command = [str(tools / "ninja"), "-v", "-C", str(project), "-j", "3", "lib.so"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert made(project) == {"obj/b.o", "gen/all.h"}
    assert "ninja builds only b.o and" in done.stderr


def test_that_of_the_environment_is_replaced(ninja: str, project: Path, tmp_path: Path) -> None:
    tools, programs = tmp_path / "tools", tmp_path / "env" / "bin"
    programs.mkdir(parents=True)
    (programs / "ninja").symlink_to(ninja)
    write_tools(tools, {})
    narrow_ninja(tools, search=str(programs), prefix=tmp_path / "env", unit="src/b.cu")
    subprocess.run([str(programs / "ninja")], cwd=project, check=True, capture_output=True)
    assert made(project) == {"obj/b.o", "gen/all.h"}


def test_what_cmake_tries_out_is_left_alone(ninja: str, project: Path, tmp_path: Path) -> None:
    tools, place = tmp_path / "tools", tmp_path / "CMakeFiles" / "CMakeScratch"
    write_tools(tools, {})
    narrow_ninja(tools, search=ninja.rpartition("/")[0], prefix=tmp_path / "env", unit="src/b.cu")
    place.parent.mkdir()
    project.rename(place)
    subprocess.run([str(tools / "ninja")], cwd=place, check=True, capture_output=True)
    assert "lib.so" in made(place)


@pytest.mark.parametrize("unit", ["src/c.cu", "b.c"])
def test_what_it_does_not_know_changes_nothing(ninja: str, project: Path, unit: str) -> None:
    arguments = ["-C", str(project), "lib.so"]
    assert narrowed(ninja, arguments, unit) == arguments


@pytest.mark.parametrize(
    "arguments", [["--version"], ["-t", "targets"], ["-tclean"], ["-C", "/nowhere", "all"]]
)
def test_questions_and_mistakes_are_ninjas_own(ninja: str, arguments: list[str]) -> None:
    assert narrowed(ninja, arguments, "src/b.cu") == arguments


def test_a_glob_means_the_first_that_fits(ninja: str, project: Path) -> None:
    found = narrowed(ninja, ["-C", str(project), "-j8"], "src/*.cu")
    assert found == ["-C", str(project), "-j8", "obj/a.o"]


def test_without_a_ninja_there_is_none(tmp_path: Path) -> None:
    write_tools(tmp_path / "tools", {})
    narrow_ninja(tmp_path / "tools", search=str(tmp_path), prefix=tmp_path, unit="src/b.cu")
    assert not (tmp_path / "tools" / "ninja").exists()
