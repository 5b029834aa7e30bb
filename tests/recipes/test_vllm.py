"""vllm: which requests it takes, which files it may hold, and which kernels may fall short."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest
from published import members
from shippedplans import shipped_catalog
from upstreams import lay_sdist, patches_of

from orchestrator.audit.globs import matches
from orchestrator.audit.policy import check_listed
from orchestrator.errors import ArchError
from orchestrator.model.arch import parse_request
from orchestrator.model.when import resolved
from orchestrator.plan.limits import refuse_beyond
from orchestrator.source.patch import apply, judge

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.recipe import Recipe
    from orchestrator.model.when import ResolvedRecipe
    from orchestrator.store.home import Home

WHEEL = "vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl"
SPARK = ("12.0a", "12.0f", "12.1a", "12.1f")


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return shipped_catalog().recipe("vllm")


def view(recipe: Recipe, *arches: str) -> ResolvedRecipe:
    return resolved(recipe, version="0.33.0", arches=arches, platform="linux-aarch64")


@pytest.mark.parametrize("arch", ["12.1a", "12.1f", "12.0f", "9.0a", "10.0f", "9.0a;12.1a", "10.0f;12.1a"])
def test_it_takes(recipe: Recipe, arch: str) -> None:
    refuse_beyond(parse_request(arch).entries, recipe.arch.limits, name="vllm")


@pytest.mark.parametrize(
    ("arch", "why"),
    [
        ("12.1", "no FP4 instructions"),
        ("12.0", "takes 12.xa or 12.xf only, not 12.0"),
        ("12.0a;12.1a", "at most 1"),
        ("12.0f;12.1a", "at most 1"),
        ("9.0a;12.1", "no FP4 instructions"),
    ],
)
def test_it_refuses(recipe: Recipe, arch: str, why: str) -> None:
    with pytest.raises(ArchError, match=why) as caught:
        refuse_beyond(parse_request(arch).entries, recipe.arch.limits, name="vllm")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "ask for 12.1a, for GB10 alone, or 12.0f, for every 12.x"


def test_ten_trees_are_handed_over_and_none_is_left_to_vllm(recipe: Recipe) -> None:
    others = {name: source for name, source in recipe.sources.items() if name != "main"}
    assert len(others) == 10
    assert all(source.git and bool(source.env) != bool(source.cmake) for source in others.values())
    # That variable makes a link to the build machine of what should be FlashAttention 4.
    assert all(source.env != "VLLM_FLASH_ATTN_SRC_DIR" for source in others.values())


def test_on_a_spark_only_the_old_products_may_fall_short(recipe: Recipe) -> None:
    for arch in SPARK:
        modules = {module.match: module for module in view(recipe, arch).modules}
        assert {module.expect for module in modules.values()} == {"native", "host"}
        excused = {match: {one.kernels for one in module.exceptions} for match, module in modules.items()}
        assert {match for match, kernels in excused.items() if kernels} == {"vllm/_C_stable_libtorch*.so"}
        assert excused["vllm/_C_stable_libtorch*.so"] == {
            "*enable_sm75_to_sm80<*",
            "*enable_sm80_to_sm89<*",
            "*enable_sm89_to_sm90<*",
        }
        assert [one.source for one in view(recipe, arch).build.elsewhere] == [
            "quantization/w8a8/cutlass/scaled_mm_c2x.cu"
        ]


@pytest.mark.parametrize(
    ("arch", "there", "not_there"),
    [
        (
            "12.1a",
            {"_vllm_fa2_C", "_qutlass_C", "_flashkda_C"},
            {"_vllm_fa3_C", "_flashmla_C", "_deepselect_C"},
        ),
        ("9.0a", {"_vllm_fa3_C", "_flashmla_C", "_flashkda_C"}, {"_qutlass_C", "_deepselect_C"}),
        ("10.0f", {"_flashmla_C", "_deepselect_C", "_qutlass_C"}, {"_vllm_fa3_C"}),
    ],
)
def test_what_must_be_there_follows_the_arch(
    recipe: Recipe, arch: str, there: set[str], not_there: set[str]
) -> None:
    named = {match.rpartition("/")[2].removesuffix("*.so") for match in required(view(recipe, arch))}
    assert there <= named
    assert not named & not_there


def required(recipe: ResolvedRecipe) -> set[str]:
    return {module.match for module in recipe.modules if module.required}


def test_each_shared_library_of_the_policy_may_be_there_and_no_other(recipe: Recipe) -> None:
    assert recipe.files is not None
    named = {module.match for module in recipe.modules if module.match.endswith(".so")}
    assert {glob for glob in recipe.files.only if glob.endswith(".so")} == named


@pytest.mark.network
def test_the_published_wheel_holds_nothing_else_but_the_rust_frontend(
    recipe: Recipe, upstream_home: Home
) -> None:
    name = "vllm-0.33.0.dist-info/RECORD"
    record = members(WHEEL, (name,), upstream_home.root)[name].decode()
    files = [path for path, *_ in csv.reader(record.splitlines())]
    assert recipe.files is not None
    (finding,) = check_listed(files, recipe.files.only)
    assert finding.text.endswith("1 file fits no pattern of the files that it may hold: vllm/vllm-rs")
    for module in recipe.modules:
        assert any(matches(module.match, file) for file in files), module.match


@pytest.mark.network
def test_the_patches_apply_where_they_say_and_are_known_again(upstream_home: Home, tmp_path: Path) -> None:
    tree = lay_sdist("vllm", tmp_path / "vllm", upstream_home)
    *ours, attention = patches_of("vllm")
    before = (tree / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    assert [(one.state, one.moved) for one in judge(tree, ours)] == [("applies", ())] * 3
    # vLLM's own CMakeLists.txt is not that of flash-attention.
    assert judge(tree, [attention])[0].state == "conflict"
    apply(tree, ours)
    assert [one.state for one in judge(tree, ours)] == ["already-upstream"] * 3
    after = (tree / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(new.split('"')[1] for old, new in zip(before, after, strict=True) if old != new) == [
        "7.5;8.0+PTX;12.0f",
        "7.5;8.0+PTX;12.0f",
        "7.5;8.0;8.6;8.7;8.9;9.0;10.0;10.7;11.0;12.0;12.1",
        "7.5;8.0;8.6;8.7;8.9;9.0;10.0;11.0;12.0;12.1",
        "8.0+PTX;9.0+PTX;12.0f",
    ]
    compile((tree / "setup.py").read_text(encoding="utf-8"), "setup.py", "exec")


@pytest.mark.network
def test_a_list_that_upstream_changes_is_a_conflict(upstream_home: Home, tmp_path: Path) -> None:
    tree = lay_sdist("vllm", tmp_path / "vllm", upstream_home)
    file = tree / "CMakeLists.txt"
    file.write_text(file.read_text(encoding="utf-8").replace("9.0;10.0;11.0;12.0", "9.0;10.0;11.0;12.0;13.0"))
    known, _, fa3 = judge(tree, patches_of("vllm")[:3])
    assert (known.state, fa3.state) == ("conflict", "applies")
    assert "CMakeLists.txt, hunk 2: expected" in known.reason


def test_what_nobody_saw_at_the_pin_says_where_it_was_seen() -> None:
    *ours, attention = patches_of("vllm")
    assert {patch.header["Seen-at"] for patch in ours} == {"0.33.0"}
    assert attention.header["Seen-at"] == "01ed8aa91c9bd24cbc676037fe7b005d099b25c5"
