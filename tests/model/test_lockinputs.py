"""Which changes make a lock stale, and which do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from orchestrator.model.lockinputs import built_upon, lock_inputs, locked_sources
from orchestrator.model.platform import Target
from orchestrator.model.recipe import (
    ArchUse,
    Build,
    ModulePolicy,
    Needs,
    PatchRef,
    Recipe,
    Source,
    Variant,
    When,
)
from orchestrator.model.stack import Component, Stack, Toolkit

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Target("linux-x86_64", "3.12")
VEC = Recipe(
    schema="sparkbuild.recipe/1",
    name="vec",
    summary="s",
    sources={
        "main": Source(sdist="vec"),
        "cutlass": Source(git="https://example.org/c", when=When(version=">=2")),
    },
    build=Build(
        requires=("ninja", "cmake"), variants=(Variant(when=When(arch=("9.0a",)), requires=("hopper",)),)
    ),
)
TORCH = Recipe(schema="sparkbuild.recipe/1", name="pytorch", summary="s", distribution="torch")
STACK = Stack(
    schema="sparkbuild.stack/1",
    name="small",
    summary="s",
    toolkit=Toolkit(version="==13.0.*", packages=("cuda-toolkit[nvcc]==13.0.3",)),
    platforms=("linux-x86_64",),
    pythons=("3.12",),
    components={
        "pytorch": Component(version="2.14.1", prebuilt=True),
        "vec": Component(version="2.0", commits={"cutlass": "1" * 40}),
    },
)


def digest(stack: Stack = STACK, *, vec: Recipe = VEC, torch: Recipe = TORCH, target: Target = TARGET) -> str:
    return lock_inputs(stack, {"vec": vec, "pytorch": torch}, target)


def of_vec(**changes: Any) -> Callable[[], str]:
    return lambda: digest(vec=msgspec.structs.replace(VEC, **changes))


def of_build(**changes: Any) -> Callable[[], str]:
    assert VEC.build is not None
    return of_vec(build=msgspec.structs.replace(VEC.build, **changes))


def of_stack(**changes: Any) -> Callable[[], str]:
    return lambda: digest(msgspec.structs.replace(STACK, **changes))


def of_component(name: str, **changes: Any) -> Callable[[], str]:
    changed = msgspec.structs.replace(STACK.components[name], **changes)
    return of_stack(components={**STACK.components, name: changed})


STALE: dict[str, Callable[[], str]] = {
    "another version": of_component("vec", version="2.1"),
    "another prebuilt version": of_component("pytorch", version="2.14.0"),
    "built instead": of_component("pytorch", prebuilt=False),
    "another commit": of_component("vec", commits={"cutlass": "2" * 40}),
    "a tag instead of a commit": of_component("vec", commits={"cutlass": "unresolved v1"}),
    "published too": of_component("vec", commits={"cutlass": "1" * 40}, published=True),
    "a constraint": of_stack(constraints=("setuptools<81",)),
    "a component less": of_stack(components={"pytorch": STACK.components["pytorch"]}),
    "other toolkit wheels": of_stack(toolkit=Toolkit(version="==13.0.*", packages=("cuda-toolkit==13.0.3",))),
    "no toolkit": of_stack(toolkit=None),
    "another name": of_stack(name="other"),
    "a requirement more": of_build(requires=("ninja", "cmake", "wheel")),
    "a requirement for one arch more": of_build(variants=()),
    "another sdist": of_vec(sources={**VEC.sources, "main": Source(sdist="vec2")}),
    "another repository": of_vec(sources={**VEC.sources, "cutlass": Source(git="https://example.org/d")}),
    "no submodules": of_vec(
        sources={**VEC.sources, "cutlass": Source(git="https://example.org/c", submodules=False)}
    ),
    "a source less": of_vec(sources={"main": Source(sdist="vec")}),
    "another wheel": lambda: digest(torch=msgspec.structs.replace(TORCH, distribution="torch-nightly")),
    "another platform": lambda: digest(target=Target("linux-aarch64", "3.12")),
    "another Python": lambda: digest(target=Target("linux-x86_64", "3.13")),
}
FRESH: dict[str, Callable[[], str]] = {
    "nothing": digest,
    "a summary": of_vec(summary="other"),
    "a homepage": of_vec(homepage="https://example.org"),
    "a policy": of_vec(modules=(ModulePolicy(match="*.so", expect="native"),)),
    "what is needed to run": of_vec(needs=Needs(run=("pytorch",))),
    "a prebuilt that is built upon": of_vec(needs=Needs(build=("pytorch",))),
    "a patch": of_vec(patches=(PatchRef(name="0001-a"),)),
    "an arch": of_vec(applies=("9.0a",), arch=ArchUse(env={"X": "nvcc"})),
    "an environment": of_build(env={"FORCE": "1"}),
    "a command": of_build(commands=(("make",),)),
    "memory": of_build(memory_per_unit=1),
    "the order of requirements": of_build(requires=("cmake", "ninja")),
    "how a source is handed over": of_vec(
        sources={**VEC.sources, "cutlass": Source(git="https://example.org/c", env="C", into="third_party")}
    ),
    "a prebuilt's summary": lambda: digest(torch=msgspec.structs.replace(TORCH, summary="other")),
    "the stack's summary": of_stack(summary="other", default=True),
    "more Pythons": of_stack(pythons=("3.11", "3.12")),
    "toolkit headers": of_stack(
        toolkit=Toolkit(version=">=13.0", packages=("cuda-toolkit[nvcc]==13.0.3",), headers=("a.h",))
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_what_reaches_the_resolver_makes_a_lock_stale(name: str) -> None:
    assert STALE[name]() != digest()


@pytest.mark.parametrize("name", FRESH)
def test_what_does_not_leaves_it_fresh(name: str) -> None:
    assert FRESH[name]() == digest()


def test_sources_follow_version_and_platform_but_not_the_arch() -> None:
    assert list(locked_sources(VEC, version="1.0", platform="linux-x86_64")) == ["main"]
    by_arch = msgspec.structs.replace(VEC, sources={"main": Source(sdist="v", when=When(arch=("9.0a",)))})
    assert list(locked_sources(by_arch, version="1.0", platform="linux-x86_64")) == ["main"]


def test_built_upon_makes_a_difference_where_it_is_built() -> None:
    stack = msgspec.structs.replace(
        STACK, components={**STACK.components, "pytorch": Component(version="2.14.1")}
    )
    upon = msgspec.structs.replace(VEC, needs=Needs(build=("pytorch",)))
    assert digest(stack, vec=upon) != digest(stack)
    assert built_upon(stack, {"vec": upon, "pytorch": TORCH}) == ("pytorch",)
    assert built_upon(stack, {"vec": VEC, "pytorch": TORCH}) == ()
