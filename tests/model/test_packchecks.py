"""Mistakes in the wheels that a recipe packs, each told by its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.errors import RecipeError
from orchestrator.model.reader import load_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.recipe import Recipe

WHEEL: dict[str, Any] = {
    "distribution": "kernels-{sm}",
    "summary": "Kernels",
    "tag": "cp310-abi3-{platform}",
    "python": ">=3.10",
    "files": {"{out}/built/**/*.so": "kernels_{sm}/lib", "{src}/LICENSE": "{info}/licenses"},
    "texts": {"kernels_{sm}/__init__.py": "provider.py"},
    "entry_points": {"some.group": {"{sm}": "kernels_{sm}:get"}},
    "requires": ["base-{sm}=={version}"],
}


def load(folder: Path, *wheels: dict[str, Any], **changes: Any) -> Recipe:
    recipe = {
        "schema": "sparkbuild.recipe/1",
        "name": "vec",
        "summary": "s",
        "sources": {"main": {"sdist": "vec"}},
        "arch": {"env": {"LIST": "nvcc"}},
        "build": {"wheels": list(wheels)},
    }
    path = folder / "vec.yaml"
    path.write_text(json.dumps(recipe | changes), encoding="utf-8")
    return load_recipe(path)


def test_a_wheel_that_says_everything(tmp_path: Path) -> None:
    build = load(tmp_path, WHEEL).build
    assert build is not None
    (wheel,) = build.wheels
    assert wheel.entry_points == {"some.group": {"{sm}": "kernels_{sm}:get"}}
    assert wheel.files["{src}/LICENSE"] == "{info}/licenses"


def test_a_recipe_of_packed_wheels_alone_needs_no_outputs(tmp_path: Path) -> None:
    build = load(tmp_path, build={"outputs": [], "wheels": [WHEEL]}).build
    assert build is not None
    assert not build.outputs


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"distribution": "kernels-{version}"}, r"distribution: found \{version\}, expected one of \{sm\}"),
        ({"distribution": "-kernels"}, "expected a distribution name"),
        ({"summary": "one\ntwo"}, "summary: .* expected one line"),
        ({"license": "MIT\nName: other"}, "license: .* expected one line"),
        ({"tag": "any"}, "tag: found 'any', expected a wheel's tag"),
        ({"tag": "py3-none-{os}"}, r"tag: found \{os\}"),
        ({"python": "3.10"}, "python: .* expected version specifiers"),
        ({"files": {}, "texts": {}}, "found a wheel of nothing, expected files or texts"),
        ({"files": {"built/*.so": "lib"}}, r"a glob that begins with \{out\}/ or \{src\}/"),
        ({"files": {"{out}/../*.so": "lib"}}, "a relative path that stays inside"),
        ({"files": {"{out}/{sm}/*.so": "lib"}}, r"no placeholder but \{out\}"),
        ({"files": {"{out}/built/": "lib"}}, "a glob that ends with a file's name"),
        ({"files": {"{out}/*.so": "../lib"}}, "a relative path that stays inside"),
        ({"files": {"{out}/*.so": "{platform}"}}, r"found \{platform\}"),
        ({"texts": {"/etc/passwd": "provider.py"}}, "a relative path that stays inside"),
        ({"texts": {"a.py": "../provider.py"}}, "a relative path that stays inside"),
        ({"entry_points": {"some group": {"a": "b"}}}, "a group such as console_scripts"),
        ({"entry_points": {"group": {"a=b": "c:d"}}}, "the name of an entry point"),
        ({"entry_points": {"group": {"a": "os; import"}}}, "an object such as package.module:function"),
        ({"requires": ["base @ https://example.org/x.whl"]}, "requires.0.: .*an address"),
        ({"requires": ["base=={out}"]}, r"requires\[0\]: found \{out\}"),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RecipeError, match=rf"build\.wheels\[0\].*{told}"):
        load(tmp_path, WHEEL | changes)


def test_two_wheels_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="a second time"):
        load(tmp_path, WHEEL, WHEEL)


def test_arches_in_a_name_need_a_build_that_is_told_them(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"\{sm\}, expected `arch\.env`"):
        load(tmp_path, WHEEL, arch={})
    load(tmp_path, WHEEL | {"distribution": "shim", "files": {}}, arch={})
