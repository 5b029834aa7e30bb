"""The state folder: where it is, and that it becomes ours before anything happens in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import StoreError, UsageError
from orchestrator.store.atomic import temporary_name
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHERS_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n"


def test_a_fresh_folder_is_tagged_as_a_cache(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    home.claim()
    home.claim()
    tag = (home.root / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_an_empty_folder_becomes_ours(tmp_path: Path) -> None:
    Home(tmp_path).claim()
    assert (tmp_path / "CACHEDIR.TAG").exists()


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("work", None),
        ("work", OTHERS_TAG),
        ("work", "damaged"),
        ("photos", None),
        ("photos", OTHERS_TAG),
        ("photos", "damaged"),
    ],
)
def test_a_folder_with_other_things_never_does(tmp_path: Path, name: str, tag: str | None) -> None:
    (tmp_path / name).mkdir()
    if name == "photos":
        (tmp_path / "locks").mkdir()
    if tag:
        (tmp_path / "CACHEDIR.TAG").write_text(tag)
    foreign = "CACHEDIR.TAG" if name == "work" and tag == OTHERS_TAG else name
    for act in (Home(tmp_path).claim, Home(tmp_path).existing):
        with pytest.raises(UsageError, match=f"holds other things, .*: .*{foreign}") as caught:
            act()
        assert caught.value.hint is not None
        assert "SPARKBUILD_HOME" in caught.value.hint
        assert "move away what does not belong" in caught.value.hint
    assert (tmp_path / "CACHEDIR.TAG").exists() == (tag is not None)


def test_many_foreign_names_are_counted(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"photo{number}").touch()
    with pytest.raises(UsageError, match="photo0, photo1, photo2, photo3, photo4 and 3 more"):
        Home(tmp_path).claim()


def _lost(tag: Path) -> None:
    tag.unlink()


def _damaged(tag: Path) -> None:
    tag.write_bytes(b"\xff\x00 garbage")


def _pipe(tag: Path) -> None:
    tag.unlink()
    os.mkfifo(tag)


def _dangling(tag: Path) -> None:
    tag.unlink()
    tag.symlink_to("nowhere")


@pytest.mark.parametrize("harm", [_lost, _damaged, _pipe, _dangling])
def test_a_tag_that_came_to_harm_is_written_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    home = Home(tmp_path / "home")
    home.claim()
    for folder in (home.work, home.logs, home.locks, home.git, home.artifacts, home.root / "trash"):
        folder.mkdir()
    home.facts.touch()
    (home.root / temporary_name("facts.json")).touch()
    tag = home.root / "CACHEDIR.TAG"
    former = tag.read_bytes()
    harm(tag)
    home.existing()
    assert tag.read_bytes() == former
    assert not tag.is_symlink()


def test_a_folder_in_place_of_the_tag_is_told(tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").mkdir()
    with pytest.raises(StoreError, match="a file lies where a folder should be, or the reverse"):
        Home(tmp_path).existing()


@pytest.mark.parametrize("name", ["locks", "facts.json"])
def test_what_every_run_makes_shows_that_the_folder_was_ours(tmp_path: Path, name: str) -> None:
    for folder in ("work", name):
        (tmp_path / folder).mkdir()
    Home(tmp_path).existing()
    assert (tmp_path / "CACHEDIR.TAG").exists()


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("name", ["locks", "work", "logs", "git", "trash"])
def test_what_is_no_folder_in_place_of_one_is_told(tmp_path: Path, name: str, *, tagged: bool) -> None:
    home = Home(tmp_path / "home")
    home.claim()
    home.facts.touch()
    if not tagged:
        (home.root / "CACHEDIR.TAG").unlink()
    (home.root / name).symlink_to("nowhere")
    for _ in range(2):
        with pytest.raises(StoreError, match=f"/{name}: a folder of the state should be here") as caught:
            home.existing()
        assert caught.value.hint is not None
        (home.root / name).unlink()
        (home.root / name).touch()
    (home.root / name).unlink()
    (tmp_path / "disk").mkdir()
    (home.root / name).symlink_to(tmp_path / "disk")
    home.existing()


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(UsageError, match="is a file"):
        Home(tmp_path / "home").existing()
    with pytest.raises(StoreError):
        Home(tmp_path / "home" / "below").claim()


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
