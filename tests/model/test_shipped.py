"""What is shipped: recipes, stacks, locks, patches and schemas fit each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.platform import Target
from orchestrator.model.schema import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(find_places()[-1:])


def schema(name: str) -> Any:
    found = json.loads(schemas()[name])
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_every_recipe_reads_and_has_its_patches(catalog: Catalog) -> None:
    for name in catalog.names():
        recipe = catalog.recipe(name)
        assert len(catalog.patch_files(recipe)) == len(recipe.patches)


def test_every_recipe_and_stack_fits_its_schema(catalog: Catalog) -> None:
    for name in catalog.names():
        jsonschema.validate(yaml.safe_load(catalog.recipe_path(name).read_text()), schema("recipe-1.json"))
    for name in catalog.stacks():
        jsonschema.validate(yaml.safe_load(catalog.stack_path(name).read_text()), schema("stack-1.json"))


def wrong_recipes() -> Iterator[dict[str, Any]]:
    good: dict[str, Any] = {"schema": "sparkbuild.recipe/1", "name": "vec", "summary": "s"}
    jsonschema.validate(good, schema("recipe-1.json"))
    yield {**good, "sumary": "s"}
    yield {**good, "name": "Vec"}
    yield {"schema": "sparkbuild.recipe/1", "name": "vec"}
    yield {**good, "patches": [["a"]]}
    yield {**good, "build": {"memory_per_unit": "4 GB"}}
    jsonschema.validate(
        {**good, "build": {"estimate": {"cpu": "5h30m", "disk": "1 GiB"}}}, schema("recipe-1.json")
    )
    yield {**good, "build": {"estimate": {"cpu": "5 hours"}}}
    yield {**good, "build": {"estimate": {"cpu": ""}}}
    yield {**good, "build": {"estimate": {"disk": "1 GB"}}}
    yield {**good, "modules": [{"match": "*.so", "expect": "fast"}]}
    unit = {"source": "marlin/*.cu", "reason": "always compiled"}
    jsonschema.validate({**good, "build": {"elsewhere": [unit]}}, schema("recipe-1.json"))
    yield {**good, "build": {"elsewhere": [{"source": "marlin/*.cu"}]}}
    yield {**good, "build": {"elsewhere": [{**unit, "kernels": "*sm89*"}]}}
    yield {**good, "build": {"elsewhere": ["marlin/*.cu"]}}
    exempt = {"kernels": "*sm89*", "reason": "guarded"}
    entry = {"match": "*.so", "expect": "native"}
    jsonschema.validate(
        {**good, "modules": [{**entry, "except": [exempt]}]},
        schema("recipe-1.json"),
    )
    yield {**good, "modules": [{**entry, "except": [{"kernels": "*sm89*"}]}]}
    yield {**good, "modules": [{**entry, "except": [{**exempt, "module": "a.so"}]}]}
    yield {**good, "modules": [{**entry, "exceptions": [exempt]}]}
    yield {**good, "sources": {"main": {"sdist": None}}}
    yield {**good, "sources": {"main": {"sdist": "a", "when": {"platform": "darwin"}}}}


@pytest.mark.parametrize("recipe", list(wrong_recipes()))
def test_the_schema_refuses(recipe: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(recipe, schema("recipe-1.json"))


def test_the_schema_takes_the_spellings_of_yaml() -> None:
    recipe = {
        "schema": "sparkbuild.recipe/1",
        "name": "vec",
        "summary": "s",
        "sources": {"main": {"sdist": "vec", "when": {"arch": "9.0a", "version": 2.1}}},
        "patches": ["0001-a", {"name": "0002-b", "when": {"arch": ["9.0a"]}}],
        "build": {"memory_per_unit": 4096, "env": {"LEVEL": 2, "ON": True}, "commands": [["make", 1]]},
    }
    jsonschema.validate(recipe, schema("recipe-1.json"))
    recipe["build"] = {"memory_per_unit": "4 GiB"}
    jsonschema.validate(recipe, schema("recipe-1.json"))


def test_the_shipped_schemas_are_those_of_the_structs(catalog: Catalog) -> None:
    folder = catalog.places[0].recipes / "schema"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == schemas()


def test_every_lock_of_every_stack_is_there_and_fresh(catalog: Catalog) -> None:
    for name in catalog.stacks():
        stack = catalog.stack(name)
        for platform in stack.platforms:
            for python in stack.pythons:
                lock = catalog.lock(name, Target(platform, python))
                assert lock.components.keys() == stack.components.keys()
                text = catalog.lock_path(name, Target(platform, python)).read_text(encoding="utf-8")
                assert "://" not in text, "a lock holds no address"


def test_the_whole_stack_is_the_default(catalog: Catalog) -> None:
    assert catalog.default_stack() == "vllm-0.33"


def test_quickstart_builds_on_the_published_torch(catalog: Catalog) -> None:
    stack = catalog.stack("quickstart")
    assert stack.components["pytorch"].prebuilt
    assert set(stack.platforms) == {"linux-x86_64", "linux-aarch64"}
    for python in ("3.11", "3.12", "3.13", "3.14"):
        lock = catalog.lock("quickstart", Target("linux-aarch64", python))
        torch = lock.components["pytorch"].prebuilt
        assert torch is not None
        assert torch.file.endswith("aarch64.whl")
        versions = {file.name: file.version for file in lock.components["pytorch"].run}
        clash = {
            file.name: file.version
            for file in lock.toolkit
            if versions.get(file.name, file.version) != file.version
        }
        assert not clash, "toolkit and torch share one version of each wheel"
