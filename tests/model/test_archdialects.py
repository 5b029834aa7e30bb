"""How each build system is told the same arches."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ArchError, UnknownNameError
from orchestrator.model.arch import ARCHES, Arch, Entry, parse_request
from orchestrator.model.archreport import arch_report
from orchestrator.model.dialects import DIALECTS, dialect_notes, env_value, refusal, translate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "dialect", "value"),
    [
        ("12.1a", "nvcc", "-gencode=arch=compute_121a,code=sm_121a"),
        (
            "12.0+PTX",
            "nvcc",
            "-gencode=arch=compute_120,code=sm_120 -gencode=arch=compute_120,code=compute_120",
        ),
        ("compute_121", "nvcc", "-gencode=arch=compute_121,code=compute_121"),
        ("12.1a;9.0a", "torch-cmake", "9.0a;12.1a"),
        ("12.0f", "torch-cmake", "12.0f"),
        ("12.1+PTX", "torch-cmake", "12.1+PTX"),
        ("compute_121", "torch-cmake", None),
        ("12.1a 12.0+PTX", "torch-extension", "12.0+PTX;12.1a"),
        ("12.1f", "torch-extension", None),
        ("12.1a;12.0f", "torch-extension", None),
        ("8.8", "torch-extension", None),
        ("compute_121", "torch-extension", None),
        ("12.1a", "cmake", "121a-real"),
        ("12.1a+PTX", "cmake", "121a"),
        ("compute_121a;9.0a", "cmake", "90a-real;121a-virtual"),
        ("12.1a;12.0f", "flashinfer", "12.0f 12.1a"),
        ("12.1+PTX", "flashinfer", None),
        ("12.1a", "flash-attn", ""),
        ("12.1a;9.0a", "flash-attn", ""),
        ("12.0f", "flash-attn", None),
    ],
)
def test_values(text: str, dialect: str, value: str | None) -> None:
    entries = parse_request(text).entries
    assert env_value(entries, dialect) == value
    assert (refusal(entries, dialect) is None) == (value is not None)


def test_nvcc_is_a_tuple_of_arguments() -> None:
    assert translate(parse_request("12.0f;12.1a").entries, "nvcc") == (
        "-gencode=arch=compute_120f,code=sm_120f",
        "-gencode=arch=compute_121a,code=sm_121a",
    )
    assert translate(parse_request("12.1a").entries, "cmake") == "121a-real"


def test_an_unknown_dialect_gets_a_near_miss() -> None:
    with pytest.raises(UnknownNameError, match="arch dialect named 'torch_cmake'") as caught:
        translate(parse_request("12.1a").entries, "torch_cmake")
    assert caught.value.hint == "did you mean torch-cmake?"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_is_never_said(dialect: str) -> None:
    # An empty TORCH_CUDA_ARCH_LIST means "detect", the very thing to be avoided
    with pytest.raises(ArchError, match="no arch"):
        env_value((), dialect)


def entries() -> st.SearchStrategy[Entry]:
    codes = st.sampled_from([(True, False), (True, True), (False, True)])
    return st.builds(
        lambda arch, code: Entry(arch, sass=code[0], ptx=code[1]), st.sampled_from(ARCHES), codes
    )


lists = st.lists(entries(), min_size=1, max_size=4, unique_by=lambda entry: entry.arch.device)


@given(lists, st.sampled_from(["torch-cmake", "torch-extension", "flashinfer"]))
def test_what_can_be_said_is_read_back(chosen: list[Entry], dialect: str) -> None:
    request = parse_request(";".join(map(str, chosen)))
    value = env_value(request.entries, dialect)
    if value is not None:
        assert parse_request(value).entries == request.entries


@given(lists)
def test_cmake_is_read_back(chosen: list[Entry]) -> None:
    request = parse_request(";".join(map(str, chosen)))
    value = env_value(request.entries, "cmake")
    assert value is not None
    for part, entry in zip(value.split(";"), request.entries, strict=True):
        both = not part.endswith(("-real", "-virtual"))
        read = parse_request(f"{part}+PTX" if both else part)
        assert read.entries == (entry,)


@given(lists)
def test_nvcc_says_every_image_once(chosen: list[Entry]) -> None:
    request = parse_request(";".join(map(str, chosen)))
    arguments = translate(request.entries, "nvcc")
    assert isinstance(arguments, tuple)
    codes = [argument.rpartition("code=")[2] for argument in arguments]
    assert len(set(codes)) == len(codes)
    assert parse_request(" ".join(codes)).entries == request.entries
    for argument in arguments:
        virtual = argument.removeprefix("-gencode=arch=").partition(",")[0]
        assert virtual.removeprefix("compute_") == argument.rpartition("_")[2]


@given(lists)
def test_each_null_has_its_note(chosen: list[Entry]) -> None:
    request = parse_request(";".join(map(str, chosen)))
    report = arch_report(request)
    null = {f"not-in-{dialect}" for dialect, value in report.translations.items() if value is None}
    assert {note.code for note in report.notes if note.code.startswith("not-in-")} == null
    assert report.translations["nvcc"]


def test_flashinfer_adds_suffixes_by_itself() -> None:
    assert [note.code for note in dialect_notes(parse_request("8.0;12.0").entries)] == ["flashinfer-suffix"]
    assert dialect_notes(parse_request("8.0;12.1a").entries) == ()


def test_report() -> None:
    report = json.loads(arch_report(parse_request("12.1a 12.0f")).to_json())
    assert report == {
        "schema": "sparkbuild.arch/1",
        "input": "12.1a 12.0f",
        "normal": "12.0f;12.1a",
        "entries": [
            {"arch": "12.0f", "sass": "sm_120f", "ptx": None, "runs_on": ["12.0", "12.1"]},
            {"arch": "12.1a", "sass": "sm_121a", "ptx": None, "runs_on": ["12.1"]},
        ],
        "notes": [
            {
                "level": "info",
                "code": f"not-in-{dialect}",
                "text": f"no value for {dialect}: PyTorch's extension builder knows no family arch (12.0f)",
            }
            for dialect in ("torch-extension", "flash-attn")
        ],
        "translations": {
            "nvcc": [
                "-gencode=arch=compute_120f,code=sm_120f",
                "-gencode=arch=compute_121a,code=sm_121a",
            ],
            "torch-cmake": "12.0f;12.1a",
            "torch-extension": None,
            "cmake": "120f-real;121a-real",
            "flashinfer": "12.0f 12.1a",
            "flash-attn": None,
        },
    }
    assert list(report["translations"]) == list(DIALECTS)


@pytest.mark.toolkit
def test_nvcc_knows_every_arch_and_refuses_twins(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True).stdout
    if "sm_110" not in listed or "sm_107" in listed:
        pytest.skip("the nvcc on PATH is not 13.0")
    assert set(listed.split()) == {arch.name for arch in ARCHES if not arch.suffix}
    source = tmp_path / "empty.cu"
    source.write_text("__global__ void empty() {}\n")

    def accepts(chosen: list[Entry]) -> bool:
        arguments = translate(tuple(chosen), "nvcc")
        assert isinstance(arguments, tuple)
        command = [nvcc, "--dryrun", *arguments, "-c", str(source), "-o", str(tmp_path / "empty.o")]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    assert accepts([Entry(arch, ptx=True) for arch in ARCHES if arch.suffix != "f"])
    assert accepts([Entry(arch, ptx=True) for arch in ARCHES if arch.suffix])
    assert not accepts([Entry(Arch(12, 0)), Entry(Arch(12, 0, "f"))])
    assert accepts([Entry(Arch(12, 0), sass=False, ptx=True), Entry(Arch(12, 0, "f"))])
