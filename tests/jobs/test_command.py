"""What a compiler is asked for, told from its command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.jobs.command import effective, is_probe, kind, split

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("-c a.cpp -o a.o", "compile"),
        ("-O2 -MD -MF a.d -c -o a.o a.cc", "compile"),
        ("-x cu -c a.cpp -o a.o", "compile"),
        ("--compile a.cu -Xptxas -v -o a.o", "compile"),
        ("-v -c a.cu", "compile"),
        ("-Xcompiler -E -c a.cu", "compile"),
        ("--device-c a.cu", "compile"),
        ("-cubin a.cu -o a.cubin", "compile"),
        ("-ptx a.cu", "compile"),
        ("-S a.c", "compile"),
        ("-c a.S", "compile"),
        ("-shared a.o -o a.so", "link"),
        ("a.o b.a -o prog", "link"),
        ("-dlink a.o -o d.o", "link"),
        ("a.cpp -shared -o a.so", "link"),
        ("--version", "other"),
        ("-V", "other"),
        ("-v", "other"),
        ("-E a.c", "other"),
        ("-E -c a.c", "other"),
        ("-M a.cu", "other"),
        ("--dryrun -c a.cu", "other"),
        ("-### -c a.c", "other"),
        ("-dumpmachine", "other"),
        ("-c -", "other"),
        ("-print-prog-name=cc1", "other"),
        ("-o a.o", "other"),
        ("-include a.cpp", "other"),
        ("", "other"),
    ],
)
def test_kind(command: str, asked: str) -> None:
    assert kind(command.split()) == asked


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/w/b/CMakeFiles/3.31.6/CompilerIdCUDA", "CMakeCUDACompilerId.cu"),
        ("/w/b/CMakeFiles/CMakeTmp", "testCUDACompiler.cu"),
        ("/w/b/CMakeFiles/CMakeScratch/TryCompile-ab12", "src.cxx"),
        ("/w/b", "/usr/share/cmake/Modules/CMakeCXXCompilerABI.cpp"),
    ],
)
def test_cmakes_probes(folder: str, name: str) -> None:
    assert is_probe(folder, ["-c", name])


@pytest.mark.parametrize(("folder", "name"), [("/w/CMakeScratch", "a.cu"), ("/w/b/CMakeFiles/x.dir", "b.cu")])
def test_what_is_no_probe(folder: str, name: str) -> None:
    assert not is_probe(folder, ["-c", name])


def test_words_of_a_variable() -> None:
    assert split(" -a  -b\n") == ["-a", "-b"]
    assert split("-D'A B' -c\\ d") == ["-DA B", "-c d"]
    assert split("-D'A B") == ["-D'A", "B"]


def test_nvccs_response_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("-c a.cu")
    two.write_bytes(b"-I\xff -O2")
    given = effective("/x/nvcc", ["-optf", f"{one},{two}", "-v", f"--options-file={one}", "-optf"], {})
    assert given == ["-c", "a.cu", "-I\udcff", "-O2", "-v", "-c", "a.cu"]


def test_gccs_response_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("-c a.c")
    assert effective("g++", [f"@{tmp_path}/one", "@nowhere"], {"NVCC_APPEND_FLAGS": "-x"}) == [
        "-c",
        "a.c",
        "@nowhere",
    ]
