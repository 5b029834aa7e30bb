"""Sources that lie in local folders: those of recipes, and those of `--source`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.model.catalog import Catalog
    from orchestrator.model.recipe import Recipe
    from orchestrator.store.home import Home

Folders = dict[tuple[str, str], Path]
"""(recipe, source) -> folder."""


def local_folders(catalog: Catalog, recipes: Mapping[str, Recipe], given: Sequence[str]) -> Folders:
    """Return every source that is taken from a folder; `given` ones (NAME=DIR) go before a recipe's.

    Raises:
        UsageError: not NAME=DIR, no such recipe or source, or no folder.
    """
    own = {
        (name, key): (catalog.recipe_path(name).parent / source.local).absolute()
        for name, recipe in recipes.items()
        for key, source in recipe.sources.items()
        if source.local is not None
    }
    return own | _named(given, recipes)


def local_digests(folders: Folders, home: Home) -> dict[tuple[str, str], str]:
    """Return what identifies the content of each folder.

    Raises:
        UsageError: a folder holds the state folder, or lies in it.
        SourceError: something in it cannot be read.
    """
    if not folders:
        return {}
    from orchestrator.source.local import refuse_own, tree_digest

    for path in folders.values():
        refuse_own(path, home.root)
    return {key: tree_digest(path) for key, path in folders.items()}


def _named(given: Sequence[str], recipes: Mapping[str, Recipe]) -> Folders:
    """Return (recipe, source) -> folder for every `--source NAME=DIR`."""
    found: Folders = {}
    for text in given:
        name, equals, folder = text.partition("=")
        recipe, _, source = name.partition("/")
        source = source or "main"
        if not equals or not folder:
            raise UsageError(
                f"--source {text!r} is not NAME=DIR", hint="such as causal-conv1d=../causal-conv1d"
            )
        if recipe not in recipes:
            raise UnknownNameError("recipe in this stack", recipe, recipes)
        if source not in recipes[recipe].sources:
            raise UnknownNameError(f"source of {recipe}", source, recipes[recipe].sources)
        path = Path(folder).expanduser().absolute()
        if not path.is_dir():
            raise UsageError(
                f"--source {name}: {path} is no folder", hint="name the folder that holds the source"
            )
        found[recipe, source] = path
    return found
