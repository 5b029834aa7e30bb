"""What is told of a unit."""

from __future__ import annotations

import json

import pytest

from orchestrator.jobs.units import Kind, Record, Unit, hit_rate


def unit(*arguments: str, compiler: str = "/cuda/bin/nvcc", kind: Kind = "compile") -> Unit:
    return Unit(1, "step", "/w", kind, compiler, arguments)


def test_source_and_output_are_not_values_of_other_options() -> None:
    one = unit("-MF", "d.c", "-include", "x.cpp", "-c", "csrc/a/b.cu", "-o", "b.cu.o")
    assert (one.source, one.output, one.name) == ("csrc/a/b.cu", "b.cu.o", "a/b.cu")
    assert unit("-c", "b.c", "-ob.o").output == "b.o"
    assert unit("-c", "b.c", "--output-file=b.o").output == "b.o"
    link = unit("-shared", "a.o", "-o", "lib/a.so", kind="link")
    assert (link.source, link.name) == (None, "lib/a.so")
    assert unit("-c").name == "bin/nvcc"


@pytest.mark.parametrize(
    ("arguments", "compiler", "is_cuda"),
    [
        ("-c a.cu", "nvcc", True),
        ("-c a.ptx", "/usr/local/cuda/bin/nvcc", True),
        ("-c a.cpp", "nvcc", False),
        ("-x cu -c a.cpp", "nvcc", True),
        ("-x=cu -c a.cpp", "nvcc", True),
        ("-x c++ -c a.cu", "nvcc", False),
        ("-c a.cu", "g++", False),
    ],
)
def test_device_code(arguments: str, compiler: str, *, is_cuda: bool) -> None:
    assert unit(*arguments.split(), compiler=compiler).is_cuda is is_cuda


def test_a_record_can_be_written_whatever_a_command_holds() -> None:
    row = Record(unit("-c", "\udcff.cu", "-DX=ü"), "ran", peak_bytes=5, images=("sm_90",), tries=1).to_json()
    json.dumps(row, ensure_ascii=False).encode()
    assert row["unit"] == "\ufffd.cu"
    assert row["arguments"] == ["-c", "\ufffd.cu", "-DX=ü"]
    assert (row["how"], row["peak_bytes"], row["images"], row["tries"]) == ("ran", 5, ["sm_90"], 1)


def test_hit_rate_counts_compilations_that_ended_well() -> None:
    link = unit("-shared", "a.o", kind="link")
    records = [Record(unit(), "hit"), Record(unit(), "ran"), Record(unit(), "hit"), Record(unit(), "failed")]
    assert hit_rate([*records, Record(link, "ran"), Record(unit(), "lost")]) == pytest.approx(2 / 3)
