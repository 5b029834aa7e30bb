"""ccache behind the launcher: what hits, and what must not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from workshop import Workshop

from orchestrator.jobs.compilercache import settings
from orchestrator.jobs.units import hit_rate

if TYPE_CHECKING:
    from pathlib import Path

CODE = '#include "part.h"\nconst char *where() { return __FILE__; }\nint f() { return PART; }\n'


def shop_with(
    tmp_path: Path, ccache: Path, name: str, compiler: str, *, tools: str = "one", nvcc: Path | None = None
) -> Workshop:
    """Return a workshop in a folder of its own, which shares the cache with others."""
    folder = tmp_path / name
    real = nvcc or shutil.which(compiler)
    assert real is not None
    more = settings(tmp_path / "cache", base=folder, tools=[tools], size="1G")
    flags = f"-ffile-prefix-map={folder}=/build"
    more["NVCC_APPEND_FLAGS"] = f"-objtemp -Xcompiler={flags}"
    shop = Workshop(folder, compilers={compiler: type(tmp_path)(real)}, more=more, ccache=ccache)
    (folder / "inc").mkdir()
    (folder / "inc/part.h").write_text("#define PART 1\n")
    shop.write("a b.cpp", CODE)
    shop.write("a.cu", CODE + "__global__ void k() {}\n")
    return shop


def compile_host(shop: Workshop, *more: str) -> str:
    """Compile the host unit, and say what became of it."""
    flags = f"-ffile-prefix-map={shop.folder}=/build"
    command = ("-I", f"{shop.folder}/inc", flags, "-c", f"{shop.folder}/a b.cpp", "-o", "a.o", *more)
    done = shop.run("g++", *command)
    assert done.returncode == 0, done.stderr
    return shop.records[-1].how


def compile_device(shop: Workshop, *more: str) -> str:
    """Compile the device unit, and say what became of it."""
    done = shop.run("nvcc", f"-I{shop.folder}/inc", "-c", f"{shop.folder}/a.cu", "-o", "k.o", *more)
    assert done.returncode == 0, done.stderr
    return shop.records[-1].how


def test_a_fresh_tree_in_another_folder_hits(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        assert compile_host(shop) == "ran"
        first = (shop.folder / "a.o").read_bytes()
        assert compile_host(shop) == "hit"
    with shop_with(tmp_path, ccache_program, "other", "g++") as other:
        assert compile_host(other) == "hit"
        assert other.records[-1].tries == 0
        assert (other.folder / "a.o").read_bytes() == first
        assert str(tmp_path).encode() not in first
        (other.folder / "inc/part.h").write_text("#define PART 2\n")
        assert compile_host(other) == "ran"
        assert hit_rate(other.records) == 0.5
    assert hit_rate([]) is None


def test_other_tools_do_not_hit(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        assert compile_host(shop) == "ran"
    with shop_with(tmp_path, ccache_program, "two", "g++", tools="other") as shop:
        assert compile_host(shop) == "ran"
        assert compile_host(shop, "-O1") == "ran"


def test_a_failure_is_not_kept_and_is_run_once(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        shop.write("bad.cpp", "int f( { }\n")
        shop.write("lost.cpp", '#include "nowhere.h"\n')
        for name in ("bad.cpp", "bad.cpp", "lost.cpp"):
            assert shop.run("g++", "-c", name).returncode == 1
    assert [(record.how, record.code, record.tries) for record in shop.records] == [("failed", 1, 1)] * 3


def test_the_users_own_settings_do_not_count(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        (shop.folder / ".config/ccache").mkdir(parents=True)
        (shop.folder / ".config/ccache/ccache.conf").write_text("disable = true\nnonsense\n")
        assert [compile_host(shop), compile_host(shop)] == ["ran", "hit"]


def test_a_cache_that_fails_fails_no_build(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        shop.env["CCACHE_DIR"] = "/dev/null/nowhere"
        assert compile_host(shop) == "ran"
        assert len(shop.warnings) == 1
        assert "a b.cpp: ccache failed" in shop.warnings[0]
        shop.write("bad.cpp", "int f( { }\n")
        assert shop.run("g++", "-c", "bad.cpp").returncode == 1
        assert [(record.how, record.tries) for record in shop.records] == [("ran", 1), ("failed", 1)]


def test_an_unknown_compiler_is_not_cached(tmp_path: Path, ccache_program: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "g++") as shop:
        other = shop.folder / "other-g++"
        other.write_text('#!/bin/sh\nexec g++ "$@"\n')
        other.chmod(0o755)
        for _ in range(2):
            done = shop.run("sparkbuild-launcher", str(other), "-I", "inc", "-c", "a b.cpp")
            assert done.returncode == 0, done.stderr
    assert [record.how for record in shop.records] == ["ran", "ran"]


def test_what_nvcc_takes_from_variables_makes_another_object(tmp_path: Path, ccache_program: Path) -> None:
    """Show that ccache alone is wrong, and that the launcher puts it right, with a stand-in for nvcc."""
    with Workshop(tmp_path / "one", ccache=ccache_program) as shop:
        shop.env |= settings(tmp_path / "cache", base=shop.folder, tools=["one"])
        shop.write("a.cu", "sys.stdout.write(os.environ.get('NVCC_APPEND_FLAGS', ''))\n")

        def compiled(flags: str, *command: str) -> str:
            shop.env["NVCC_APPEND_FLAGS"] = flags
            return shop.run(*command, "-c", "a.cu", "-o", "a.o").stdout

        ours = shop.tools / "nvcc"
        assert [compiled(flags, str(ours)) for flags in ("-G", "-O1", "-G")] == ["-G", "-O1", "-G"]
        assert [word for word, _, _ in shop.notes()].count("begin") == 2
        alone = [str(ccache_program), str(shop.folder / "real/nvcc")]
        assert [compiled(flags, *alone) for flags in ("-G", "-O1")] == ["-G", "-G"], "ccache has learned it"


@pytest.mark.toolkit
def test_a_fresh_tree_hits_with_nvcc(tmp_path: Path, ccache_program: Path, nvcc: Path) -> None:
    with shop_with(tmp_path, ccache_program, "one", "nvcc", nvcc=nvcc) as shop:
        assert compile_device(shop, "-arch=sm_121a") == "ran"
        first = (shop.folder / "k.o").read_bytes()
    with shop_with(tmp_path, ccache_program, "two", "nvcc", nvcc=nvcc) as shop:
        assert compile_device(shop, "-arch=sm_121a") == "hit"
        assert (shop.folder / "k.o").read_bytes() == first
        assert "sm_121a" in shop.records[-1].images
        shop.env["NVCC_APPEND_FLAGS"] += " -DPART2"
        assert compile_device(shop, "-arch=sm_121a") == "ran"
        shop.env["NVCC_PREPEND_FLAGS"] = "-gencode arch=compute_90,code=sm_90"
        assert compile_device(shop) == "ran"
        assert "sm_90" in shop.records[-1].images
