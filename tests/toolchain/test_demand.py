"""Which compiler a recipe takes, told by what compilers say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.toolchain.compiler import Compiler
from orchestrator.toolchain.demand import compiler_fault


def compiler(version: str) -> Compiler:
    return Compiler(Path("/usr/bin/cc"), Path("/usr/bin/c++"), version, "x86_64-linux-gnu", "x")


DEBIAN_12 = "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"
UBUNTU = "g++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"
CLANG = "Debian clang version 16.0.6 (27+b1)"


@pytest.mark.parametrize(
    ("version", "kind", "release"),
    [
        (DEBIAN_12, "gcc", "12.2.0"),
        (UBUNTU, "gcc", "13.3.0"),
        ("c++ (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)", "gcc", "14.2.1"),
        ("x86_64-conda-linux-gnu-c++ (conda-forge gcc 13.3.0-1) 13.3.0", "gcc", "13.3.0"),
        ("g++ (SUSE Linux) 15", "gcc", "15"),
        (CLANG, "clang", "16.0.6"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)", "clang", "18.1.3"),
        ("clang version 19.1.0-rc2", "clang", "19.1.0"),
        ("nvc++ 25.1-0 64-bit target", "gcc", None),
    ],
)
def test_kind_and_release(version: str, kind: str, release: str | None) -> None:
    assert (compiler(version).kind, compiler(version).release) == (kind, release)


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        (DEBIAN_12, {}, True),
        (DEBIAN_12, {"gcc": ">=13"}, False),
        (DEBIAN_12, {"gcc": ">=11.3,<14"}, True),
        (UBUNTU, {"gcc": ">=13"}, True),
        (CLANG, {"gcc": ">=13"}, False),
        (CLANG, {"gcc": ">=13", "clang": ">=16"}, True),
        (CLANG, {"clang": ">=17"}, False),
        (DEBIAN_12, {"clang": ">=12"}, False),
        ("nvc++ 25.1-0", {"gcc": ">=1"}, False),
    ],
)
def test_one_of_those_named_must_fit(version: str, wanted: dict[str, str], *, fits: bool) -> None:
    assert (compiler_fault(compiler(version), wanted, name="vllm") is None) is fits


def test_the_error_says_what_there_is_and_what_to_install() -> None:
    error = compiler_fault(compiler(DEBIAN_12), {"gcc": ">=13", "clang": "<20"}, name="vllm")
    assert error is not None
    assert error.exit_code == 4
    assert error.message == "vllm needs gcc >=13 or clang <20, and the host compiler is gcc 12.2.0"
    assert error.hint == (
        "`apt install g++-13`, CC=gcc-13 CXX=g++-13 or `apt install clang`, CC=clang CXX=clang++"
    )
