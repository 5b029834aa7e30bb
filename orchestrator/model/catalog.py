"""Where recipes, stacks, locks and patches lie, and reading them when they are asked for.

A place is a folder of recipes with `stacks/` inside and patches beside or inside it. The user's places
(`--recipes`, SPARKBUILD_RECIPES) come before the built-in one, and a recipe or stack there takes the
place of a built-in one of its name. Names are known from file names alone; files are parsed on demand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import (
    DuplicateRecipeError,
    LockError,
    RecipeError,
    UnknownNameError,
    UsageError,
    near_miss,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.model.lock import Lock
    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import PatchRef, Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.model.when import ResolvedRecipe

VARIABLE = "SPARKBUILD_RECIPES"
COMMANDS = frozenset(
    {
        *("all", "plan", "probe", "why", "log", "fetch", "lock", "audit", "arch", "store", "patch"),
        *("doctor", "diagnose", "env", "install", "smoke", "cache", "ci"),
    }
)
"""Names that a recipe cannot have, since a recipe's name is a command."""

_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Place:
    """One folder of recipes."""

    recipes: Path
    patches: Path
    built_in: bool = False
    writable: bool = True
    """False for the data folder of an installed wheel, which the next upgrade replaces."""

    @property
    def stacks(self) -> Path:
        """The folder of stacks and their locks."""
        return self.recipes / "stacks"


def find_places(extra: Sequence[Path] = (), *, package: Path | None = None) -> tuple[Place, ...]:
    """Return every place, the user's first: `extra` in its order, then SPARKBUILD_RECIPES, then built in.

    Args:
        extra: folders from `--recipes`.
        package: the folder of the `orchestrator` package; the running one unless told otherwise.

    Raises:
        UsageError: a named folder is not there, or the installation has lost its recipes.
    """
    named = [(folder, "--recipes") for folder in extra]
    named += [(Path(each), VARIABLE) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    built_in = _built_in(package or Path(__file__).resolve().parent.parent)
    places: dict[Path, Place] = {}
    for given, origin in named:
        try:
            folder = given.expanduser()
            whole = folder.resolve()
            if not folder.is_dir():
                raise UsageError(
                    f"{origin} names {folder}, which is no folder", hint="make it, or name another"
                )
        except (OSError, RuntimeError) as error:  # too long a name, a circle of links, `~nobody`
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{origin} names {given}: {reason}", hint="name another folder") from error
        if whole != built_in.recipes.resolve():
            places.setdefault(whole, Place(folder, folder / "patches"))
    return (*places.values(), built_in)


def _built_in(package: Path) -> Place:
    data = package / "_data"
    if (data / "recipes").is_dir():
        return Place(data / "recipes", data / "patches", built_in=True, writable=False)
    root = package.parent
    # In site-packages a stranger's `recipes` folder may lie beside the package: a checkout has all three.
    if (root / "pyproject.toml").is_file() and (root / "recipes" / "stacks").is_dir():
        return Place(root / "recipes", root / "patches", built_in=True)
    raise UsageError("this installation has no recipes", where=str(package), hint="install sparkbuild again")


class Catalog:
    """All recipes and stacks of some places. Not shared between threads.

    Args:
        places: as `find_places` returns them.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.places = tuple(places)
        self._recipes: dict[str, Recipe] = {}
        self._stacks: dict[str, Stack] = {}

    @classmethod
    def default(cls, extra: Sequence[Path] = ()) -> Catalog:
        """Return the catalog of the user's places (`extra` are those of `--recipes`) and the built-in one."""
        return cls(find_places(extra))

    # --- recipes

    def names(self) -> tuple[str, ...]:
        """Return the names of all recipes, sorted, without reading any.

        Raises:
            DuplicateRecipeError: two files of one name, or a recipe named like a command.
        """
        return tuple(sorted(self._recipe_files))

    def overridden(self) -> tuple[str, ...]:
        """Return the built-in recipes and stacks that a user's file of the same name replaces, sorted."""
        found: set[str] = set()
        for files, folder in ((self._recipe_files, "recipes"), (self._stack_files, "stacks")):
            for place in self.places:
                if place.built_in:
                    own = _listed(getattr(place, folder))
                    found |= {name for name, path in own.items() if files[name][0] != path}
        return tuple(sorted(found))

    def recipe_path(self, name: str) -> Path:
        """Return the file of a recipe.

        Raises:
            UnknownNameError: there is none of that name.
        """
        return self._file(name, self._recipe_files, "recipe")[0]

    def recipe(self, name: str) -> Recipe:
        """Return a recipe, read once.

        Raises:
            UnknownNameError: there is none of that name.
            RecipeError: its file has mistakes.
        """
        if name not in self._recipes:
            from orchestrator.model.reader import load_recipe

            self._recipes[name] = load_recipe(self.recipe_path(name))
        return self._recipes[name]

    def recipes(self, names: Iterable[str]) -> dict[str, Recipe]:
        """Return several recipes by name; errors as `recipe`."""
        return {name: self.recipe(name) for name in names}

    def stack_recipes(self, stack: Stack) -> dict[str, Recipe]:
        """Return the recipes of a stack's components by name, as the stack has them; errors as `recipe`."""
        from orchestrator.model.stack import recipe_in

        return {name: recipe_in(self.recipe(name), component) for name, component in stack.components.items()}

    def patch_files(self, recipe: Recipe | ResolvedRecipe) -> tuple[Path, ...]:
        """Return the files of a recipe's patches, in their order.

        They lie in the place of the recipe; one that is not there may come from a later place, so that a
        user's recipe can keep the built-in patches.

        Raises:
            RecipeError: a patch has no file.
        """
        return tuple(self.patch_file(recipe.name, patch) for patch in recipe.patches)

    def patch_file(self, name: str, patch: PatchRef) -> Path:
        """Return the file of one patch of the recipe `name`; RecipeError when there is none."""
        path, own = self._file(name, self._recipe_files, "recipe")
        places = self.places[self.places.index(own) :]
        for place in places:
            file = place.patches / name / f"{patch.name}.patch"
            if file.is_file():
                return file
        folder = own.patches / name
        known = sorted(each.stem for place in places for each in (place.patches / name).glob("*.patch"))
        guess = near_miss(patch.name, known)
        hint = f"did you mean {guess}?" if guess else f"there are: {', '.join(known) or 'none'}"
        raise RecipeError(f"no file {patch.name}.patch in {folder}", where=str(path), hint=hint)

    def text_file(self, name: str, text: str) -> Path:
        """Return a file that the recipe `name` puts into a wheel; RecipeError when there is none.

        It lies in the folder beside the recipe that is called like it, or in that of a later place.
        """
        path, own = self._file(name, self._recipe_files, "recipe")
        for place in self.places[self.places.index(own) :]:
            file = place.recipes / name / text
            if file.is_file():
                return file
        raise RecipeError(
            f"no file {text} in {own.recipes / name}",
            where=str(path),
            hint="the `texts` of a recipe's `wheels` lie in the folder that is called like the recipe",
        )

    # --- stacks and locks

    def stacks(self) -> tuple[str, ...]:
        """Return the names of all stacks, sorted, without reading any."""
        return tuple(sorted(self._stack_files))

    def stack_path(self, name: str) -> Path:
        """Return the file of a stack; UnknownNameError when there is none."""
        return self._file(name, self._stack_files, "stack")[0]

    def lock_place(self, name: str) -> Place:
        """Return the place whose `stacks` folder a stack's locks belong into; UnknownNameError as `stack`.

        That is the stack's own, or an earlier one from which it takes a recipe: a user's recipe must not
        lead to other built-in locks.
        """
        places = [self._file(name, self._stack_files, "stack")[1]]
        places += [self._recipe_files[each][1] for each in self.stack(name).components]
        return min(places, key=self.places.index)

    def stack(self, name: str) -> Stack:
        """Return a stack, read once; all its components have recipes.

        Raises:
            UnknownNameError: there is none of that name.
            RecipeError: its file has mistakes, or names a recipe that does not exist.
        """
        if name not in self._stacks:
            from orchestrator.model.reader import load_stack

            self._stacks[name] = load_stack(self.stack_path(name), recipes=self._recipe_files)
        return self._stacks[name]

    def default_stack(self) -> str:
        """Return the name of the stack that is used when none is named; a user's goes first.

        Raises:
            UsageError: no stack, or several of one place, say `default: true`.
        """
        for built_in in (False, True):
            names = [
                name for name, (_, place) in sorted(self._stack_files.items()) if place.built_in is built_in
            ]
            chosen = [name for name in names if self.stack(name).default]
            if len(chosen) > 1:
                raise UsageError(
                    f"{' and '.join(chosen)} both say `default: true`", hint="name one with --stack"
                )
            if chosen:
                return chosen[0]
        raise UsageError(
            "no stack says `default: true`", hint=f"name one with --stack: {', '.join(self.stacks())}"
        )

    def lock_path(self, stack: str, target: Target) -> Path:
        """Return the file of a stack's lock for a target, a user's first; LockError when there is none."""
        file = lock_file(stack, target)
        for place in self.places:
            path = place.stacks / file
            if path.is_file():
                return path
        command = f"`{lock_command(stack, target)}`"
        if not self.lock_place(stack).writable:  # an installation's data folder is not for new locks
            command = (
                f"`{lock_command(stack, target)} --output DIR/stacks` (and `--recipes DIR` from then on)"
            )
        pythons = self.stack(stack).pythons
        hint = f"{command} makes it"
        if target.python not in pythons:
            others = [name for name in self.stacks() if target.python in self.stack(name).pythons]
            other = (
                f", name another stack ({', '.join(f'--stack {name}' for name in others)})" if others else ""
            )
            hint = f"run sparkbuild with Python {' or '.join(pythons)}{other}, or make that lock: {command}"
        raise LockError(
            f"there is no lock of stack {stack} for {target.platform} and Python {target.python}",
            where=str(self.lock_place(stack).stacks / file),
            hint=hint,
        )

    def lock(self, stack: str, target: Target) -> Lock:
        """Return the lock of a stack for a target.

        Raises:
            UnknownNameError: there is no such stack.
            LockError: there is no such lock, it is another's, or the stack or a recipe has changed since.
        """
        from orchestrator.model.lockinputs import lock_inputs
        from orchestrator.model.reader import load_lock

        value = self.stack(stack)
        path = self.lock_path(stack, target)
        hint = f"`{lock_command(stack, target)}` makes it anew"
        try:
            lock = load_lock(path)
        except LockError as error:
            error.hint = hint
            raise
        if (lock.stack, lock.platform, lock.python) != (stack, target.platform, target.python):
            raise LockError(
                f"this lock is for stack {lock.stack}, {lock.platform} and Python {lock.python}, "
                f"not for {stack}, {target.platform} and Python {target.python}",
                where=str(path),
                hint=hint,
            )
        if lock.inputs != lock_inputs(value, self.stack_recipes(value), target):
            raise LockError(
                f"the lock is stale: stack {stack} or one of its recipes has changed since it was made",
                where=str(path),
                hint=hint,
            )
        return lock

    # --- files

    @cached_property
    def _recipe_files(self) -> dict[str, tuple[Path, Place]]:
        files = _gathered(self.places, "recipes", "recipe")
        for name in COMMANDS & files.keys():
            raise DuplicateRecipeError(
                f"a recipe cannot be named {name}, since `sparkbuild {name}` is a command",
                where=str(files[name][0]),
                hint="give it another name",
            )
        return files

    @cached_property
    def _stack_files(self) -> dict[str, tuple[Path, Place]]:
        return _gathered(self.places, "stacks", "stack")

    @staticmethod
    def _file(name: str, files: dict[str, tuple[Path, Place]], kind: str) -> tuple[Path, Place]:
        found = files.get(name)
        if found is None:
            raise UnknownNameError(kind, name, files)
        return found


def lock_file(stack: str, target: Target) -> str:
    """Return the file name of a lock, such as `quickstart.linux-x86_64.cp312.lock`."""
    return f"{stack}.{target.tag}.lock"


def lock_command(stack: str, target: Target) -> str:
    """Return the command that makes a lock."""
    return f"sparkbuild lock --stack {stack} --platform {target.platform} --python {target.python}"


def _listed(folder: Path) -> dict[str, Path]:
    """Return name -> file of one folder; DuplicateRecipeError for two suffixes of one name."""
    found: dict[str, Path] = {}
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        return found
    except OSError as error:
        raise RecipeError(f"cannot be listed: {error.strerror}", where=str(folder)) from error
    for file in files:
        if file.suffix in _SUFFIXES and not file.name.startswith("."):
            if file.stem in found:
                raise DuplicateRecipeError(
                    f"{found[file.stem].name} and {file.name} are two files of one name",
                    where=str(folder),
                    hint="keep one",
                )
            found[file.stem] = file
    return found


def _gathered(places: Sequence[Place], folder: str, kind: str) -> dict[str, tuple[Path, Place]]:
    """Return name -> file and place; the user's go before the built-in ones, two of the user's clash."""
    found: dict[str, tuple[Path, Place]] = {}
    for place in places:
        for name, path in _listed(getattr(place, folder)).items():
            former = found.get(name)
            if former is None:
                found[name] = (path, place)
            elif former[1].built_in is place.built_in:
                raise DuplicateRecipeError(
                    f"two {kind}s are named {name}: {former[0]} and {path}",
                    where=str(path),
                    hint="rename or remove one of the two",
                )
    return found
