"""What nvcc makes of its arguments; the same table is asked of the real nvcc."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from orchestrator.jobs.command import effective
from orchestrator.jobs.images import images

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "": "sm_75 compute_75",
    "-gencode=arch=compute_90,code=sm_90": "sm_90",
    "-gencode arch=compute_90,code=[sm_90,compute_90]": "sm_90 compute_90",
    "--generate-code arch=compute_90,code=[sm_90,compute_90]": "sm_90 compute_90",
    '--generate-code=arch=compute_90,code="sm_90,compute_90"': "sm_90 compute_90",
    "-gencode code=sm_90,arch=compute_90": "sm_90",
    "-gencode arch=compute_90,code=compute_90": "compute_90",
    "-gencode arch=compute_120f,code=sm_120f": "sm_120f",
    "-gencode arch=compute_120f,code=sm_121": "sm_121f",
    "-gencode arch=compute_120f,code=[sm_120f,compute_120f]": "sm_120f compute_120f",
    "-gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90,code=sm_90": "sm_90a sm_90",
    "-gencode arch=compute_90,code=sm_90a": "sm_90a",
    "-arch=sm_121": "sm_121 compute_121",
    "-arch=sm_121a": "sm_121a compute_121a compute_121",
    "-arch sm_120f": "sm_120f compute_120f compute_120",
    "-arch=compute_120f": "compute_120f compute_120",
    "--gpu-architecture sm_90": "sm_90 compute_90",
    "-arch=compute_90": "compute_90",
    "-arch=sm_90 -arch=sm_100": "sm_100 compute_100",
    "-arch=compute_90 -code=sm_90,sm_100": "sm_90 sm_100",
    "-code sm_90, -arch compute_90": "sm_90",
    "--gpu-code=sm_90,sm_100 -arch=compute_90 -code=sm_120": "sm_90 sm_100 sm_120",
    "-arch compute_120f -code sm_120,sm_121": "sm_120f sm_121f",
    "-arch=compute_121a -code=sm_121a,compute_121a": "sm_121a compute_121a",
    "-gencode arch=compute_90,code=sm_90 -code sm_100 -arch compute_100": "sm_90 sm_100",
    "-arch=sm_90 -gencode arch=compute_100,code=sm_100": "sm_90 compute_90 sm_100",
    "-arch=compute_90 -gencode arch=compute_100,code=sm_100": "compute_90 sm_100",
    "-arch=all": "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_103 sm_110 sm_120 sm_121 compute_120",
    "-arch=all-major": "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120 compute_120",
    "-arch=all-major -gencode arch=compute_121a,code=sm_121a": (
        "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120 compute_120 sm_121a"
    ),
    "-arch=lto_90 -rdc=true": "lto_90",
    "-arch=sm_90 -dlto -rdc=true": "lto_90 compute_90",
    "-gencode arch=compute_90,code=lto_90 -rdc=true": "lto_90",
    "-arch=sm_90 -rdc=true": "sm_90 compute_90",
}
OTHERS = {
    "-arch=native": "native",
    "-gencode arch=compute_20,code=sm_20": "sm_20",
    "-arch=sm_90 -cubin": "sm_90",
    "-arch=sm_121a -ptx": "compute_121a",
    "-gencode arch=compute_90,code=sm_90 --ptx": "compute_90",
    "-gencode arch=compute_90": "sm_75 compute_75",  # nvcc refuses it: a code is missing
}


@pytest.mark.parametrize(("arguments", "made"), [*CASES.items(), *OTHERS.items()])
def test_images(arguments: str, made: str) -> None:
    assert images(["-c", "a.cu", *arguments.split(), "-o", "a.o"]) == tuple(sorted(made.split()))


def test_variables_and_response_files_count(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('-gencode\n  "arch=compute_90,code=sm_90"\n')
    (tmp_path / "two").write_text("-gencode arch=compute_100,code=compute_100")
    environ = {
        "NVCC_PREPEND_FLAGS": "-gencode arch=compute_80,code=sm_80",
        "NVCC_APPEND_FLAGS": f"-objtemp -optf={tmp_path}/one",
    }
    given = effective("/cuda/bin/nvcc", ["-c", "a.cu", "--options-file", f"{tmp_path}/two"], environ)
    assert images(given) == ("compute_100", "sm_80", "sm_90")
    assert images(effective("/usr/bin/g++", ["-c", "a.cu"], environ)) == ("compute_75", "sm_75")


@pytest.mark.toolkit
def test_the_real_nvcc_makes_the_same(nvcc: Path, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("__global__ void k() {}\n")
    wrong = {}
    for arguments, made in CASES.items():
        command = [str(nvcc), "--dryrun", "-c", "a.cu", *arguments.split(), "-o", "a.o"]
        said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stderr
        kinds = {"elf": "sm_", "ptx": "compute_", "nvvm": "lto_"}
        found = {kinds[kind] + sm for kind, sm in re.findall(r"--image3=kind=(\w+),sm=(\w+)", said)}
        if found != set(made.split()):
            wrong[arguments] = found
    assert not wrong
