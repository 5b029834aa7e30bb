"""JSON schemas of recipe and stack files, for editors: made from the structs, shipped beside the recipes.

YAML editors see numbers and booleans where the reader sees the text that was written, so a text field
allows those too. What a schema cannot say (a name equal to the file's, known arches) the reader checks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.model import convert, duration, platform, recipe, stack
from orchestrator.model.fieldchecks import NAME, STACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_COMMIT = "^([0-9a-f]{40}|unresolved [A-Za-z0-9][A-Za-z0-9._/+-]*)$"


def schemas() -> dict[str, str]:
    """Return file name -> JSON text of every shipped schema."""
    return {
        "recipe-1.json": _text(_schema(recipe.Recipe, "A sparkbuild recipe", _recipe_spellings)),
        "stack-1.json": _text(_schema(stack.Stack, "A sparkbuild stack", _stack_spellings)),
    }


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1) + "\n"


def _schema(
    kind: type[msgspec.Struct], title: str, respell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    made = msgspec.json.schema(kind)
    definitions: dict[str, Any] = made["$defs"]
    for definition in definitions.values():
        for name, field in definition.get("properties", {}).items():
            definition["properties"][name] = _respelled(field)
    respell(definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}


def _respelled(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema as YAML spells it: any scalar for text, no null."""
    if field.get("type") == "string":
        return field | {"type": ["string", "number", "boolean"]}
    changed = dict(field)
    # A field that is not given is left out in YAML, never null.
    if changed.get("default", 0) is None:
        del changed["default"]
    if "anyOf" in field:
        kept = [_respelled(each) for each in field["anyOf"] if each.get("type") != "null"]
        rest = {key: value for key, value in changed.items() if key != "anyOf"}
        return kept[0] | rest if len(kept) == 1 else {**rest, "anyOf": kept}
    for key in ("items", "additionalProperties"):
        if isinstance(field.get(key), dict):
            changed[key] = _respelled(field[key])
    return changed


def _recipe_spellings(definitions: dict[str, Any]) -> None:
    fields = {name: definition["properties"] for name, definition in definitions.items()}
    fields["Recipe"]["name"] = {"type": "string", "pattern": f"^{NAME.pattern}$"}
    patch = fields["Recipe"]["patches"]
    patch["items"] = {"anyOf": [{"type": "string"}, patch["items"]]}
    arch = fields["When"]["arch"]
    fields["When"]["arch"] = {"anyOf": [arch["items"], arch]}
    fields["When"]["platform"] = {"enum": list(platform.PLATFORMS)}
    text = {"type": "string", "pattern": convert.SIZE_PATTERN}
    size = {"anyOf": [{"type": "integer", "minimum": 1}, text]}
    fields["Build"]["memory_per_unit"] = fields["BuildEstimate"]["disk"] = size
    fields["Build"]["estimate"]["default"] = {}  # what is not given is left out, never null
    fields["BuildEstimate"]["cpu"] = {"type": "string", "pattern": f"^(?=[0-9]){duration.PATTERN}$"}


def _stack_spellings(definitions: dict[str, Any]) -> None:
    fields = {name: definition["properties"] for name, definition in definitions.items()}
    fields["Stack"]["name"] = {"type": "string", "pattern": f"^{STACK.pattern}$"}
    fields["Stack"]["platforms"]["items"] = {"enum": list(platform.PLATFORMS)}
    fields["Component"]["commits"]["additionalProperties"] = {"type": "string", "pattern": _COMMIT}
