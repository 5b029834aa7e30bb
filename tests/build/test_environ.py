"""The environment of a command, and the part of it that is in the key."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.build.environ import MACHINE_ONLY, command_environ, keyed
from orchestrator.errors import MachineError, RecipeError


def make(work: str = "/w/thing", jobs: int = 4, **more: Any) -> dict[str, str]:
    folder = Path(work)
    given: dict[str, Any] = {
        "prefix": folder / "env",
        "home": folder / "home",
        "tmp": folder / "tmp",
        "jobs": jobs,
        "source_date_epoch": 1_700_000_000,
        "maps": {folder: "thing"},
        "toolkit": Path("/layers/abc/cuda"),
        "cc": Path("/opt/gcc/bin/gcc"),
        "cxx": Path("/opt/gcc/bin/g++"),
    }
    return command_environ(**(given | more))


def test_nothing_of_ours_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make()
    for name in (
        "CFLAGS",
        "CPATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "TORCH_CUDA_ARCH_LIST",
        "PATH",
        "HTTPS_PROXY",
    ):
        monkeypatch.setenv(name, "/from/outside")
    assert make() == before
    assert not any("outside" in value for value in before.values())


def test_what_a_command_gets() -> None:
    env = make()
    assert env["PATH"] == "/w/thing/env/bin:/layers/abc/cuda/bin:/opt/gcc/bin:/usr/local/bin:/usr/bin:/bin"
    assert env["HOME"] == "/w/thing/home"
    assert env["TMPDIR"] == "/w/thing/tmp"
    assert (env["LANG"], env["TZ"], env["SOURCE_DATE_EPOCH"]) == ("C.UTF-8", "UTC", "1700000000")
    assert (env["PYTHONHASHSEED"], env["PYTHONNOUSERSITE"], env["PYTHONDONTWRITEBYTECODE"]) == ("0", "1", "1")
    assert env["CUDA_HOME"] == env["CUDA_PATH"] == "/layers/abc/cuda"
    assert env["LIBRARY_PATH"] == "/layers/abc/cuda/lib64:/layers/abc/cuda/lib64/stubs"
    assert env["CC"] == "/opt/gcc/bin/gcc"
    assert env["CXX"] == env["CUDAHOSTCXX"] == env["NVCC_CCBIN"] == "/opt/gcc/bin/g++"
    assert env["MAX_JOBS"] == env["CMAKE_BUILD_PARALLEL_LEVEL"] == env["CARGO_BUILD_JOBS"] == "4"
    assert (env["MAKEFLAGS"], env["NVCC_THREADS"]) == ("-j4", "1")
    assert env["CFLAGS"] == env["CXXFLAGS"] == "-ffile-prefix-map=/w/thing=/sparkbuild/thing"
    assert env["NVCC_APPEND_FLAGS"] == "-objtemp -Xcompiler=-ffile-prefix-map=/w/thing=/sparkbuild/thing"
    assert env["GIT_CEILING_DIRECTORIES"] == "/w"
    assert list(env) == sorted(env)


def test_without_a_toolkit_nothing_of_cuda() -> None:
    env = make(toolkit=None)
    assert not [name for name in env if "CUDA" in name or "NVCC" in name or name == "LIBRARY_PATH"]


def test_bytecode_may_be_cached() -> None:
    env = make(pycache=Path("/state/pycache"))
    assert env["PYTHONPYCACHEPREFIX"] == "/state/pycache"
    assert "PYTHONDONTWRITEBYTECODE" not in env


def test_flags_of_a_recipe_add_to_ours() -> None:
    env = make(extra={"CFLAGS": "-O2", "NVCC_APPEND_FLAGS": "--use_fast_math", "NVCC_THREADS": "2", "X": "1"})
    assert env["CFLAGS"] == "-ffile-prefix-map=/w/thing=/sparkbuild/thing -O2"
    assert env["NVCC_APPEND_FLAGS"].endswith("thing --use_fast_math")
    assert (env["NVCC_THREADS"], env["X"]) == ("2", "1")


@pytest.mark.parametrize("name", ["PATH", "HOME", "MAX_JOBS", "CC", "SOURCE_DATE_EPOCH", "CUDA_HOME"])
def test_a_recipe_cannot_set_what_is_ours(name: str) -> None:
    with pytest.raises(RecipeError, match=f"env sets {name}"):
        make(extra={name: "x"})


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A B"])
def test_a_variable_has_a_proper_name(name: str) -> None:
    with pytest.raises(RecipeError, match="no name of a variable"):
        make(extra={name: "x"})


@pytest.mark.parametrize("bad", [" ", ",", "=", "'", "$", "\n"])
def test_a_path_that_flags_cannot_carry(bad: str) -> None:
    with pytest.raises(MachineError, match="cannot carry") as caught:
        make(work=f"/w/a{bad}b")
    assert "SPARKBUILD_HOME" in str(caught.value.hint)


class TestKeyed:
    def test_it_is_the_same_on_every_machine(self) -> None:
        extra = {"TORCH_CUDA_ARCH_LIST": "12.1a", "CFLAGS": "-O2"}
        here = make(extra={**extra, "SRC": "/w/thing/cutlass"})
        there = make(
            work="/home/b/.cache/sparkbuild/work/9/thing",
            jobs=20,
            toolkit=Path("/usr/local/cuda"),
            cc=Path("/usr/bin/gcc-14"),
            cxx=Path("/usr/bin/g++-14"),
            pycache=Path("/p"),
            extra={**extra, "SRC": "/home/b/.cache/sparkbuild/work/9/thing/cutlass"},
        )
        one = keyed(here, places={Path("/w/thing"): "work"})
        assert one == keyed(there, places={Path("/home/b/.cache/sparkbuild/work/9/thing"): "work"})
        assert one["SRC"] == "{work}/cutlass"
        assert one["CFLAGS"] == "-ffile-prefix-map={work}=/sparkbuild/thing -O2"
        assert not any("/w/" in value for value in one.values())

    @pytest.mark.parametrize(
        "change",
        [
            {"extra": {"A": "1"}},
            {"extra": {"TORCH_CUDA_ARCH_LIST": "12.0"}},
            {"extra": {"CFLAGS": "-O1"}},
            {"source_date_epoch": 1},
        ],
    )
    def test_what_reaches_the_wheel_changes_it(self, change: dict[str, Any]) -> None:
        places = {Path("/w/thing"): "work"}
        assert keyed(make(**change), places=places) != keyed(make(), places=places)

    @pytest.mark.parametrize(
        "change", [{"jobs": 9}, {"tmp": Path("/x")}, {"home": Path("/x")}, {"cxx": Path("/usr/bin/g++")}]
    )
    def test_what_does_not_reach_it_does_not(self, change: dict[str, Any]) -> None:
        places = {Path("/w/thing"): "work"}
        assert keyed(make(**change), places=places) == keyed(make(), places=places)

    def test_nested_and_neighbouring_folders(self) -> None:
        env = {"A": "/w/a/b/x:/w/a/c:/w/ab:/w/a.d:/w/a"}
        assert keyed(env, places={Path("/w/a"): "outer", Path("/w/a/b"): "inner"}) == {
            "A": "{inner}/x:{outer}/c:/w/ab:/w/a.d:{outer}"
        }

    def test_machine_only_is_left_out(self) -> None:
        assert not keyed(make(), places={}).keys() & MACHINE_ONLY


def test_the_compiler_maps_paths_out(tmp_path: Path) -> None:
    source = tmp_path / "deep" / "a.c"
    source.parent.mkdir()
    source.write_text("const char *file(void) { return __FILE__; }\n")
    (tmp_path / "home").mkdir()
    env = make(work=str(tmp_path), toolkit=None, cc=None, cxx=None, tmp=tmp_path, extra={"CFLAGS": "-g"})
    command = ["/bin/sh", "-c", f"gcc $CFLAGS -c {source} -o {tmp_path}/a.o"]
    subprocess.run(command, env=env, cwd=tmp_path, check=True)
    data = (tmp_path / "a.o").read_bytes()
    assert b"/sparkbuild/thing/deep/a.c" in data
    assert str(tmp_path).encode() not in data
