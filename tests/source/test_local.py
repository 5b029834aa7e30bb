"""Local folders as sources, in git and not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from powers import as_anybody
from source_help import make_repository, run_git, tree_of

from orchestrator.errors import ArchiveRefusedError, SourceError, UsageError
from orchestrator.source.local import files_of, lay_local, refuse_own, tree_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "pkg/__pycache__").mkdir(parents=True)
    (root / "pkg/__pycache__/x.pyc").write_bytes(b"junk")
    (root / "pkg/x.py").write_text("x")
    (root / "setup.py").write_text("s")
    (root / "link").symlink_to("pkg")
    return root


def test_content_is_what_counts(folder: Path, tmp_path: Path) -> None:
    before = tree_digest(folder)
    os.utime(folder / "setup.py", (1, 1))
    (folder / "pkg/__pycache__/y.pyc").write_bytes(b"more")
    (folder / "empty").mkdir()
    assert tree_digest(folder) == before
    assert files_of(folder) == ["link", "pkg/x.py", "setup.py"]
    folder.rename(tmp_path / "elsewhere")
    assert tree_digest(tmp_path / "elsewhere") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "setup.py").write_text("t"),
        lambda root: (root / "setup.py").chmod(0o755),
        lambda root: (root / "new").write_text(""),
        lambda root: (root / "setup.py").rename(root / "setup2.py"),
        lambda root: ((root / "link").unlink(), (root / "link").symlink_to("setup.py")),
        lambda root: ((root / "link").unlink(), (root / "link").write_text("pkg")),
    ],
)
def test_each_change_of_content_changes_the_digest(folder: Path, change: Callable[[Path], object]) -> None:
    before = tree_digest(folder)
    change(folder)
    assert tree_digest(folder) != before


def test_names_and_contents_cannot_be_shifted_into_each_other(tmp_path: Path) -> None:
    digests = set()
    for number, files in enumerate([{"a": "bc"}, {"ab": "c"}, {"a": "b", "c": ""}, {"a": "", "b": "c"}]):
        root = tmp_path / str(number)
        root.mkdir()
        for name, text in files.items():
            (root / name).write_text(text)
        digests.add(tree_digest(root))
    assert len(digests) == 4


def test_git_says_which_files_count(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.py": "a", "gone.py": "", ".gitignore": "*.o\nbuild/\n"})
    (tmp_path / "gone.py").unlink()
    (tmp_path / "x.o").write_text("object")
    (tmp_path / "build/sub").mkdir(parents=True)
    (tmp_path / "build/sub/out").write_text("built")
    (tmp_path / "new file.py").write_text("not added")
    assert files_of(tmp_path) == [".gitignore", "a.py", "new file.py"]
    # A folder that its repository ignores still is a source.
    assert files_of(tmp_path / "build/sub") == ["out"]


def test_submodules_and_nested_repositories_belong_to_the_tree(tmp_path: Path) -> None:
    make_repository(tmp_path / "inner", {"i.txt": "i", ".gitignore": "*.o\n"})
    make_repository(tmp_path / "main", {"m.txt": "m"})
    run_git(tmp_path / "main", "submodule", "add", "-q", "../inner", "deps/inner")
    (tmp_path / "main/deps/inner/x.o").write_text("object")
    make_repository(tmp_path / "main/nested", {"n.txt": "n"})
    assert [name for name in files_of(tmp_path / "main") if ".git" not in name] == [
        "deps/inner/i.txt",
        "m.txt",
        "nested/n.txt",
    ]


def test_the_copy_is_what_was_hashed(folder: Path, tmp_path: Path) -> None:
    digest = tree_digest(folder)
    lay_local(folder, tmp_path / "to" / "dest", digest=digest)
    dest = tmp_path / "to" / "dest"
    assert tree_of(dest) == {"link": "-> pkg", "pkg/x.py": "x", "setup.py": "s"}
    assert tree_digest(dest) == digest
    assert {path.lstat().st_mtime for path in dest.rglob("*")} == {315_532_800}
    (folder / "setup.py").write_text("changed")
    with pytest.raises(SourceError, match="changed while it was copied"):
        lay_local(folder, tmp_path / "to" / "other", digest=digest)
    with pytest.raises(SourceError, match="exists already"):
        lay_local(folder, dest)
    assert [path.name for path in dest.parent.iterdir()] == ["dest"]


DIGEST = """
import sys
from pathlib import Path
from orchestrator.errors import SourceError
from orchestrator.source.local import lay_local, tree_digest
folder, dest = map(Path, sys.argv[1:])
for action in (lambda: tree_digest(folder), lambda: lay_local(folder, dest)):
    try:
        print("taken:", action())
    except SourceError as error:
        print(error.exit_code, error.message)
"""


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("hidden", ["pkg", "pkg/x.py"])
def test_what_cannot_be_read_is_not_left_out(
    folder: Path, tmp_path: Path, hidden: str, *, tracked: bool
) -> None:
    if tracked:
        make_repository(folder, {})
    (folder / hidden).chmod(0)
    try:
        told = as_anybody(DIGEST, str(folder), str(tmp_path / "to" / "dest")).splitlines()
    finally:
        (folder / hidden).chmod(0o755)
    assert len(told) == 2
    for line in told:
        assert line.startswith("5 ")
        assert "pkg" in line
        assert "Permission denied" in line
    assert not (tmp_path / "to").exists() or list((tmp_path / "to").iterdir()) == []


def test_a_new_folder_that_git_cannot_read_is_not_left_out(tmp_path: Path) -> None:
    make_repository(tmp_path / "r", {"x": "1"})
    (tmp_path / "r/new").mkdir()
    (tmp_path / "r/new/y").write_text("2")
    (tmp_path / "r/new").chmod(0)
    try:
        told = as_anybody(DIGEST, str(tmp_path / "r"), str(tmp_path / "dest")).splitlines()
    finally:
        (tmp_path / "r/new").chmod(0o755)
    assert [line[:2] for line in told] == ["5 ", "5 "]
    assert all("could not open directory 'new/'" in line for line in told)


@pytest.mark.parametrize("tracked", [True, False])
def test_a_tree_that_is_too_deep(tmp_path: Path, *, tracked: bool) -> None:
    root = tmp_path / "r"
    make_repository(root, {"x": "1"}) if tracked else root.mkdir()
    allowed = root.joinpath(*["d"] * 200)
    allowed.mkdir(parents=True)
    (allowed / "y").write_text("2")
    assert f"{'d/' * 200}y" in files_of(root)
    lay_local(root, tmp_path / "dest", digest=tree_digest(root))
    (allowed / "d").mkdir()
    (allowed / "d" / "z").write_text("3")
    for action in (tree_digest, files_of):
        with pytest.raises(SourceError, match="deeper than 200 folders"):
            action(root)


def test_the_state_folder_in_the_source_or_around_it(folder: Path, tmp_path: Path) -> None:
    home = folder / "cache" / "home"
    with pytest.raises(UsageError, match="holds the state folder") as caught:
        refuse_own(folder, home)
    assert caught.value.exit_code == 2
    home.mkdir(parents=True)
    (home / "CACHEDIR.TAG").write_text("x")
    (tmp_path / "alias").symlink_to(folder)
    for source in (folder, tmp_path / "alias", home.parent):
        with pytest.raises(UsageError, match="holds the state folder"):
            refuse_own(source, home)
    (home / "work/x").mkdir(parents=True)
    for source in (home, home / "work/x"):
        with pytest.raises(UsageError, match="lies in the state folder"):
            refuse_own(source, home)
    refuse_own(folder / "pkg", home)
    refuse_own(tmp_path / "none", home)


def test_the_state_folder_where_git_ignores_it_is_in_nobodys_way(tmp_path: Path) -> None:
    make_repository(tmp_path / "r", {"x": "1", ".gitignore": "/cache/\n"})
    (tmp_path / "r/cache").mkdir()
    (tmp_path / "r/cache/CACHEDIR.TAG").write_text("x")
    refuse_own(tmp_path / "r", tmp_path / "r/cache")
    assert files_of(tmp_path / "r") == [".gitignore", "x"]


def test_what_is_no_source(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no folder"):
        tree_digest(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no files"):
        tree_digest(tmp_path / "empty")
    (folder / "out").symlink_to("/etc")
    with pytest.raises(ArchiveRefusedError, match="'out' leads out"):
        lay_local(folder, tmp_path / "dest")
    os.mkfifo(folder / "pipe")
    with pytest.raises(SourceError, match="pipe is no file"):
        tree_digest(folder)
