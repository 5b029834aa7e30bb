"""Installed toolkits: where they are found, and what they lack."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import faketools
import pytest

from orchestrator.errors import ToolkitError
from orchestrator.model.stack import Toolkit as Spec
from orchestrator.store.facts import Facts
from orchestrator.toolchain.system import candidates, examine, identity

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = ("cuda_runtime.h", "cublas_v2.h")
LIBRARIES = ("libcudart.so", "libcublas.so")


def spec(version: str = "==13.0.*") -> Spec:
    return Spec(version=version, packages=("cuda-toolkit",), headers=HEADERS, libraries=LIBRARIES)


def test_a_whole_one_lacks_nothing(tmp_path: Path, facts: Facts) -> None:
    root = faketools.toolkit(tmp_path / "cuda", headers=HEADERS, libraries=LIBRARIES)
    fitness = examine(root, spec(), facts)
    assert (fitness.version, fitness.faults) == ("13.0.88", ())


def test_a_partial_one_lacks_each_thing_by_name(tmp_path: Path, facts: Facts) -> None:
    root = faketools.toolkit(
        tmp_path / "cuda", headers=HEADERS[:1], libraries=("libcudart.so", "libcublas.so.13")
    )
    (root / "bin/fatbinary").unlink()
    assert examine(root, spec(), facts).faults == ("fatbinary", "cublas_v2.h", "libcublas.so")


def test_a_name_that_leads_nowhere_does_not_count(tmp_path: Path, facts: Facts) -> None:
    root = faketools.toolkit(tmp_path / "cuda", headers=HEADERS, libraries=LIBRARIES[:1])
    (root / "lib64/libcublas.so").symlink_to("libcublas.so.13")
    assert examine(root, spec(), facts).faults == ("libcublas.so",)


@pytest.mark.parametrize(
    ("version", "specifier", "serves"),
    [("13.0.88", "==13.0.*", True), ("13.1.2", "==13.0.*", False), ("12.9.1", ">=12.8,<14", True)],
)
def test_the_version_is_the_stacks(
    tmp_path: Path, facts: Facts, version: str, specifier: str, *, serves: bool
) -> None:
    root = faketools.toolkit(tmp_path / "cuda", version=version, headers=HEADERS, libraries=LIBRARIES)
    faults = examine(root, spec(specifier), facts).faults
    assert faults == (() if serves else (f"CUDA {specifier} (it is {version})",))


@pytest.mark.parametrize(
    ("header", "library"),
    [
        ("include/cccl/cub/cub.cuh", "lib/libx.so"),
        ("targets/{target}/include/cub/cub.cuh", "targets/{target}/lib/libx.so"),
        ("targets/{target}/include/cccl/cub/cub.cuh", "lib64/stubs/libx.so"),
    ],
)
def test_where_headers_and_libraries_may_lie(tmp_path: Path, facts: Facts, header: str, library: str) -> None:
    target = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}[platform.machine()]
    root = faketools.toolkit(tmp_path / "cuda")
    wanted = Spec(version=">=13", packages=(), headers=("cub/cub.cuh",), libraries=("libx.so",))
    assert examine(root, wanted, facts).faults == ("cub/cub.cuh", "libx.so")
    for name in (header.format(target=target), library.format(target=target)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    assert examine(root, wanted, facts).faults == ()


def test_another_machines_target_does_not_count(tmp_path: Path, facts: Facts) -> None:
    other = {"x86_64": "sbsa-linux", "aarch64": "x86_64-linux"}[platform.machine()]
    root = faketools.toolkit(tmp_path / "cuda")
    (root / "targets" / other / "include").mkdir(parents=True)
    (root / "targets" / other / "include/x.h").write_text("")
    assert examine(root, Spec(version=">=13", packages=(), headers=("x.h",)), facts).faults == ("x.h",)


def test_the_version_is_asked_once(tmp_path: Path) -> None:
    root = faketools.toolkit(tmp_path / "cuda", headers=HEADERS, libraries=LIBRARIES)
    for _ in range(3):
        examine(root, spec(), Facts(tmp_path / "facts.json"))
    assert faketools.calls(root / "calls") == 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [("echo hello", "an nvcc that tells its version"), (None, "bin/nvcc")],
)
def test_what_is_no_nvcc(tmp_path: Path, facts: Facts, body: str | None, fault: str) -> None:
    if body:
        faketools.script(tmp_path / "bin/nvcc", body)
    assert examine(tmp_path, spec(), facts).faults == (fault,)


def test_an_nvcc_of_another_machine(tmp_path: Path, facts: Facts) -> None:
    nvcc = faketools.script(tmp_path / "bin/nvcc", "")
    nvcc.write_bytes(b"\x7fELF\x00\x00")
    (fault,) = examine(tmp_path, spec(), facts).faults
    assert "nvcc that runs" in fault


def test_the_order_of_places(tmp_path: Path, facts: Facts) -> None:
    local = tmp_path / "local"
    roots = {
        name: faketools.toolkit(path)
        for name, path in {
            "home": tmp_path / "home",
            "path": tmp_path / "path",
            "bin": tmp_path / "bin-root",
            "12": local / "cuda-12.9",
            "13": local / "cuda-13.0",
            "9": local / "cuda-9.2",
        }.items()
    }
    (local / "cuda").symlink_to("cuda-12.9")
    (local / "cuda-samples").mkdir()
    environ = {
        "CUDA_HOME": str(roots["home"]),
        "CUDA_PATH": str(roots["path"]),
        "PATH": f"/nonexistent:{roots['bin']}/bin",
    }
    found = candidates(facts, environ=environ, local=local)
    assert [place.root.resolve() for place in found] == [
        roots[name] for name in ("home", "path", "bin", "12", "13", "9")
    ]


def test_one_folder_by_many_names_is_one(tmp_path: Path, facts: Facts) -> None:
    root = faketools.toolkit(tmp_path / "local/cuda-13.0")
    (tmp_path / "local/cuda").symlink_to("cuda-13.0")
    (tmp_path / "nvcc-link").mkdir()
    (tmp_path / "nvcc-link/nvcc").symlink_to(root / "bin/nvcc")
    environ = {"CUDA_HOME": str(tmp_path / "local/cuda"), "PATH": str(tmp_path / "nvcc-link")}
    found = candidates(facts, environ=environ, local=tmp_path / "local")
    assert [place.origin for place in found] == ["CUDA_HOME"]


def test_a_wrapper_is_asked_where_nvcc_lies_and_links_are_followed_anew(tmp_path: Path) -> None:
    old, new = (faketools.toolkit(tmp_path / name) for name in ("cuda-13.0", "cuda-13.1"))
    current = tmp_path / "current"
    current.symlink_to(old)
    log = tmp_path / "calls"
    faketools.script(
        tmp_path / "bin/nvcc",
        f"echo called >> {log}\necho '#$ TOP={current}/bin/..'\nexec {current}/bin/nvcc \"$@\"",
    )
    environ = {"PATH": f"{tmp_path}/bin"}

    def root() -> Path:
        facts = Facts(tmp_path / "facts.json")
        return candidates(facts, environ=environ, local=tmp_path / "none")[0].root.resolve()

    assert root() == old
    current.unlink()
    current.symlink_to(new)
    assert root() == new
    assert faketools.calls(log) == 1


def test_a_wrapper_that_says_nothing_is_passed_over(tmp_path: Path, facts: Facts) -> None:
    faketools.script(tmp_path / "bin/nvcc", "exit 1")
    assert candidates(facts, environ={"PATH": f"{tmp_path}/bin"}, local=tmp_path / "none") == []


@pytest.mark.parametrize(
    "changed", ["bin/nvcc", "nvvm/bin/cicc", "bin/ptxas", "bin/fatbinary", "include/cuda.h"]
)
def test_the_identity_follows_what_makes_code(tmp_path: Path, facts: Facts, changed: str) -> None:
    root = faketools.toolkit(tmp_path / "cuda", headers=HEADERS)
    before = identity(root, facts)
    with (root / changed).open("a") as stream:
        stream.write("\n# changed\n")
    assert identity(root, facts) != before


def test_the_identity_follows_nothing_else(tmp_path: Path, facts: Facts) -> None:
    first = faketools.toolkit(tmp_path / "cuda", headers=HEADERS)
    before = identity(first, facts)
    (first / "include/cublas_v2.h").write_text("changed")
    first.rename(tmp_path / "moved")
    assert identity(tmp_path / "moved", facts) == before
    (tmp_path / "moved/bin/ptxas").unlink()
    with pytest.raises(ToolkitError, match="ptxas cannot be read"):
        identity(tmp_path / "moved", facts)
