"""Trees are measured and removed however deep and however locked, and nothing outside of them is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_help import RUN, everything, restrained, start

from orchestrator.store import trees

if TYPE_CHECKING:
    from orchestrator.store.home import Home

DEPTH = 1500
"""Past the limit on recursion, on open files (1024) and, with names so long, on paths (4096 bytes)."""


def deep(top: Path) -> None:
    """Make a tree of a file and a folder on each of many levels."""
    top.mkdir(parents=True)
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEPTH):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir("folder", dir_fd=here)
        inside = os.open("folder", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inside
    os.close(here)


def test_a_very_deep_tree_is_counted_and_goes(tmp_path: Path) -> None:
    deep(tmp_path / "top")
    opened = len(list(Path("/proc/self/fd").iterdir()))
    assert sum(1 for _ in trees.files(tmp_path / "top")) == DEPTH
    trees.remove(tmp_path / "top")
    assert everything(tmp_path) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_a_wide_tree_is_counted_and_goes(tmp_path: Path) -> None:
    for one in range(5):
        for two in range(5):
            folder = tmp_path / "top" / str(one) / str(two)
            folder.mkdir(parents=True)
            (folder / "file").write_bytes(b"123")
    (tmp_path / "top" / "pipe").touch()
    os.mkfifo(tmp_path / "top" / "1" / "pipe")
    (tmp_path / "top" / "odd\udcff\nname").mkdir()
    assert sum(seen.st_size for seen in trees.files(tmp_path / "top")) == 75
    trees.remove(tmp_path / "top")
    assert everything(tmp_path) == []


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "photo").write_bytes(b"jpg")
    outside.chmod(0o555)
    top = tmp_path / "top"
    top.mkdir()
    (top / "folder").symlink_to(outside)
    (top / "file").symlink_to(outside / "photo")
    (top / "up").symlink_to("..")
    (tmp_path / "link").symlink_to(outside)
    assert len(list(trees.files(top))) == 3
    assert len(list(trees.files(tmp_path / "link"))) == 1
    trees.remove(top)
    trees.remove(tmp_path / "link")
    assert everything(tmp_path) == ["outside", "outside/photo"]
    assert outside.stat().st_mode & 0o777 == 0o555
    outside.chmod(0o755)


def test_a_tree_below_a_link_goes_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "disk" / "tree" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    trees.remove(tmp_path / "link" / "tree")
    assert everything(tmp_path) == ["disk", "link"]


def test_a_single_file_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12")
    assert [seen.st_size for seen in trees.files(tmp_path / "file")] == [2]
    assert list(trees.files(tmp_path / "missing" / "too")) == []
    trees.remove(tmp_path / "file")
    trees.remove(tmp_path / "file")
    trees.remove(tmp_path / "missing" / "too")
    assert everything(tmp_path) == []


def test_another_disk_mounted_inside_stays(tmp_path: Path, small_disk: Path) -> None:
    (small_disk / "photo").write_bytes(b"jpg")
    (tmp_path / "file").write_bytes(b"12")
    assert [seen.st_size for seen in trees.files(tmp_path)] == [2]
    trees.remove(tmp_path)
    assert everything(tmp_path) == [small_disk.name, f"{small_disk.name}/photo"]


def test_a_folder_that_moves_away_meanwhile_stops_the_walk(tmp_path: Path) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").touch()
    for step in trees._walk(tmp_path / "top", unlock=False):
        if not step.left and not (tmp_path / "elsewhere" / "b").exists() and _at(step.folder).name == "b":
            (tmp_path / "top" / "a" / "b").rename(tmp_path / "elsewhere" / "b")
        assert not step.left
    assert (tmp_path / "elsewhere" / "b").is_dir()


def test_locked_folders_go_without_rootly_powers(home: Home) -> None:
    top = home.work / RUN / "step"
    for mode in (0o000, 0o111, 0o444, 0o555):
        (top / f"{mode:o}" / "inside" / "more").mkdir(parents=True)
        (top / f"{mode:o}" / "inside" / "file").touch()
        (top / f"{mode:o}" / "inside").chmod(mode)
        (top / f"{mode:o}").chmod(mode)
    top.chmod(0)
    child = start("remove", home, str(home.work / RUN), prefix=restrained())
    assert child.communicate(timeout=20)[0] == "ready\n"
    assert everything(home.root) == ["work"]


def test_what_cannot_be_unlocked_is_left_and_passed_over(tmp_path: Path) -> None:
    chattr = shutil.which("chattr")
    (tmp_path / "top" / "kept").mkdir(parents=True)
    (tmp_path / "top" / "kept" / "file").touch()
    (tmp_path / "top" / "gone").mkdir()
    if chattr is None or _run(chattr, "+i", str(tmp_path / "top" / "kept")):
        pytest.skip("no file here can be made immutable")
    try:
        trees.remove(tmp_path / "top")
        assert everything(tmp_path) == ["top", "top/kept", "top/kept/file"]
    finally:
        _run(chattr, "-i", str(tmp_path / "top" / "kept"))


def _run(*words: str) -> int:
    return subprocess.run(words, check=False, capture_output=True).returncode


def _at(folder: int) -> Path:
    return Path(f"/proc/self/fd/{folder}").readlink()
