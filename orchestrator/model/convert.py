"""From a tree of strings to the structs of the format, with every mistake told by its place.

The structs are the one description of the format; this walks their types once and keeps a converter for
each. Nothing here knows what a recipe is, and nothing raises: mistakes are collected as `Problem`s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from orchestrator.errors import near_miss
from orchestrator.model.duration import seconds_of
from orchestrator.model.yamltext import Steps, Tree

MAX_SHOWN = 60
"""Letters of a value in a message."""
MAX_SIZE = 2**50
"""Bytes, a PiB: more is a slip of the pen."""

# Neither a path nor an argument can hold a NUL, and UTF-8 has no lone surrogates.
_UNUSABLE = re.compile("[\\0\\ud800-\\udfff]")
_USABLE = "text without NUL and other letters that no file holds"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where, what stands there, and what should."""

    steps: Steps
    found: str
    expected: str
    guess: str | None = None
    """The word that was probably meant."""
    key: bool = False
    """The mistake is the key, not the value."""

    def __str__(self) -> str:
        meant = f" (did you mean {self.guess}?)" if self.guess else ""
        return f"{dotted(self.steps)}: found {self.found}, expected {self.expected}{meant}"


Convert: TypeAlias = Callable[[Tree, Steps, list[Problem]], Any]


def dotted(steps: Steps) -> str:
    """Return `sources.main.git` or `patches[0].name`; the top is `the file`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{_plain(step)}" if text else _plain(step)
    return text or "the file"


def _plain(key: str) -> str:
    """Return a key in one short line."""
    line = key if key.isprintable() else repr(key)[1:-1]
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 3] + "..."


def shown(tree: Tree) -> str:
    """Return what stands in the file, short enough for a message."""
    if isinstance(tree, dict):
        return "a mapping"
    if isinstance(tree, list):
        return "a list"
    if not tree:
        return "nothing"
    return repr(tree if len(tree) <= MAX_SHOWN else tree[: MAX_SHOWN - 3] + "...")


def text(tree: Tree, steps: Steps, problems: list[Problem]) -> str:
    """Convert to a string that is not empty."""
    if not tree:
        problems.append(Problem(steps, shown(tree), "text"))
        return ""
    return any_text(tree, steps, problems)


def any_text(tree: Tree, steps: Steps, problems: list[Problem]) -> str:
    """Convert to a string that may be empty: the value of a variable."""
    if not isinstance(tree, str):
        problems.append(Problem(steps, shown(tree), "text"))
    elif _UNUSABLE.search(tree):
        problems.append(Problem(steps, shown(tree), _USABLE))
    else:
        return tree
    return ""


def boolean(tree: Tree, steps: Steps, problems: list[Problem]) -> bool:
    """Convert `true` or `false`; YAML's other spellings are mistakes."""
    if tree in ("true", "false"):
        return tree == "true"
    problems.append(Problem(steps, shown(tree), "true or false"))
    return False


_WHOLE = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)


def whole(tree: Tree, steps: Steps, problems: list[Problem]) -> int:
    """Convert a whole number that is not negative."""
    if isinstance(tree, str) and _WHOLE.fullmatch(tree):
        return int(tree)
    problems.append(Problem(steps, shown(tree), "a whole number"))
    return 0


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?: ?(B|KiB|MiB|GiB|TiB))?", re.ASCII)
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)?( ?(B|KiB|MiB|GiB|TiB))?$"
_UNITS = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def size(tree: Tree, steps: Steps, problems: list[Problem]) -> int:
    """Convert `4 GiB`, `512 MiB` or plain bytes to bytes, more than 0 and at most `MAX_SIZE`."""
    match = _SIZE.fullmatch(tree) if isinstance(tree, str) else None
    # Thousands of digits are an infinite float, where int() raises; the limit comes before rounding.
    count = round(min(float(match[1]) * _UNITS[match[2]], MAX_SIZE + 1)) if match else 0
    if not 0 < count <= MAX_SIZE:
        expected = "a size such as 4 GiB, 512 MiB or a number of bytes, at most 1024 TiB"
        problems.append(Problem(steps, shown(tree), expected))
    return count


def duration(tree: Tree, steps: Steps, problems: list[Problem]) -> float:
    """Convert `9h`, `5h30m` or `90m` to seconds, more than 0."""
    seconds = seconds_of(tree) if isinstance(tree, str) else None
    if seconds is None:
        problems.append(Problem(steps, shown(tree), "a time such as 9h, 5h30m or 90m"))
        return 0.0
    return seconds


def one_or_list(item: Convert) -> Convert:
    """Return a converter to a tuple that also takes a single value."""
    many = list_of(item)

    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> tuple[Any, ...]:
        if isinstance(tree, str):
            return (item(tree, steps, problems),)
        found: tuple[Any, ...] = many(tree, steps, problems)
        return found

    return convert


def struct_or_text(struct: type, field: str, spellings: Mapping[tuple[type, str], Convert]) -> Convert:
    """Return a converter to `struct` that takes a plain string for its `field`."""
    whole = converter(struct, spellings)

    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> Any:
        if isinstance(tree, str):
            return struct(**{field: text(tree, steps, problems)})
        return whole(tree, steps, problems)

    return convert


def converter(kind: type, spellings: Mapping[tuple[type, str], Convert]) -> Convert:
    """Return the converter for a struct type."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind} is no struct")
    return _struct(info, spellings)


def _for_type(info: inspect.Type, spellings: Mapping[tuple[type, str], Convert]) -> Convert:
    made: Convert
    match info:
        case inspect.StrType():
            made = text
        case inspect.BoolType():
            made = boolean
        case inspect.IntType():
            made = whole
        case inspect.LiteralType():
            made = _literal(tuple(str(value) for value in info.values))
        case inspect.VarTupleType():
            made = list_of(_for_type(info.item_type, spellings))
        case inspect.DictType(value_type=inspect.StrType()):
            made = _mapping(any_text)
        case inspect.DictType():
            made = _mapping(_for_type(info.value_type, spellings))
        case inspect.StructType():
            made = _struct(info, spellings)
        case inspect.UnionType():
            (some,) = (each for each in info.types if not isinstance(each, inspect.NoneType))
            made = _for_type(some, spellings)
        case _:
            raise TypeError(f"the format has no {info}")
    return made


def _literal(values: tuple[str, ...]) -> Convert:
    expected = values[0] if len(values) == 1 else f"one of {', '.join(values)}"

    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> str:
        if isinstance(tree, str) and tree in values:
            return tree
        guess = near_miss(tree, values) if isinstance(tree, str) and len(values) > 1 else None
        problems.append(Problem(steps, shown(tree), expected, guess))
        return values[0]

    return convert


def list_of(item: Convert) -> Convert:
    """Return a converter to a tuple."""

    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> tuple[Any, ...]:
        if isinstance(tree, list):
            return tuple([item(each, (*steps, index), problems) for index, each in enumerate(tree)])
        problems.append(Problem(steps, shown(tree), "a list"))
        return ()

    return convert


def _mapping(item: Convert) -> Convert:
    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(tree, dict):
            problems.append(Problem(steps, shown(tree), "a mapping"))
            return {}
        problems.extend(
            Problem((*steps, key), shown(key), "a name in one line", key=True)
            for key in tree
            if not key.isprintable() or not key
        )
        return {key: item(value, (*steps, key), problems) for key, value in tree.items()}

    return convert


def _struct(info: inspect.StructType, spellings: Mapping[tuple[type, str], Convert]) -> Convert:
    cls: type[msgspec.Struct] = info.cls
    fields = {
        field.encode_name: spellings.get((cls, field.name)) or _for_type(field.type, spellings)
        for field in info.fields
    }
    names = {field.encode_name: field.name for field in info.fields}
    required = tuple(field.encode_name for field in info.fields if field.required)

    def convert(tree: Tree, steps: Steps, problems: list[Problem]) -> Any:
        if not isinstance(tree, dict):
            problems.append(Problem(steps, shown(tree), f"a mapping with {', '.join(required or fields)}"))
            return None
        values: dict[str, Any] = {}
        for key, value in tree.items():
            each = fields.get(key)
            if each is None:
                guess = near_miss(key, fields)
                problems.append(
                    Problem((*steps, key), "an unknown field", f"one of {', '.join(fields)}", guess, key=True)
                )
            else:
                values[names[key]] = each(value, (*steps, key), problems)
        missing = [name for name in required if names[name] not in values]
        problems.extend(
            Problem((*steps, name), "no such field", "it, since it is required", key=True) for name in missing
        )
        return None if missing else cls(**values)

    return convert
