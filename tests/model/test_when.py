"""Conditions, and what of a recipe holds under them."""

from __future__ import annotations

import pytest

from orchestrator.errors import RecipeError
from orchestrator.model.arch import parse_request
from orchestrator.model.recipe import (
    ArchUse,
    Assembler,
    Build,
    KernelException,
    ModulePolicy,
    PatchRef,
    Recipe,
    Source,
    UnitException,
    Variant,
    When,
)
from orchestrator.model.when import assembled, holds, requirements, resolved

X86, ARM = "linux-x86_64", "linux-aarch64"


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (None, True),
        (When(version=">=0.33"), True),
        (When(version=">=0.34"), False),
        (When(version=">=0.32,<0.33.1"), True),
        (When(version="==0.33.*"), True),
        (When(arch=("12.1a",)), True),
        (When(arch=("9.0a", "12.1a")), True),
        (When(arch=("12.0f",)), False),
        (When(arch=("12.1",)), False),
        (When(platform=X86), True),
        (When(platform=ARM), False),
        (When(version=">=0.33", arch=("12.1a",), platform=X86), True),
        (When(version=">=0.34", arch=("12.1a",), platform=X86), False),
        (When(version=">=0.33", arch=("9.0a",), platform=X86), False),
        (When(version=">=0.33", arch=("12.1a",), platform=ARM), False),
    ],
)
def test_all_given_fields_must_hold(when: When | None, *, expected: bool) -> None:
    assert holds(when, version="0.33.0", arches=("10.0f", "12.1a"), platform=X86) is expected


def test_any_arch_for_a_lock_and_none_for_a_host_build() -> None:
    condition = When(arch=("9.0a",))
    assert holds(condition, version="1", arches=None, platform=X86)
    assert not holds(condition, version="1", arches=(), platform=X86)


def test_the_kind_of_the_main_source() -> None:
    condition = When(source="git")
    assert holds(condition, version="1", arches=(), platform=X86, source="git")
    assert not holds(condition, version="1", arches=(), platform=X86, source="sdist")
    assert holds(condition, version="1", arches=(), platform=X86)
    build = Build(variants=(Variant(when=condition, requires=("cmake",), env={"FROM": "git"}),))
    for source, found in ((Source(git="https://a/b"), {"FROM": "git"}), (Source(sdist="b"), {})):
        recipe = made(sources={"main": source}, build=build)
        assert resolved(recipe, version="1", arches=(), platform=X86).build.env == found
        assert requirements(recipe, version="1", platform=X86) == (("cmake",) if found else ())


def test_prereleases_and_local_versions_count() -> None:
    assert holds(When(version=">=0.33.dev0"), version="0.33.0rc1", arches=(), platform=X86)
    assert holds(When(version="==0.33.0"), version="0.33.0+cu130", arches=(), platform=X86)


def made(**fields: object) -> Recipe:
    defaults: dict[str, object] = {
        "schema": "sparkbuild.recipe/1",
        "name": "vec",
        "summary": "s",
        "sources": {"main": Source(sdist="vec")},
        "build": Build(),
    }
    return Recipe(**{**defaults, **fields})  # type: ignore[arg-type]  # fields of many types


def test_variants_merge_in_their_order() -> None:
    build = Build(
        requires=("ninja",),
        env={"A": "1", "B": "1"},
        commands=(("first",),),
        config_settings={"x": "1"},
        variants=(
            Variant(when=When(version=">=1"), requires=("cmake",), env={"B": "2"}, commands=(("second",),)),
            Variant(when=When(version=">=9"), requires=("never",)),
            Variant(when=When(platform=X86), env={"B": "3", "C": "3"}, config_settings={"x": "2"}),
        ),
    )
    found = resolved(made(build=build), version="1.0", arches=("12.1a",), platform=X86).build
    assert found.requires == ("ninja", "cmake")
    assert found.env == {"A": "1", "B": "3", "C": "3"}
    assert found.commands == (("first",), ("second",))
    assert found.config_settings == {"x": "2"}
    assert found.variants == ()
    assert build.env == {"A": "1", "B": "1"}, "the recipe itself stays as it was"


def test_sources_patches_and_modules_follow_their_conditions() -> None:
    recipe = made(
        sources={"main": Source(sdist="vec"), "extra": Source(git="https://x/y", when=When(version=">=2"))},
        patches=(
            PatchRef(name="0001-a"),
            PatchRef(name="0002-b", when=When(arch=("9.0a",))),
            PatchRef(name="0003-c", source="extra", when=When(version=">=2")),
        ),
        modules=(
            ModulePolicy(match="a.so", expect="native"),
            ModulePolicy(match="b.so", expect="native", when=When(arch=("9.0a",))),
        ),
        arch=ArchUse(env={"LIST": "nvcc"}),
    )
    old = resolved(recipe, version="1.0", arches=("12.1a",), platform=ARM)
    assert list(old.sources) == ["main"]
    assert [patch.name for patch in old.patches] == ["0001-a"]
    assert [policy.match for policy in old.modules] == ["a.so"]
    new = resolved(recipe, version="2.0", arches=("9.0a",), platform=ARM)
    assert list(new.sources) == ["main", "extra"]
    assert [patch.name for patch in new.patches] == ["0001-a", "0002-b", "0003-c"]
    assert [policy.match for policy in new.modules] == ["a.so", "b.so"]
    assert new.arch_env == {"LIST": "nvcc"}


def test_exceptions_follow_their_conditions() -> None:
    always = KernelException(kernels="*a*", reason="r")
    hopper = KernelException(kernels="*b*", reason="r", when=When(arch=("9.0a",)))
    old = KernelException(kernels="*c*", reason="r", when=When(version="<2"))
    policy = ModulePolicy(match="a.so", expect="native", exceptions=(always, hopper, old))
    recipe = made(modules=(policy,))

    def kept(version: str, arch: str) -> list[KernelException]:
        (found,) = resolved(recipe, version=version, arches=(arch,), platform=ARM).modules
        return list(found.exceptions)

    assert kept("1.0", "12.1a") == [always, old]
    assert kept("2.0", "9.0a") == [always, hopper]
    assert policy.exceptions == (always, hopper, old), "the recipe itself stays as it was"


def test_units_for_elsewhere_follow_their_conditions() -> None:
    always = UnitException(source="marlin/*.cu", reason="r")
    spark = UnitException(source="sm90/*.cu", reason="r", when=When(arch=("12.1a",)))
    old = UnitException(source="old/*.cu", reason="r", when=When(version="<2"))
    recipe = made(build=Build(elsewhere=(always, spark, old)))

    def kept(version: str, arch: str) -> tuple[UnitException, ...]:
        return resolved(recipe, version=version, arches=(arch,), platform=ARM).build.elsewhere

    assert kept("1.0", "12.1a") == (always, spark, old)
    assert kept("2.0", "12.1a") == (always, spark)
    assert kept("2.0", "9.0a") == (always,)


def test_a_patch_for_a_dropped_source_is_a_mistake() -> None:
    recipe = made(
        sources={"main": Source(sdist="vec"), "extra": Source(git="g", when=When(version=">=2"))},
        patches=(PatchRef(name="0001-a", source="extra"),),
    )
    with pytest.raises(RecipeError, match="0001-a is for source 'extra'"):
        resolved(recipe, version="1.0", arches=(), platform=X86)


def test_a_main_source_that_drops_out_is_a_mistake() -> None:
    recipe = made(sources={"main": Source(sdist="vec", when=When(version=">=2"))})
    with pytest.raises(RecipeError, match=r"no main source for version 1\.0, linux-x86_64 and any arch"):
        resolved(recipe, version="1.0", arches=(), platform=X86)


def test_a_recipe_without_build_cannot_be_resolved() -> None:
    with pytest.raises(RecipeError, match="only be taken prebuilt") as caught:
        resolved(made(build=None, sources={}), version="1", arches=(), platform=X86)
    assert "prebuilt: true" in (caught.value.hint or "")


def test_a_lock_takes_the_requirements_of_every_arch_but_of_one_platform() -> None:
    build = Build(
        requires=("ninja",),
        variants=(
            Variant(when=When(arch=("9.0a",)), requires=("cmake", "ninja")),
            Variant(when=When(platform=ARM), requires=("nvpl",)),
        ),
    )
    assert requirements(made(build=build), version="1", platform=X86) == ("ninja", "cmake")
    assert requirements(made(build=build), version="1", platform=ARM) == ("ninja", "cmake", "nvpl")
    assert requirements(made(build=None), version="1", platform=ARM) == ()


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("12.1a", [("new", "sm_121a")]),
        ("10.0", [("new", "sm_100")]),
        ("9.0a", [("old", "sm_90a")]),
        ("12.0f+PTX;9.0;7.5", [("any", "sm_75"), ("new", "sm_120f"), ("old", "sm_90")]),
        ("compute_121", [("new", "sm_121")]),
    ],
)
def test_each_assembler_is_for_the_devices_of_its_range(arch: str, expected: list[tuple[str, str]]) -> None:
    recipe = Recipe(
        schema="sparkbuild.recipe/1",
        name="triton",
        summary="s",
        assemblers=(
            Assembler(file="new", lowest="10.0"),
            Assembler(file="new", lowest="12.0"),
            Assembler(file="old", lowest="8.0", below="10.0"),
            Assembler(file="any", when=When(arch=("7.5",)), below="8.0"),
            Assembler(file="older", when=When(version="<3.6")),
        ),
    )
    entries = parse_request(arch).entries
    assert assembled(recipe, version="3.8.0", entries=entries, platform=X86) == tuple(expected)
