"""Limits of a recipe: which requests are refused, and in which words."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from samples import KERNELS, with_recipe

from orchestrator.errors import ArchError
from orchestrator.model.arch import parse_request
from orchestrator.model.recipe import ArchLimit, ArchUse
from orchestrator.plan.limits import refuse_beyond
from orchestrator.plan.planner import keyed_steps

ONE = ArchLimit(
    major=12, suffixes=("a", "f"), at_most=1, reason="kernels stay empty", instead="12.1a or 12.0f"
)


@pytest.mark.parametrize(
    "arch", ["12.1a", "12.0f", "12.1f", "9.0a;12.1a", "10.0f;12.1a", "9.0;10.0", "12.1a+PTX"]
)
def test_taken(arch: str) -> None:
    refuse_beyond(parse_request(arch).entries, [ONE], name="vllm")


@pytest.mark.parametrize(
    ("arch", "told"),
    [
        (
            "12.1",
            "cannot be built for 12.1: of 12.x it takes 12.xa or 12.xf only, not 12.1: kernels stay empty",
        ),
        (
            "9.0a;12.0",
            "built for 9.0a;12.0: of 12.x it takes 12.xa or 12.xf only, not 12.0: kernels stay empty",
        ),
        ("12.0a;12.1a", "12.0a;12.1a are 2 entries, and it takes at most 1: kernels stay empty"),
        ("12.0f;12.1a", "12.0f;12.1a are 2 entries"),
    ],
)
def test_refused(arch: str, told: str) -> None:
    with pytest.raises(ArchError) as caught:
        refuse_beyond(parse_request(arch).entries, [ONE], name="vllm")
    assert told in caught.value.message
    assert caught.value.exit_code == 2
    assert caught.value.hint == "ask for 12.1a or 12.0f"


def test_an_arch_without_suffix_can_be_what_is_wanted() -> None:
    plain = ArchLimit(major=9, suffixes=("none",), reason="r", instead="9.0")
    refuse_beyond(parse_request("9.0;12.1a").entries, [plain], name="x")
    with pytest.raises(ArchError, match=r"takes what has no suffix only, not 9\.0a"):
        refuse_beyond(parse_request("9.0a").entries, [plain], name="x")


def test_all_is_refused_too_and_names_the_component_unless_it_does_not_apply() -> None:
    limited = msgspec.structs.replace(
        KERNELS, arch=ArchUse(env={"SPARKBUILD_NVCC_GENCODE": "nvcc"}, limits=(ONE,))
    )
    inputs = with_recipe(limited)
    keyed_steps(inputs, ())
    wrong = dataclasses.replace(inputs, arch=parse_request("12.1"))
    with pytest.raises(ArchError, match="kernels cannot be built"):
        keyed_steps(wrong, ())
    keyed_steps(wrong, ("pure",))
    elsewhere = with_recipe(msgspec.structs.replace(limited, applies=("9.0a",)))
    steps = keyed_steps(dataclasses.replace(elsewhere, arch=parse_request("12.1")), ())
    assert next(step for step in steps if step.name == "kernels").kind == "not-applicable"
