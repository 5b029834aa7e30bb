"""The shipped FlashInfer recipe: a few modules from the sdist, all of them from the git tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.audit.globs import matches
from orchestrator.model.catalog import Catalog
from orchestrator.model.stack import Component, OtherSource, recipe_in
from orchestrator.model.when import resolved

if TYPE_CHECKING:
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.when import ResolvedRecipe

VERSION = "0.7.2.post1"
GIT = Component(
    version=VERSION,
    sources={"main": OtherSource(git="https://github.com/flashinfer-ai/flashinfer")},
    commits={"main": "beabf5004585b03da60e927bbb803acbaa62fe36"},
)

# Of the modules that `flashinfer.aot` plans, by arch: some that it must, read from a run of its planning.
PLANNED = {
    "12.1a": ["fused_moe_120", "fp4_quantization_121", "sparse_mla_sm120", "trtllm_fmha_v2", "gemm_sm120"],
    "12.0f": ["fused_moe_120", "fp4_quantization_120f", "sparse_mla_sm120", "trtllm_fmha_v2", "gemm_sm120"],
}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Catalog.default().recipe("flashinfer")


def view(recipe: Recipe, arch: str) -> ResolvedRecipe:
    return resolved(recipe, version=VERSION, arches=(arch,), platform="linux-aarch64")


def required(view: ResolvedRecipe) -> list[str]:
    return [module.match for module in view.modules if module.required]


def path(name: str) -> str:
    return f"flashinfer_jit_cache_sm121a/jit_cache/{name}/{name}.so"


def test_from_the_sdist_what_is_compiled_is_what_must_be_there(recipe: Recipe) -> None:
    chosen = view(recipe, "12.1a")
    names = chosen.build.env["FLASHINFER_AOT_MODULES"].split()
    assert names == ["norm", "page", "rope"]
    assert [
        pattern for name in names for pattern in required(chosen) if matches(pattern, path(name))
    ] == required(chosen)
    (command,) = (words for words in chosen.build.commands if "flashinfer.aot" in words)
    assert command[command.index("--add-moe") + 1] == "false"


@pytest.mark.parametrize("arch", PLANNED)
def test_from_the_git_tree_all_is_compiled(recipe: Recipe, arch: str) -> None:
    chosen = view(recipe_in(recipe, GIT), arch)
    assert "FLASHINFER_AOT_MODULES" not in chosen.build.env
    (command,) = (words for words in chosen.build.commands if "flashinfer.aot" in words)
    assert not any(word.startswith("--add") for word in command)
    for name in [*PLANNED[arch], "norm", "rope", "page"]:
        assert any(matches(pattern, path(name)) for pattern in required(chosen)), name


def test_an_older_gpu_need_not_have_what_is_for_12_x(recipe: Recipe) -> None:
    patterns = required(view(recipe_in(recipe, GIT), "9.0a"))
    assert not any(matches(pattern, path("fused_moe_120")) for pattern in patterns)
    assert any(matches(pattern, path("sampling")) for pattern in patterns)


@pytest.mark.parametrize("stack", [Component(version=VERSION), GIT])
def test_every_module_is_judged(recipe: Recipe, stack: Component) -> None:
    chosen = view(recipe_in(recipe, stack), "12.1a")
    first = next(module for module in chosen.modules if matches(module.match, path("norm")))
    assert first.expect == "native"
    if stack is GIT:
        (log,) = (
            module for module in chosen.modules if matches(module.match, path("spdlog")) and module.required
        )
        assert log.expect == "host"
        assert any(matches(module.match, path("anything")) for module in chosen.modules)
