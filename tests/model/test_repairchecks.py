"""What a recipe may say of links and of the repair of its wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import RecipeError
from orchestrator.model.reader import load_recipe
from orchestrator.model.when import resolved

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.recipe import Recipe

RECIPE = """\
schema: sparkbuild.recipe/1
name: vec
summary: A vector
sources: {{main: {{sdist: vec}}}}
build: {{{build}}}
"""
GOOD = """\
links: {nccl/lib/libnccl.so: "{requires}/nvidia/nccl/lib/libnccl.so.2", nccl/include: "{src}/include"}, \
repair: {bundle: [{file: libgomp.so.1, into: vec/lib}, \
{file: "{requires}/nvpl/lib/libnvpl.so.0", into: vec/lib, when: {platform: linux-aarch64}}], \
rpath: [{match: "vec/*.so", folders: [$ORIGIN, $ORIGIN/../nvidia/nccl/lib]}], \
requires: ["nvidia-nccl-cu13==2.30.7; platform_system == 'Linux'"]}"""


def load(tmp_path: Path, build: str) -> Recipe:
    path = tmp_path / "vec.yaml"
    path.write_text(RECIPE.format(build=build))
    return load_recipe(path)


def test_a_library_of_one_platform_is_left_out_on_the_other(tmp_path: Path) -> None:
    recipe = load(tmp_path, GOOD)
    views = [
        resolved(recipe, version="1.0", arches=("12.1a",), platform=platform)
        for platform in ("linux-aarch64", "linux-x86_64")
    ]
    kept = [[each.file for each in view.build.repair.bundle] for view in views if view.build.repair]
    assert kept == [["libgomp.so.1", "{requires}/nvpl/lib/libnvpl.so.0"], ["libgomp.so.1"]]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        ('links: {../a: "{src}/b"}', "build.links"),
        ("links: {a: /usr/lib/libm.so}", "build.links.a: found '/usr/lib/libm.so'"),
        ('links: {a: "{src}/../b"}', "build.links.a"),
        ('links: {a: "{home}/b"}', "found {home}, expected one of {requires}"),
        ('links: {a: "{src}/a", a/b: "{src}/b"}', "found 'a/b', below the link 'a'"),
        ("repair: {}", "build.repair: found nothing to do"),
        ("repair: {bundle: [{file: libgomp, into: lib}]}", "a library's name such as libgomp.so.1"),
        ("repair: {bundle: [{file: /usr/lib/libgomp.so.1, into: lib}]}", "build.repair.bundle[0].file"),
        ("repair: {bundle: [{file: libgomp.so.1, into: ../lib}]}", "build.repair.bundle[0].into"),
        (
            "repair: {bundle: [{file: libgomp.so.1, into: lib, when: {}}]}",
            "build.repair.bundle[0].when: found no condition",
        ),
        ('repair: {rpath: [{match: "/a", folders: [$ORIGIN]}]}', "build.repair.rpath[0].match"),
        ("repair: {rpath: [{match: a, folders: []}]}", "build.repair.rpath[0].folders: found an empty list"),
        ("repair: {rpath: [{match: a, folders: [/usr/lib]}]}", "found '/usr/lib', expected a folder beside"),
        ('repair: {rpath: [{match: a, folders: ["$ORIGIN:/b"]}]}', "build.repair.rpath[0].folders[0]"),
        ("repair: {rpath: [{match: a, folders: [$ORIGIN/lib/]}]}", "build.repair.rpath[0].folders[0]"),
        ("repair: {requires: [a b]}", "build.repair.requires[0]"),
    ],
)
def test_mistakes_are_told_with_their_place(build: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as raised:
        load(tmp_path, build)
    assert told in str(raised.value.message)
