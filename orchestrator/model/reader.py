"""Recipes, stacks and locks: from files to values, with every mistake of a file told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import LockError, RecipeError
from orchestrator.model import checks, convert, lock, lockchecks, recipe, stack, stackchecks, yamltext

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from orchestrator.model.convert import Convert, Problem
    from orchestrator.model.yamltext import Document

T = TypeVar("T")

SPELLINGS: Mapping[tuple[type, str], Convert] = {
    (recipe.When, "arch"): convert.one_or_list(convert.text),
    (recipe.Build, "memory_per_unit"): convert.size,
    (recipe.BuildEstimate, "cpu"): convert.duration,
    (recipe.BuildEstimate, "disk"): convert.size,
}
"""Fields that YAML may spell unlike their type; a patch may also be a plain name."""

MAX_SHOWN = 20
"""Mistakes in one message."""

_CONVERTERS: dict[type, Convert] = {}


def load_recipe(path: Path) -> recipe.Recipe:
    """Read one recipe file; its name must be the file's.

    Raises:
        RecipeError: with every mistake of the file, each with its place; `where` is the first.
    """
    return _load(path, recipe.Recipe, lambda value: checks.recipe_problems(value, path.stem))


def load_stack(path: Path, *, recipes: Collection[str] | None = None) -> stack.Stack:
    """Read one stack file; its name must be the file's.

    Args:
        path: the file.
        recipes: the names that its components may have; None: any.

    Raises:
        RecipeError: as `load_recipe`.
    """
    return _load(path, stack.Stack, lambda value: stackchecks.stack_problems(value, path.stem, recipes))


def load_lock(path: Path) -> lock.Lock:
    """Read one lock file.

    Raises:
        LockError: it cannot be read, is not a lock that this version knows, or holds a word that cannot
            be what it stands for (a sha256 that is a path); the message names file, component and field.
    """
    import msgspec

    hint = "make it anew with `sparkbuild lock`"
    try:
        value = msgspec.json.decode(path.read_bytes(), type=lock.Lock)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LockError(f"the lock cannot be read: {reason}", where=str(path), hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LockError(f"not a lock: {error}", where=str(path), hint=hint) from error
    problems = [str(each) for each in lockchecks.lock_problems(value)]
    if problems:
        rest = len(problems) - MAX_SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        message = "\n".join([*problems[:MAX_SHOWN], *more])
        raise LockError(f"not a lock: {message}", where=str(path), hint=hint)
    return value


def _load(path: Path, kind: type[T], check: Callable[[T], list[Problem]]) -> T:
    return _value(yamltext.read_document(path), kind, check)


def _value(document: Document, kind: type[T], check: Callable[[T], list[Problem]]) -> T:
    problems: list[Problem] = []
    value: T = _converter(kind)(document.data, (), problems)
    if not problems:
        problems = check(value)
    if problems:
        raise error_of(document, problems)
    return value


def _converter(kind: type) -> Convert:
    if kind not in _CONVERTERS:
        patch = convert.struct_or_text(recipe.PatchRef, "name", SPELLINGS)
        spellings = {**SPELLINGS, (recipe.Recipe, "patches"): convert.list_of(patch)}
        _CONVERTERS[kind] = convert.converter(kind, spellings)
    return _CONVERTERS[kind]


def error_of(document: Document, problems: list[Problem]) -> RecipeError:
    """Return one error for all problems of a document, in the order of the file."""
    placed = sorted((document.mark(each.steps, key=each.key), str(each)) for each in problems)
    (line, column), first = placed[0]
    message = first
    if len(placed) > 1:
        others = [f"{document.file}:{at[0]}:{at[1]}: {told}" for at, told in placed[1:MAX_SHOWN]]
        rest = len(placed) - MAX_SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        message = "\n".join([first, *others, *more])
    count = "this" if len(placed) == 1 else f"these {len(placed)}"
    return RecipeError(
        message,
        where=f"{document.file}:{line}:{column}",
        hint=f"mend {count}; the JSON schemas beside the recipes say what every field may hold",
    )
