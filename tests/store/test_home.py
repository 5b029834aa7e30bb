"""The state folder: where it is, and that it becomes ours before anything happens in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import UsageError
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fresh_folder_is_tagged_as_a_cache(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    home.claim()
    home.claim()
    tag = (home.root / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_an_empty_folder_becomes_ours(tmp_path: Path) -> None:
    Home(tmp_path).claim()
    assert (tmp_path / "CACHEDIR.TAG").exists()


@pytest.mark.parametrize("tag", [None, "Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n"])
def test_a_folder_with_other_things_never_does(tmp_path: Path, tag: str | None) -> None:
    (tmp_path / "work").mkdir()
    if tag:
        (tmp_path / "CACHEDIR.TAG").write_text(tag)
    for act in (Home(tmp_path).claim, Home(tmp_path).existing):
        with pytest.raises(UsageError, match="holds other things"):
            act()


def test_a_tag_that_another_run_is_just_writing_is_ours(tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").touch()
    (tmp_path / "facts.json").touch()
    Home(tmp_path).claim()


def test_what_does_not_exist_yet_is_not_made_by_looking(tmp_path: Path) -> None:
    Home(tmp_path / "none").existing()
    assert not (tmp_path / "none").exists()


def test_the_default_follows_the_variable_and_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARKBUILD_HOME", "state")
    assert Home.default().root == tmp_path / "state"
    monkeypatch.delenv("SPARKBUILD_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert Home.default().root == tmp_path / "caches" / "sparkbuild"


@pytest.mark.parametrize(
    "name", ["a b", "a:b", "a'b", 'a"b', "a$b", "a;b", "a=b", "a\nb", "a,b", "a\\b", "a`b`"]
)
def test_a_path_that_tools_cannot_carry_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKBUILD_HOME", f"/srv/{name}")
    with pytest.raises(UsageError, match="cannot carry"):
        Home.default()


def test_letters_of_any_language_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKBUILD_HOME", "/home/Zoë/größe-1.2_3@x+y")
    assert Home.default().root.name == "größe-1.2_3@x+y"
