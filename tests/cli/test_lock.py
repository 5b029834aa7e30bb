"""`sparkbuild lock` from end to end, on a package index on disk."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from lock_help import Shelf

from orchestrator.cli.lock import own_folder
from orchestrator.cli.main import run
from orchestrator.errors import UsageError
from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.platform import Target
from orchestrator.source.index import index_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STACK = """\
schema: sparkbuild.stack/1
name: small
summary: s
platforms: [linux-x86_64, linux-aarch64]
pythons: ["3.12", "3.13"]
components:
  vec: {version: "1.2", prebuilt: true}
"""
RECIPE = "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\n"


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


class Shell:
    """Runs `sparkbuild` with a user's folder of recipes."""

    def __init__(self, folder: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.shelf = shelf
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Said:
        code = run(["--recipes", str(self.folder), "lock", "--stack", "small", *arguments])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").out)

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "stacks").glob("*.lock"))


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    shelf = Shelf(tmp_path / "shelf")
    shelf.wheel("vec", "1.2", requires=["dep"])
    shelf.wheel("vec", "1.3", requires=["dep"])
    shelf.wheel("dep", "1.0")
    folder = tmp_path / "mine"
    (folder / "stacks").mkdir(parents=True)
    (folder / "vec.yaml").write_text(RECIPE, encoding="utf-8")
    (folder / "stacks" / "small.yaml").write_text(STACK, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("PIP_", "SPARKBUILD_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", shelf.config.index_urls[0])
    monkeypatch.setenv("SPARKBUILD_HOME", str(tmp_path / "home"))
    index_config.cache_clear()
    yield Shell(folder, shelf, capsys)
    index_config.cache_clear()


def test_a_new_lock_then_nothing_then_what_changed(shell: Shell) -> None:
    target = ("--platform", "linux-aarch64", "--python", "3.12")
    first = shell(*target)
    assert first.code == 0, first.err
    assert first.out.startswith("linux-aarch64.cp312: new, 2 files")
    assert shell.files() == ["small.linux-aarch64.cp312.lock"]
    before = (shell.folder / "stacks" / shell.files()[0]).read_bytes()
    assert "nothing changed" in shell(*target).out
    assert (shell.folder / "stacks" / shell.files()[0]).read_bytes() == before
    shell.shelf.wheel("dep", "1.1")
    assert shell.json(*target)["locks"][0]["changes"] == [
        {"part": "vec", "name": "dep", "before": "1.0", "after": "1.1"}
    ]


def test_changes_are_shown_one_a_line(shell: Shell) -> None:
    shell("--platform", "linux-x86_64", "--python", "3.12")
    shell.shelf.wheel("dep", "1.1")
    out = shell("--platform", "linux-x86_64", "--python", "3.12").out
    assert out.splitlines()[1:] == ["  vec: dep 1.0 -> 1.1"]


def test_this_machine_is_the_default(shell: Shell) -> None:
    here = Target.here()
    report = shell.json()
    assert report["schema"] == "sparkbuild.locks/1"
    assert [(lock["platform"], lock["python"], lock["new"]) for lock in report["locks"]] == [
        (here.platform, here.python, True)
    ]


def test_all_targets_of_the_stack_and_their_check(shell: Shell) -> None:
    missing = shell("--all", "--check")
    assert missing.code == 2
    assert "sparkbuild lock --stack small --platform linux-x86_64 --python 3.12" in missing.err
    assert shell.files() == [], "--check writes nothing"
    assert shell("--all").code == 0
    assert len(shell.files()) == 4
    checked = shell("--all", "--check")
    assert checked.code == 0
    assert checked.out.count("up to date") == 4
    stack = shell.folder / "stacks" / "small.yaml"
    stack.write_text(STACK.replace("1.2", "1.3"), encoding="utf-8")
    stale = shell("--all", "--check")
    assert stale.code == 2
    assert "stale" in stale.err


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_resolved(shell: Shell) -> None:
    refused = shell("--platform", "linux-x86_64", "--python", "3.12", "--output", "/proc/no")
    assert refused.code == 4
    assert "/proc/no" in refused.err


def test_a_damaged_lock_is_replaced(shell: Shell) -> None:
    shell("--platform", "linux-x86_64", "--python", "3.12")
    path = shell.folder / "stacks" / shell.files()[0]
    path.write_bytes(path.read_bytes()[:100])
    assert shell("--platform", "linux-x86_64", "--python", "3.12", "--check").code == 2
    assert shell("--platform", "linux-x86_64", "--python", "3.12").code == 0
    assert shell("--platform", "linux-x86_64", "--python", "3.12", "--check").code == 0


def test_another_folder(shell: Shell, tmp_path: Path) -> None:
    said = shell(
        "--platform", "linux-x86_64", "--python", "3.12", "--output", str(tmp_path / "other" / "stacks")
    )
    assert said.code == 0, said.err
    assert shell.files() == []
    assert (tmp_path / "other" / "stacks" / "small.linux-x86_64.cp312.lock").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--platform", "linux-arm"], "one of linux-x86_64, linux-aarch64"),
        (["--python", "2.7"], "such as 3.12"),
        (["--all", "--python", "3.12"], "--all takes every platform and Python"),
    ],
)
def test_arguments_that_cannot_be_meant(shell: Shell, arguments: list[str], words: str) -> None:
    said = shell(*arguments)
    assert said.code == 2
    assert words in said.err
    assert said.out == ""


def test_an_unknown_stack(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--recipes", str(shell.folder), "lock", "--stack", "smal"]) == 2
    assert "did you mean small?" in capsys.readouterr().err


def test_no_versions_go_together(shell: Shell) -> None:
    shell.shelf.wheel("vec", "1.4", requires=["dep>=9"])
    stack = shell.folder / "stacks" / "small.yaml"
    stack.write_text(STACK.replace("1.2", "1.4"), encoding="utf-8")
    said = shell("--platform", "linux-x86_64", "--python", "3.12")
    assert said.code == 2
    assert "dep" in said.err
    assert shell.files() == []


def test_an_installation_keeps_its_data(shell: Shell, tmp_path: Path) -> None:
    package = tmp_path / "site" / "orchestrator"
    data = package / "_data" / "recipes"
    (data / "stacks").mkdir(parents=True)
    for name in ("vec.yaml", "stacks/small.yaml"):
        (data / name).write_bytes((shell.folder / name).read_bytes())
    with pytest.raises(UsageError, match="came with the installed program") as caught:
        own_folder(Catalog(find_places(package=package)), "small")
    assert "--output DIR/stacks" in (caught.value.hint or "")
    mixed = Catalog(find_places([shell.folder], package=package))
    assert own_folder(mixed, "small") == shell.folder / "stacks"
