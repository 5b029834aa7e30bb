"""Where recipes lie: a checkout, an installed wheel, the user's folders; and what clashes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from orchestrator.errors import DuplicateRecipeError, LockError, RecipeError, UnknownNameError, UsageError
from orchestrator.model.catalog import COMMANDS, Catalog, Place, find_places, lock_file
from orchestrator.model.lock import Lock, LockedFile, lock_bytes
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target
from orchestrator.model.reader import load_lock

if TYPE_CHECKING:
    from collections.abc import Callable

X86 = Target("linux-x86_64", "3.12")

RECIPE = "schema: sparkbuild.recipe/1\nname: {name}\nsummary: {summary}\n"
BUILT = (
    RECIPE + "sources: {{main: {{sdist: {name}}}}}\npatches: [0001-a, 0002-b]\nbuild: {{requires: [ninja]}}\n"
)
STACK = (
    "schema: sparkbuild.stack/1\nname: {name}\nsummary: s\ndefault: {default}\nplatforms: [linux-x86_64]\n"
    'pythons: ["3.12"]\ncomponents: {{{components}}}\n'
)


@pytest.fixture(autouse=True)
def _no_folders_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKBUILD_RECIPES", raising=False)


def add_recipe(
    folder: Path, name: str, *, text: str = RECIPE, summary: str = "s", suffix: str = ".yaml"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{suffix}"
    path.write_text(text.format(name=name, summary=summary), encoding="utf-8")
    return path


def add_stack(folder: Path, name: str, components: dict[str, str], *, default: bool = False) -> Path:
    (folder / "stacks").mkdir(parents=True, exist_ok=True)
    listed = ", ".join(
        f"{each}: {{version: {version}, prebuilt: true}}" for each, version in components.items()
    )
    path = folder / "stacks" / f"{name}.yaml"
    text = STACK.format(name=name, default=str(default).lower(), components=listed)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the package folder of a checkout with recipes alpha and beta and stack base."""
    root = tmp_path / "checkout"
    (root / "orchestrator").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    for name in ("alpha", "beta"):
        add_recipe(root / "recipes", name, summary="built in")
    add_stack(root / "recipes", "base", {"alpha": "1.0"}, default=True)
    return root / "orchestrator"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def catalog(package: Path, *extra: Path) -> Catalog:
    return Catalog(find_places(extra, package=package))


def test_a_checkout(checkout: Path) -> None:
    found = catalog(checkout)
    assert found.names() == ("alpha", "beta")
    assert found.stacks() == ("base",)
    assert found.default_stack() == "base"
    assert found.recipe("alpha").summary == "built in"
    assert found.recipe("alpha") is found.recipe("alpha")
    assert found.places[0].writable


def test_an_installed_wheel(checkout: Path) -> None:
    data = checkout / "_data"
    add_recipe(data / "recipes", "gamma")
    add_stack(data / "recipes", "shipped", {"gamma": "1"})
    found = catalog(checkout)
    assert found.names() == ("gamma",), "what is shipped in the package goes before what lies beside it"
    assert found.places == (Place(data / "recipes", data / "patches", built_in=True, writable=False),)


def test_a_strangers_recipes_beside_an_installed_package(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "orchestrator"
    package.mkdir(parents=True)
    add_recipe(package.parent / "recipes", "cake")
    with pytest.raises(UsageError, match="no recipes"):
        find_places(package=package)


def test_the_users_folders_in_their_order(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        add_recipe(folder, f"of-{folder.name}")
    monkeypatch.setenv(
        "SPARKBUILD_RECIPES", os.pathsep.join([str(folders[1]), "", str(folders[2]), str(folders[0])])
    )
    places = find_places([folders[0]], package=checkout)
    assert [place.recipes.name for place in places] == ["one", "two", "three", "recipes"]
    assert [place.built_in for place in places] == [False, False, False, True]
    assert Catalog(places).names() == ("alpha", "beta", "of-one", "of-three", "of-two")


def test_the_built_in_folder_named_by_the_user_stays_built_in(checkout: Path, user: Path) -> None:
    recipes = checkout.parent / "recipes"
    assert find_places([user, user, recipes], package=checkout) == find_places([user], package=checkout)


def test_a_folder_that_is_not_there(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"--recipes names .*absent"):
        find_places([tmp_path / "absent"], package=checkout)
    monkeypatch.setenv("SPARKBUILD_RECIPES", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"SPARKBUILD_RECIPES names .*gone"):
        find_places(package=checkout)


def test_a_users_recipe_replaces_a_built_in_one(checkout: Path, user: Path) -> None:
    add_recipe(user, "alpha", summary="my own")
    found = catalog(checkout, user)
    assert found.names() == ("alpha", "beta")
    assert found.recipe("alpha").summary == "my own"
    assert found.overridden() == ("alpha",)
    assert catalog(checkout).overridden() == ()


def test_two_recipes_of_one_name(checkout: Path, user: Path, tmp_path: Path) -> None:
    add_recipe(user, "mine")
    other = add_recipe(tmp_path / "other", "mine")
    with pytest.raises(DuplicateRecipeError, match="two recipes are named mine") as caught:
        catalog(checkout, user, tmp_path / "other").names()
    assert caught.value.where == str(other)
    assert caught.value.exit_code == 2


def test_two_suffixes_of_one_name(checkout: Path, user: Path) -> None:
    add_recipe(user, "mine")
    add_recipe(user, "mine", suffix=".yml")
    with pytest.raises(DuplicateRecipeError, match=r"mine\.yaml and mine\.yml"):
        catalog(checkout, user).names()


def test_two_stacks_of_one_name(checkout: Path, user: Path, tmp_path: Path) -> None:
    add_stack(user, "small", {"alpha": "1"})
    add_stack(tmp_path / "other", "small", {"alpha": "1"})
    with pytest.raises(DuplicateRecipeError, match="two stacks are named small"):
        catalog(checkout, user, tmp_path / "other").stacks()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_recipe_named_like_a_command(checkout: Path, user: Path, name: str) -> None:
    add_recipe(user, name)
    with pytest.raises(DuplicateRecipeError, match=f"cannot be named {name}"):
        catalog(checkout, user).names()


def test_other_files_are_no_recipes(checkout: Path, user: Path) -> None:
    add_recipe(user, "yes", suffix=".yml")
    for name in ("notes.txt", ".hidden.yaml", "yes.yaml~", "yes.lock"):
        (user / name).touch()
    assert catalog(checkout, user).names() == ("alpha", "beta", "yes")


def test_names_do_not_read_files(checkout: Path, user: Path) -> None:
    (user / "broken.yaml").write_text("[", encoding="utf-8")
    found = catalog(checkout, user)
    assert "broken" in found.names()
    assert found.recipe("alpha").name == "alpha"
    with pytest.raises(RecipeError, match="not YAML"):
        found.recipe("broken")


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (lambda found: found.recipe("alpa"), "did you mean alpha?"),
        (lambda found: found.recipe("zzz"), "known: alpha, beta"),
        (lambda found: found.stack("bass"), "did you mean base?"),
    ],
)
def test_unknown_names(checkout: Path, ask: Callable[[Catalog], object], hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        ask(catalog(checkout))
    assert caught.value.hint == hint


def test_a_stack_that_names_no_recipe(checkout: Path, user: Path) -> None:
    path = add_stack(user, "small", {"alpa": "1"})
    with pytest.raises(RecipeError, match=r"did you mean alpha\?") as caught:
        catalog(checkout, user).stack("small")
    assert (caught.value.where or "").startswith(f"{path}:7:")


def test_the_default_stack(checkout: Path, user: Path) -> None:
    add_stack(user, "small", {"alpha": "1"})
    assert catalog(checkout, user).default_stack() == "base"
    add_stack(user, "mine", {"alpha": "1"}, default=True)
    assert catalog(checkout, user).default_stack() == "mine", "a user's goes first"
    add_stack(user, "mine-too", {"alpha": "1"}, default=True)
    with pytest.raises(UsageError, match="mine and mine-too both"):
        catalog(checkout, user).default_stack()


def test_no_default_stack(checkout: Path) -> None:
    add_stack(checkout.parent / "recipes", "base", {"alpha": "1"})
    with pytest.raises(UsageError, match="no stack says") as caught:
        catalog(checkout).default_stack()
    assert "base" in (caught.value.hint or "")


def test_patches_lie_with_their_recipe_or_built_in(checkout: Path, user: Path) -> None:
    for root, names in ((checkout.parent / "patches", ["0001-a", "0002-b"]), (user / "patches", ["0002-b"])):
        (root / "vec").mkdir(parents=True)
        for name in names:
            (root / "vec" / f"{name}.patch").touch()
    add_recipe(user, "vec", text=BUILT)
    found = catalog(checkout, user)
    built_in, own = checkout.parent / "patches" / "vec", user / "patches" / "vec"
    assert found.patch_files(found.recipe("vec")) == (built_in / "0001-a.patch", own / "0002-b.patch")


def test_a_built_in_recipe_takes_no_patch_of_the_users(checkout: Path, user: Path) -> None:
    add_recipe(checkout.parent / "recipes", "vec", text=BUILT)
    (user / "patches" / "vec").mkdir(parents=True)
    for name in ("0001-a", "0002-b"):
        (user / "patches" / "vec" / f"{name}.patch").touch()
    found = catalog(checkout, user)
    with pytest.raises(RecipeError, match=r"no file 0001-a\.patch") as caught:
        found.patch_files(found.recipe("vec"))
    assert caught.value.where == str(checkout.parent / "recipes" / "vec.yaml")


def test_a_missing_patch_has_a_near_miss(checkout: Path, user: Path) -> None:
    add_recipe(user, "vec", text=BUILT)
    (user / "patches" / "vec").mkdir(parents=True)
    (user / "patches" / "vec" / "0001-aa.patch").touch()
    found = catalog(checkout, user)
    with pytest.raises(RecipeError) as caught:
        found.patch_files(found.recipe("vec"))
    assert caught.value.hint == "did you mean 0001-aa?"


def write_lock(
    found: Catalog, folder: Path, *, target: Target = X86, as_target: Target | None = None
) -> Path:
    """Write the lock of the catalog's stack `base` for `target`, under the name of `as_target`."""
    stack = found.stack("base")
    lock = Lock(
        schema="sparkbuild.lock/1",
        stack="base",
        platform=target.platform,
        python=target.python,
        inputs=lock_inputs(stack, found.recipes(stack.components), target),
    )
    path = folder / "stacks" / lock_file("base", as_target or target)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lock_bytes(lock))
    return path


def test_a_lock_that_fits(checkout: Path) -> None:
    write_lock(catalog(checkout), checkout.parent / "recipes")
    assert catalog(checkout).lock("base", X86).platform == "linux-x86_64"


def test_a_missing_lock_names_the_command(checkout: Path) -> None:
    with pytest.raises(LockError, match="there is no lock") as caught:
        catalog(checkout).lock("base", Target("linux-aarch64", "3.13"))
    assert caught.value.exit_code == 2
    command = "sparkbuild lock --stack base --platform linux-aarch64 --python 3.13"
    assert command in (caught.value.hint or "")
    assert (caught.value.where or "").endswith("recipes/stacks/base.linux-aarch64.cp313.lock")


def test_an_installation_is_told_where_else_a_lock_can_lie(checkout: Path) -> None:
    places = tuple(dataclasses.replace(place, writable=False) for place in catalog(checkout).places)
    found = Catalog(places)
    with pytest.raises(LockError) as caught:
        found.lock("base", Target("linux-aarch64", "3.13"))
    assert "--python 3.13 --output DIR/stacks` (and `--recipes DIR`" in (caught.value.hint or "")


def test_a_python_that_a_stack_is_not_for_is_told_which_and_what_else(checkout: Path) -> None:
    found = catalog(checkout)
    with pytest.raises(LockError, match="there is no lock") as caught:
        found.lock("base", Target("linux-aarch64", "3.9"))
    assert f"run sparkbuild with Python {' or '.join(found.stack('base').pythons)}" in (
        caught.value.hint or ""
    )


def test_a_lock_of_another_platform_or_python(checkout: Path) -> None:
    other = Target("linux-aarch64", "3.11")
    write_lock(catalog(checkout), checkout.parent / "recipes", target=other, as_target=X86)
    with pytest.raises(
        LockError, match=r"linux-aarch64 and Python 3\.11, not for base, linux-x86_64"
    ) as caught:
        catalog(checkout).lock("base", X86)
    assert "--platform linux-x86_64 --python 3.12" in (caught.value.hint or "")


def test_a_stale_lock(checkout: Path) -> None:
    write_lock(catalog(checkout), checkout.parent / "recipes")
    add_stack(checkout.parent / "recipes", "base", {"alpha": "1.1"}, default=True)
    with pytest.raises(LockError, match="stale"):
        catalog(checkout).lock("base", X86)


def test_a_users_recipe_has_locks_of_its_own(checkout: Path, user: Path) -> None:
    built_in = write_lock(catalog(checkout), checkout.parent / "recipes")
    add_recipe(user, "alpha", text=RECIPE + "distribution: alpha-of-mine\n")
    mixed = catalog(checkout, user)
    assert mixed.lock_place("base").recipes == user
    with pytest.raises(LockError, match="stale"):
        mixed.lock("base", X86)
    own = write_lock(mixed, user)
    assert mixed.lock_path("base", X86) == own
    assert mixed.lock("base", X86) != catalog(checkout).lock("base", X86)
    assert catalog(checkout).lock_path("base", X86) == built_in


@pytest.mark.parametrize("name", ["a" * 5000, "~nobody-of-this-name/x", "a" * 300 + "/b"])
@pytest.mark.parametrize("variable", [True, False])
def test_a_folder_that_no_system_has(monkeypatch: pytest.MonkeyPatch, name: str, *, variable: bool) -> None:
    if variable:
        monkeypatch.setenv("SPARKBUILD_RECIPES", name)
    with pytest.raises(UsageError, match="SPARKBUILD_RECIPES names" if variable else "--recipes names"):
        find_places(() if variable else [Path(name)])


def test_a_circle_of_links_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="--recipes names"):
        find_places([tmp_path / "a"])


def test_a_lock_that_holds_a_path_is_refused_with_its_own_command(checkout: Path) -> None:
    path = write_lock(catalog(checkout), checkout.parent / "recipes")
    lock = load_lock(path)
    file = LockedFile(name="a", version="1", file="a-1.whl", sha256=str(checkout), size=1)
    path.write_bytes(lock_bytes(msgspec.structs.replace(lock, toolkit=(file,))))
    with pytest.raises(LockError, match=r"toolkit\[0\]\.sha256: found '/") as caught:
        catalog(checkout).lock("base", X86)
    assert "--platform linux-x86_64 --python 3.12" in (caught.value.hint or "")


def test_names_cost_no_yaml() -> None:
    """A recipe's name is a command, so even `--help` lists them: that must not import YAML or msgspec."""
    code = (
        "import sys; from orchestrator.model.catalog import Catalog; Catalog.default().names();"
        "print([m for m in ('yaml', 'msgspec', 'packaging', 'rich') if m in sys.modules])"
    )
    root = Path(sys.modules["orchestrator"].__path__[0]).parent
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == "[]"


def test_texts_lie_in_the_folder_that_is_called_like_the_recipe(checkout: Path, user: Path) -> None:
    for place in (checkout.parent / "recipes", user):
        add_recipe(place, "vec", text=BUILT)
        (place / "vec").mkdir()
    (checkout.parent / "recipes/vec/shim.py").touch()
    (user / "vec/own.py").touch()
    found = catalog(checkout, user)
    assert found.text_file("vec", "own.py") == user / "vec/own.py"
    assert found.text_file("vec", "shim.py") == checkout.parent / "recipes/vec/shim.py"
    with pytest.raises(RecipeError, match=r"no file gone\.py in .*/vec"):
        found.text_file("vec", "gone.py")
