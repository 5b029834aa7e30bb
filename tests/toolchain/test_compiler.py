"""The host compiler: found, proved, and named by what it is."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import faketools
import pytest

from orchestrator.errors import MachineError, ToolMissingError
from orchestrator.store.facts import Facts
from orchestrator.toolchain.compiler import host_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.toolchain.compiler import Compiler

GCC, GXX = shutil.which("gcc"), shutil.which("g++")
pytestmark = pytest.mark.skipif(GCC is None or GXX is None, reason="this machine has no gcc")


def logged(folder: Path, name: str, real: str | None) -> Path:
    """Write a compiler that logs its calls and is the real one otherwise."""
    return faketools.script(folder / name, f'echo called >> {folder}/calls\nexec {real} "$@"')


def test_this_machines_compiler(compiler: Compiler) -> None:
    assert compiler.cc.is_absolute()
    assert compiler.cxx.name.startswith("g++")
    assert compiler.target.split("-")[0] in {"x86_64", "aarch64"}
    kind, _, digest = compiler.identity.partition("-")
    assert (kind, len(digest)) == ("gcc", 64)


def test_the_second_time_no_process_starts(tmp_path: Path, facts: Facts) -> None:
    environ = {
        "CC": str(logged(tmp_path, "gcc", GCC)),
        "CXX": str(logged(tmp_path, "g++", GXX)),
        "PATH": os.environ["PATH"],
    }
    first = host_compiler(facts, environ=environ)
    count = faketools.calls(tmp_path / "calls")
    assert count > 0
    again = host_compiler(Facts(tmp_path / "facts.json"), environ=environ)
    assert again == first
    assert faketools.calls(tmp_path / "calls") == count


def test_other_bytes_are_another_identity(tmp_path: Path, facts: Facts) -> None:
    environ = {"CC": str(logged(tmp_path, "gcc", GCC)), "CXX": str(logged(tmp_path, "g++", GXX))}
    first = host_compiler(facts, environ=environ)
    faketools.script(tmp_path / "g++", f'exec {GXX} "$@" # changed')
    second = host_compiler(facts, environ=environ)
    assert first.identity != second.identity
    assert first.version == second.version


def test_moved_it_is_the_same(tmp_path: Path, facts: Facts) -> None:
    body = f'exec {GXX} "$@"'
    identities = set()
    for name in ("here", "there"):
        cxx = faketools.script(tmp_path / name / "g++", body)
        identities.add(host_compiler(facts, environ={"CC": str(GCC), "CXX": str(cxx)}).identity)
    assert len(identities) == 1


def test_the_cxx_follows_the_cc(tmp_path: Path, facts: Facts) -> None:
    logged(tmp_path, "gcc-99", GCC)
    logged(tmp_path, "g++-99", GXX)
    found = host_compiler(facts, environ={"CC": "gcc-99", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert found.cxx == tmp_path / "g++-99"


def test_links_to_a_compiler_cache_are_no_compiler(tmp_path: Path, facts: Facts) -> None:
    faketools.script(tmp_path / "bin/ccache", "exit 1")
    for name in ("gcc", "g++"):
        (tmp_path / "links").mkdir(exist_ok=True)
        (tmp_path / "links" / name).symlink_to(tmp_path / "bin/ccache")
    found = host_compiler(facts, environ={"PATH": f"{tmp_path}/links:{os.environ['PATH']}"})
    assert str(found.cxx) == GXX


def test_a_launcher_before_the_compiler_is_left_out(facts: Facts) -> None:
    environ = {"CC": f"ccache {GCC}", "CXX": f"/usr/bin/sccache {GXX}", "PATH": os.environ["PATH"]}
    found = host_compiler(facts, environ=environ)
    assert (str(found.cc), str(found.cxx)) == (GCC, GXX)


def test_no_compiler_says_what_to_install(tmp_path: Path, facts: Facts) -> None:
    with pytest.raises(ToolMissingError, match="gcc or cc or clang is not there") as caught:
        host_compiler(facts, environ={"PATH": str(tmp_path)})
    assert caught.value.exit_code == 4
    assert "build-essential" in str(caught.value.hint)


def test_a_c_compiler_alone_is_not_enough(tmp_path: Path, facts: Facts) -> None:
    logged(tmp_path, "gcc", GCC)
    with pytest.raises(ToolMissingError, match=r"g\+\+"):
        host_compiler(facts, environ={"PATH": str(tmp_path)})


def test_a_named_compiler_that_is_not_there(facts: Facts) -> None:
    with pytest.raises(ToolMissingError, match="CC: no compiler: gcc-77"):
        host_compiler(facts, environ={"CC": "gcc-77", "PATH": os.environ["PATH"]})


def test_flags_in_cc_are_refused(facts: Facts) -> None:
    with pytest.raises(MachineError, match="more than a compiler"):
        host_compiler(facts, environ={"CC": "gcc -m32", "PATH": os.environ["PATH"]})


def test_one_that_cannot_build_is_named(tmp_path: Path, facts: Facts) -> None:
    fault = "echo In file included; echo fatal error: cstddef: No such file >&2; exit 1"
    body = f'case "$*" in *empty.cpp*) {fault};; esac\nexec {GXX} "$@"'
    cxx = faketools.script(tmp_path / "g++", body)
    environ = {"CC": str(GCC), "CXX": str(cxx)}
    for _ in range(2):  # a failure is not remembered
        with pytest.raises(
            ToolMissingError, match=r"cannot build an empty C\+\+ program: fatal error: cstddef"
        ):
            host_compiler(facts, environ=environ)
    faketools.script(tmp_path / "g++", f'exec {GXX} "$@"')
    assert host_compiler(facts, environ=environ).cxx == cxx


def test_one_that_does_not_run_is_named(tmp_path: Path, facts: Facts) -> None:
    cxx = faketools.script(tmp_path / "g++", "echo licence expired; exit 1")
    with pytest.raises(ToolMissingError, match="licence expired"):
        host_compiler(facts, environ={"CC": str(GCC), "CXX": str(cxx)})
