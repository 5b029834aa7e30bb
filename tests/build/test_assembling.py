"""Assemblers of wheels, run for real: scripts that stand in for ptxas, and Triton's own."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from faketools import assembler
from published import members
from wheelhouse import make_wheel

from orchestrator.build.assembling import assemble
from orchestrator.model.arch import ARCHES, Entry
from orchestrator.model.catalog import Catalog
from orchestrator.model.platform import Target
from orchestrator.model.when import assembled

if TYPE_CHECKING:
    from pathlib import Path

PTXAS = "demo/bin/ptxas"
WANTED = [(PTXAS, "sm_121a")]
TRITON = "triton-3.8.0-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"


def texts(wheel: Path, scratch: Path, name: str | None = None) -> list[str]:
    found = assemble(WANTED, {name or wheel.name: wheel}, scratch=scratch)
    assert all((finding.level, finding.code) == ("error", "assembler") for finding in found.findings)
    assert not list(scratch.iterdir()), "nothing is left there"
    return [finding.text for finding in found.findings]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_it_is_taken_out_and_asked_for_each_arch(tmp_path: Path, scratch: Path) -> None:
    (wheel, other) = (
        make_wheel(tmp_path, "demo", {PTXAS: assembler("sm_121a", "sm_120f")})[1],
        make_wheel(tmp_path, "other", {"other.py": ""})[1],
    )
    wanted = [(PTXAS, "sm_120f"), (PTXAS, "sm_121a"), (PTXAS, "sm_90a")]
    found = assemble(wanted, {path.name: path for path in (other, wheel)}, scratch=scratch)
    assert found.able == ((PTXAS, "sm_120f"), (PTXAS, "sm_121a"))
    text = f"{PTXAS} does not assemble sm_90a: ptxas fatal   : Value 'sm_90a' is not defined for option"
    assert [finding.text for finding in found.findings] == [f"{text} 'gpu-name'"]
    assert found.told("host only").startswith("host only; ptxas assembles sm_120f, sm_121a; demo/bin/ptxas")


def test_a_folder_with_what_was_in_the_wheel(tmp_path: Path, scratch: Path) -> None:
    file, wheel = make_wheel(tmp_path, "demo", {PTXAS: assembler("sm_121a")})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site" / PTXAS).chmod(0o444)  # as in a layer
    assert texts(tmp_path / "site", scratch, file.file) == []
    (tmp_path / "site" / PTXAS).unlink()
    assert texts(tmp_path / "site", scratch, file.file) == [f"{PTXAS} is not there, or cannot be read"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", f"{PTXAS} does not assemble sm_121a: "),
        (b"\x7fELF of nobody", f"{PTXAS} does not assemble sm_121a: cannot be run: "),
        (b"#!/bin/sh\nexit 0\n", f"{PTXAS} does not assemble sm_121a: it ended with 0 and without a word"),
        (b"#!/bin/sh\nkill -9 $$\n", f"{PTXAS} does not assemble sm_121a: it ended with -9"),
    ],
)
def test_what_does_not_work(tmp_path: Path, scratch: Path, content: bytes, told: str) -> None:
    wheel = make_wheel(tmp_path, "demo", {PTXAS: content})[1]
    (text,) = texts(wheel, scratch)
    assert text.startswith(told)


def test_a_damaged_member(tmp_path: Path, scratch: Path) -> None:
    wheel = make_wheel(tmp_path, "demo", {PTXAS: assembler("sm_121a")})[1]
    data = bytearray(wheel.read_bytes())
    data[60] ^= 0xFF  # in the first member's bytes
    wheel.write_bytes(data)
    assert texts(wheel, scratch) == [f"{PTXAS} is not there, or cannot be read"]


def test_programs_of_another_platform_are_not_run(tmp_path: Path, scratch: Path) -> None:
    other = {"linux-x86_64": "aarch64", "linux-aarch64": "x86_64"}[Target.here().platform]
    wheel = make_wheel(tmp_path, "demo", {PTXAS: assembler()})[1]
    assert assemble(WANTED, {f"demo-1.0-py3-none-manylinux_2_28_{other}.whl": wheel}, scratch=scratch) == (
        assemble([], {wheel.name: wheel}, scratch=scratch)
    )
    assert len(texts(wheel, scratch)) == 1, "here it is"


@pytest.mark.network
@pytest.mark.skipif(Target.here().platform != "linux-x86_64", reason="runs programs of x86_64")
def test_triton_s_own(tmp_path: Path, scratch: Path, shared_layers: Path) -> None:
    recipe = Catalog.default().recipe("triton")
    entries = [Entry(arch) for arch in ARCHES]
    wanted = assembled(recipe, version="3.8.0", entries=entries, platform="linux-x86_64")
    assert {image for _, image in wanted} == {arch.name for arch in ARCHES}
    files = tuple(dict.fromkeys(file for file, _ in wanted))
    for file, data in members(TRITON, files, shared_layers).items():
        (tmp_path / "site" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / file).write_bytes(data)
    found = assemble(wanted, {TRITON: tmp_path / "site"}, scratch=scratch)
    # Its ptxas is of CUDA 12.9, and sm_88 came with 13.0.
    assert set(wanted) - set(found.able) == {("triton/backends/nvidia/bin/ptxas", "sm_88")}
    (finding,) = found.findings
    assert finding.text.endswith(
        "/ptxas does not assemble sm_88: ptxas fatal   : Value 'sm_88' is not defined for option 'gpu-name'"
    )
