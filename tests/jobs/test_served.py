"""What is stopped: device code that would load on no device that is served."""

from __future__ import annotations

import pytest

from orchestrator.jobs.images import images
from orchestrator.jobs.served import refusal, serves
from orchestrator.jobs.units import Unit
from orchestrator.model.archvalues import Device

SPARK = Device(12, 1)


def unit(*arguments: str, compiler: str = "/cuda/bin/nvcc") -> Unit:
    return Unit(1, "vllm", "/w/vllm/csrc", "compile", compiler, ("-c", "q/gemm_sm90.cu", *arguments))


def judged(*arguments: str, excepted: tuple[str, ...] = (), jit: bool = False) -> str | None:
    one = unit(*arguments)
    return refusal(one, images(one.arguments), [SPARK], excepted=excepted, jit=jit)


@pytest.mark.parametrize(
    "arguments",
    [
        "-gencode=arch=compute_121a,code=sm_121a",
        "-gencode=arch=compute_121,code=sm_121",
        "-gencode=arch=compute_120f,code=sm_120f",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_120,code=sm_120",
        "-arch=all",
        "-arch=native",
        "-arch=lto_121 -rdc=true",
    ],
)
def test_what_loads_passes(arguments: str) -> None:
    assert judged(*arguments.split()) is None


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "-gencode=arch=compute_20,code=sm_20",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120a,code=sm_120a",
        "-gencode=arch=compute_100f,code=sm_100f",
        "-gencode=arch=compute_121,code=compute_121",
    ],
)
def test_what_does_not_load_is_refused(arguments: str) -> None:
    assert judged(*arguments.split()) is not None


def test_the_reason_names_the_unit_what_was_passed_and_what_is_served() -> None:
    assert judged("-gencode", "arch=compute_90a,code=sm_90a") == (
        "q/gemm_sm90.cu would hold sm_90a, of which nothing loads on 12.1: "
        "nvcc was given arch=compute_90a,code=sm_90a"
    )
    assert judged() == (
        "q/gemm_sm90.cu would hold compute_75, sm_75, of which nothing loads on 12.1: nvcc was given no arch"
    )


def test_ptx_counts_where_the_recipe_expects_it() -> None:
    assert judged("-gencode=arch=compute_90,code=compute_90", jit=True) is None
    assert judged("-gencode=arch=compute_90a,code=compute_90a", jit=True) is not None


@pytest.mark.parametrize("pattern", ["*_sm90.cu", "q/*_sm90.cu", "csrc/q/gemm_sm90.cu"])
def test_a_recipe_excepts_by_the_end_of_the_path(pattern: str) -> None:
    assert judged(excepted=(pattern,)) is None


@pytest.mark.parametrize("pattern", ["*_sm80.cu", "sm90.cu", "other/*_sm90.cu"])
def test_other_patterns_except_nothing(pattern: str) -> None:
    assert judged(excepted=(pattern,)) is not None


def test_one_of_several_devices_is_enough() -> None:
    one = unit("-gencode=arch=compute_90a,code=sm_90a")
    assert refusal(one, ("sm_90a",), [SPARK, Device(9, 0)]) is None


def test_only_device_code_is_judged() -> None:
    assert refusal(unit(compiler="/usr/bin/g++"), (), [SPARK]) is None
    link = Unit(1, "s", "/w", "link", "/cuda/bin/nvcc", ("-shared", "a.o"))
    assert refusal(link, (), [SPARK]) is None
    host = Unit(1, "s", "/w", "compile", "/cuda/bin/nvcc", ("-c", "a.cpp"))
    assert refusal(host, (), [SPARK]) is None


def test_what_is_no_image_serves_nobody() -> None:
    assert not serves("sm_", [SPARK])
    assert not serves("", [SPARK])
