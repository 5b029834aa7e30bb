"""A wheel as vLLM ships it: each way in which a module can fall short on a device of 12.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devicefiles import data, scanned
from kernelfiles import mangled, module

from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.policy import Expectation
    from orchestrator.audit.report import SpecReport

SPARK, HOPPER = Device(12, 1), Device(9, 0)


def library(*containers: Mapping[str, str], path: str = "a.so") -> FileFacts:
    """Return a library of containers: name of an image -> its kernels, between spaces."""
    made: list[dict[str, str | None]] = [dict(images) for images in containers]
    return module(*made, path=path)


def core() -> FileFacts:
    """Return a module of which most runs, some by JIT, some not at all."""
    return module(
        {"sm_80": "add", "sm_90": "add", "sm_120": "add"},
        {"sm_100f": "mul", "sm_120f": "mul"},
        {"sm_100f": "mul", "sm_120f": "mul2"},
        {"sm_80": "marlin", "compute_80": "marlin"},
        {"sm_80": "dot", "sm_89": "dot", "compute_89": "dot"},
        {"sm_90a": mangled("machete::gemm")},
        {"sm_100f": "mla", "sm_110f": "mla"},
        path="vllm/_C.abi3.so",
    )


def wheel() -> list[FileFacts]:
    """Return the modules of the wheel, in no good order."""
    names = [mangled("flash::forward", f"Li{number}E") for number in range(5)]
    return [
        core(),
        scanned(data("magic.so"), "vllm/spinloop.abi3.so"),
        library(*({"sm_90a": name} for name in names), path="vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"),
        module({"sm_120f": "kda"}, path="vllm/_flashkda_C.abi3.so"),
        library(
            *({"sm_80": name, "compute_80": name} for name in names),
            path="vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
        ),
    ]


def vllm(*devices: Device, policy: tuple[Expectation, ...] | None = None, deep: bool = False) -> SpecReport:
    """Return the report on the wheel."""
    question = Question(devices=devices or (SPARK,), policy=policy, names=True, deep=deep)
    return judge_spec("vllm==0.33.0", wheel(), question, files=[file.path for file in wheel()])
