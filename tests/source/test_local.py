"""Local folders as sources, in git and not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from source_help import make_repository, run_git, tree_of

from orchestrator.errors import ArchiveRefusedError, SourceError
from orchestrator.source.local import files_of, lay_local, tree_digest

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
