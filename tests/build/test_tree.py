"""Build trees: when one is gone on in, and what is made anew in it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.build.tree import BuildTree, short

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ab" * 32
WHEELS = ["1" * 64]


@pytest.fixture
def tree(tmp_path: Path) -> BuildTree:
    tree = BuildTree(tmp_path / "work" / short(KEY) / "kernels", KEY)
    (tree.folder / "src").mkdir(parents=True)
    (tree.folder / "env/bin").mkdir(parents=True)
    (tree.folder / "env/bin/python").symlink_to(sys.executable)
    return tree


def unit(tree: BuildTree, number: int, output: Path) -> None:
    tree.journal.mkdir(exist_ok=True)
    (tree.journal / str(number)).write_text(str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(b"half")


def test_a_tree_is_gone_on_in_once_it_is_ready(tree: BuildTree) -> None:
    assert tree.resumes(WHEELS) == (False, "")
    tree.ready(WHEELS, "20261201-152000-1-abcd")
    assert tree.resumes(WHEELS) == (True, "goes on in the build tree of run 20261201-152000-1-abcd")


@pytest.mark.parametrize("change", ["wheels", "key", "folder", "state", "spent"])
def test_what_differs_starts_clean(tree: BuildTree, change: str) -> None:
    tree.ready(WHEELS, "run")
    state = tree.folder.parent / "state.json"
    wheels, other = WHEELS, tree
    match change:
        case "wheels":
            wheels = ["2" * 64]
        case "key":
            other = BuildTree(tree.folder, KEY[:32] + "cd" * 16)
        case "folder":
            (tree.folder / "src").rmdir()
        case "state":
            state.write_bytes(state.read_bytes()[:20])
        case "spent":
            tree.spend()
    assert other.resumes(wheels) == (False, "")


def test_after_a_restart_of_the_machine_it_starts_clean_and_says_so(tree: BuildTree) -> None:
    tree.ready(WHEELS, "run")
    state = tree.folder.parent / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"boot": "another"}))
    resumes, told = tree.resumes(WHEELS)
    assert not resumes
    assert "started anew" in told


def test_outputs_of_units_that_ran_go_and_finished_ones_stay(tree: BuildTree, tmp_path: Path) -> None:
    half, whole = tree.folder / "src/build/one.o", tree.folder / "src/build/two.o"
    unit(tree, 1, half)
    whole.write_bytes(b"whole")
    outside = tmp_path / "theirs.o"
    unit(tree, 2, outside)
    unit(tree, 3, tree.folder / "src/never.o")
    (tree.folder / "src/never.o").unlink()
    assert tree.settle([tree.folder / "src"]) == 1
    assert not half.exists()
    assert whole.read_bytes() == b"whole"
    assert outside.exists(), "no build may have us remove what lies elsewhere"
    assert not list(tree.journal.iterdir())


def test_what_is_copied_by_time_stamps_is_copied_again(tree: BuildTree) -> None:
    source = tree.folder / "src"
    for name in ("build/lib.linux-x86_64/pkg/half.py", "build/bdist.linux/x", "build/temp.linux/one.o"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_bytes(b"")
    for name in ("out", "wheels", "tmp", "tools", "home"):
        (tree.folder / name).mkdir()
    tree.settle([source])
    assert [path.name for path in (source / "build").iterdir()] == ["temp.linux"]
    assert sorted(path.name for path in tree.folder.iterdir()) == ["env", "home", "src"]


def test_clearing_leaves_nothing(tree: BuildTree) -> None:
    tree.ready(WHEELS, "run")
    unit(tree, 1, tree.folder / "one.o")
    tree.clear()
    assert not tree.folder.parent.exists()
