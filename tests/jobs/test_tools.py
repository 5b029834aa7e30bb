"""The scripts that stand for compilers, used as builds use them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from faketools import script
from programs import find_cmake
from workshop import Workshop, finish

from orchestrator.jobs.compilercache import settings
from orchestrator.jobs.tools import shadow


def real(*names: str) -> dict[str, Path]:
    """Return this machine's compilers by name."""
    found = {name: shutil.which(name) for name in names}
    return {name: Path(path) for name, path in found.items() if path}


def test_a_python_with_a_long_path_is_started_by_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = getattr(sys, "_base_executable", None) or sys.executable
    folder = tmp_path / f"a folder {'x' * 120}"
    folder.mkdir()
    script(folder / "python", f'exec {base} "$@"')
    monkeypatch.setattr(sys, "_base_executable", str(folder / "python"))
    with Workshop(tmp_path / "w") as shop:
        assert (shop.tools / "cc").read_text().startswith("#!/bin/sh\n")
        shop.write("a b.c", "print(sys.argv[2:])")
        assert shop.run("cc", "-c", "a b.c", "-D'x y'").stdout == "['a b.c', \"-D'x y'\"]\n"
        assert [record.how for record in shop.records] == ["ran"]


def test_arguments_come_through_whatever_they_hold(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.write("a b.c", "print(ascii(sys.argv[1:]))")
        odd = ["-D=a b", "-D'\"\\$`", "-Dnew\nline", "-Dü", "", "-I\udcff/x", "*"]
        done = shop.run("cc", "-c", "a b.c", *(word.encode("utf-8", "surrogateescape") for word in odd))
        assert done.stdout == ascii(["-c", "a b.c", *odd]) + "\n"
        (record,) = shop.records
        assert list(record.unit.arguments) == ["-c", "a b.c", *(word.replace("\n", " ") for word in odd)]


def test_a_command_line_of_200_kilobytes(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        words = [f"-I/some/long/folder/of/headers/{n:05}" for n in range(5000)]
        shop.write("a.c", "print(len(sys.argv), sum(map(len, sys.argv[3:])))")
        done = shop.run("cc", "-c", "a.c", *words)
        assert done.stdout == f"5003 {sum(map(len, words))}\n"
        assert len(shop.records[0].unit.arguments) == 5002
        (tmp_path / "words").write_text("\n".join(words))
        shop.write("b.c", "print(len(sys.argv))")
        assert shop.run("cc", "-c", "b.c", "@words").stdout == "4\n"
        assert len(shop.records[1].unit.arguments) == 5002


@pytest.mark.parametrize("words", ["--version", "-E a.c", "-dumpmachine", "-v"])
def test_questions_pass_through(tmp_path: Path, words: str) -> None:
    with Workshop(tmp_path, compilers=real("gcc")) as shop:
        shop.write("a.c", "int x;\n")
        command = [str(real("gcc")["gcc"]), *words.split()]
        plain = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        ours = shop.run("gcc", *words.split())
    assert (ours.returncode, ours.stdout) == (0, plain.stdout)
    assert "COLLECT_GCC" in ours.stderr if words == "-v" else ours.stderr == plain.stderr
    assert not shop.records


def test_doubled_wrapping_is_undone(tmp_path: Path, ccache_program: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.write("a.c", "print(os.path.basename(sys.argv[0]))")
        launcher, wrapped = str(shop.tools / "sparkbuild-launcher"), str(shop.tools / "cc")
        for before in (
            [launcher, wrapped],
            [launcher, launcher, wrapped],
            [launcher, str(ccache_program), wrapped],
        ):
            assert shop.run(*before, "-c", "a.c").stdout == "gcc\n"
        assert [record.tries for record in shop.records] == [1, 1, 1]


def test_a_compiler_that_calls_another_has_one_turn(tmp_path: Path) -> None:
    with Workshop(tmp_path, slots=1) as shop:
        shop.write("b.c")
        inner = "import subprocess; subprocess.run(['cc', '-c', 'b.c', '-o', 'b.o'], check=True)"
        assert finish(shop.compile("a.c", inner), limit_s=20) == [0]
        assert (tmp_path / "b.o").exists()
        assert [record.unit.name for record in shop.records] == ["a.c"]


def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.write("a.c")
        done = shop.run("sparkbuild-launcher", "/nowhere/gcc", "-c", "a.c")
        assert (done.returncode, done.stderr) == (
            127,
            "error: sparkbuild: /nowhere/gcc: No such file or directory\n",
        )
        done = shop.run("sparkbuild-launcher", "/nowhere/gcc", "--version")
        assert (done.returncode, done.stderr) == (
            127,
            "error: sparkbuild: /nowhere/gcc: No such file or directory\n",
        )


def test_a_pipe_that_breaks_ends_a_compiler_as_ever(tmp_path: Path) -> None:
    """Python ignores SIGPIPE, and what it starts would too."""
    compiler = script(tmp_path / "sh-cc", "kill -PIPE $$; exit 7")
    with Workshop(tmp_path / "w", compilers={"cc": compiler}) as shop:
        shop.write("a.c")
        assert shop.run("cc", "-c", "a.c").returncode == 141
        assert shop.run("cc", "-E", "a.c").returncode == -13


def test_variables_name_what_is_there(tmp_path: Path) -> None:
    with Workshop(tmp_path, compilers=real("gcc", "g++")) as shop:
        assert (shop.env["CC"], shop.env["CXX"]) == (f"{tmp_path}/tools/gcc", f"{tmp_path}/tools/g++")
        assert "PYTORCH_NVCC" not in shop.env
    with Workshop(tmp_path / "two") as shop:
        assert shop.env["PYTORCH_NVCC"] == f"{shop.tools}/nvcc"
        assert shop.env["FLASHINFER_NVCC_LAUNCHER"] == f"{shop.tools}/sparkbuild-launcher"
        assert shop.env["CC"] == f"{shop.tools}/cc"
        assert "CXX" not in shop.env


def test_a_build_that_calls_nvcc_by_cuda_home_comes_to_us_too(tmp_path: Path) -> None:
    toolkit = tmp_path / "toolkit"
    (toolkit / "include").mkdir(parents=True)
    (toolkit / "include/cuda.h").write_text("")
    (toolkit / "bin").mkdir()
    nvcc = script(toolkit / "bin/nvcc", "echo compiled")
    script(toolkit / "bin/ptxas", "echo assembled")
    with Workshop(tmp_path / "w", compilers={"nvcc": nvcc}) as shop:
        home = shadow(shop.tools, toolkit)
        assert (home / "include/cuda.h").is_file()
        assert subprocess.run([home / "bin/ptxas"], capture_output=True, check=True).stdout == b"assembled\n"
        shop.write("a.cu")
        done = shop.run(str(home / "bin/nvcc"), "-c", "a.cu", "-o", "a.o")
        assert done.stdout == "compiled\n"
        done = shop.run("sparkbuild-launcher", str(home / "bin/nvcc"), "-c", "a.cu", "-o", "b.o")
        assert done.stdout == "compiled\n"
        assert [record.unit.compiler for record in shop.records] == [str(nvcc)] * 2


def test_flashinfers_launcher(tmp_path: Path) -> None:
    """FlashInfer puts the words of FLASHINFER_NVCC_LAUNCHER before the nvcc of CUDA_HOME."""
    with Workshop(tmp_path) as shop:
        shop.write("a.cu")
        assert (
            shop.run(shop.env["FLASHINFER_NVCC_LAUNCHER"], f"{tmp_path}/real/nvcc", "-c", "a.cu").returncode
            == 0
        )
        assert [record.unit.is_cuda for record in shop.records] == [True]


def test_setuptools_compiles_and_links_through_us(tmp_path: Path, ccache_program: Path) -> None:
    more = settings(tmp_path / "cache", base=tmp_path, tools=["gcc"])
    with Workshop(tmp_path, compilers=real("gcc", "g++"), ccache=ccache_program, more=more) as shop:
        shop.write("one.c", "int one;\n")
        shop.write("two.cpp", "int two;\n")
        shop.write(
            "setup.py",
            "from setuptools import Extension, setup\n"
            "setup(name='x', ext_modules=[Extension('x', ['one.c', 'two.cpp'])])\n",
        )
        done = shop.run(sys.executable, "setup.py", "build_ext", "--inplace")
        assert done.returncode == 0, done.stdout + done.stderr
        shop.broker.close(shop.step)
        asked = [(record.unit.kind, record.how, record.unit.source) for record in shop.records]
    assert asked[:2] == [("compile", "ran", "one.c"), ("compile", "ran", "two.cpp")]
    assert [kind for kind, _, _ in asked[2:]] == ["link"]


CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(x LANGUAGES {languages})
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("int main() {{ return 0; }}" WORKS)
if(NOT WORKS)
  message(FATAL_ERROR "a probe failed")
endif()
add_library(x SHARED {sources})
"""


def configured(shop: Workshop, languages: str, sources: str, *more: str) -> None:
    """Configure and build a CMake project."""
    shop.write("CMakeLists.txt", CMAKE.format(languages=languages, sources=sources))
    for words in (["-B", "build", *more], ["--build", "build", "-j2"]):
        done = shop.run(find_cmake(), *words)
        assert done.returncode == 0, done.stdout + done.stderr
    shop.broker.close(shop.step)


def test_cmake_compiles_and_links_through_us(tmp_path: Path, ccache_program: Path) -> None:
    more = settings(tmp_path / "cache", base=tmp_path, tools=["gcc"])
    with Workshop(tmp_path, compilers=real("gcc", "g++"), ccache=ccache_program, more=more) as shop:
        shop.write("one.cpp", "int one;\n")
        shop.write("two.cpp", "int two;\n")
        configured(shop, "CXX", "one.cpp two.cpp")
    made = sorted((record.unit.kind, record.how, record.unit.name) for record in shop.records)
    assert made == [
        ("compile", "ran", made[0][2]),
        ("compile", "ran", made[1][2]),
        ("link", "ran", made[2][2]),
    ]
    assert [name.rpartition("/")[2] for _, _, name in made] == ["one.cpp", "two.cpp", "libx.so"]


@pytest.mark.toolkit
def test_cmake_finds_and_uses_nvcc_through_us(tmp_path: Path, ccache_program: Path, nvcc: Path) -> None:
    more = settings(tmp_path / "cache", base=tmp_path, tools=["nvcc"])
    compilers = real("gcc", "g++") | {"nvcc": nvcc}
    with Workshop(tmp_path, compilers=compilers, ccache=ccache_program, more=more) as shop:
        shop.step.judge = lambda unit, images: None if not unit.is_cuda or "sm_90" in images else "not for us"
        shop.write("one.cu", "__global__ void k() {}\n")
        configured(shop, "CXX CUDA", "one.cu", "-DCMAKE_CUDA_ARCHITECTURES=90-real")
    device = [record for record in shop.records if record.unit.is_cuda]
    assert [(record.unit.name.rpartition("/")[2], record.images) for record in device] == [
        ("one.cu", ("sm_90",))
    ]
    assert {record.how for record in shop.records} == {"ran"}
