"""Writing is whole or not at all, and a refusing disk is told as an error for people."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_help import everything, start, stop, wait_ready

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.store import atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.store.home import Home


@pytest.mark.parametrize("durable", [True, False])
def test_write_makes_the_folder_and_replaces(tmp_path: Path, *, durable: bool) -> None:
    path = tmp_path / "a" / "b" / "file"
    for data in (b"first", b"", b"third"):
        atomic.write_bytes(path, data, durable=durable)
        assert path.read_bytes() == data
    assert everything(tmp_path) == ["a", "a/b", "a/b/file"]


def test_a_full_disk_leaves_the_former_bytes(small_disk: Path) -> None:
    path = small_disk / "file"
    atomic.write_bytes(path, b"former")
    with pytest.raises(NoSpaceError) as caught:
        atomic.write_bytes(path, bytes(3 * 2**20))
    assert caught.value.exit_code == 4
    assert "free" in caught.value.message
    assert caught.value.hint is not None
    assert "sparkbuild store gc" in caught.value.hint
    assert path.read_bytes() == b"former"
    assert everything(small_disk) == ["file"]


def test_an_unwritable_folder_is_a_store_error(unwritable: Path) -> None:
    with pytest.raises(StoreError) as caught:
        atomic.write_bytes(unwritable / "file", b"x")
    assert caught.value.hint is not None
    assert "SPARKBUILD_HOME" in caught.value.hint
    assert str(unwritable) in str(caught.value)


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="a file lies where a folder should be"):
        atomic.write_bytes(tmp_path / "file" / "inside", b"x")


def test_a_limit_on_file_sizes_is_told(home: Home) -> None:
    child = start("fill", home, "65536")
    said, _ = child.communicate(timeout=20)
    assert said.startswith("StoreError: ")
    assert "ulimit -f" in said
    assert everything(home.root) == []


def test_readers_see_the_former_bytes_or_the_new_ones(home: Home) -> None:
    path = home.root / "file"
    child = start("alternate", home, str(path))
    wait_ready(child)
    seen = {path.read_bytes() for _ in range(300)}
    stop(child)
    assert seen == {b"a" * 500_000, b"b" * 500_000}


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, NoSpaceError, "no space left: .* free"),
        (errno.EDQUOT, NoSpaceError, "quota"),
        (errno.EROFS, StoreError, "read-only"),
        (errno.EACCES, StoreError, "permission denied"),
        (errno.EPERM, StoreError, "permission denied"),
        (errno.EIO, StoreError, "input/output error"),
        (errno.ENAMETOOLONG, StoreError, "too long"),
    ],
)
def test_each_fault_of_a_disk(tmp_path: Path, number: int, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text), atomic.disk_errors(tmp_path / "not" / "there"):
        raise OSError(number, os.strerror(number))


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), atomic.disk_errors(tmp_path):
        raise ValueError("mine")


def test_a_temporary_folder_goes_unless_renamed(tmp_path: Path) -> None:
    with atomic.temporary_dir(tmp_path, "x") as folder:
        (folder / "file").write_bytes(b"")
        assert atomic.is_temporary(folder.name)
        assert atomic.in_use(folder) is True
    assert everything(tmp_path) == []
    with atomic.temporary_dir(tmp_path, "x") as folder:
        assert atomic.place_dir(folder, tmp_path / "x")
    assert everything(tmp_path) == ["x"]


def test_the_lock_of_a_temporary_ends_with_its_maker(home: Home) -> None:
    child = start("hold-temporary", home)
    wait_ready(child)
    (folder,) = home.artifacts.iterdir()
    assert atomic.in_use(folder) is True
    stop(child)
    assert atomic.in_use(folder) is False
    assert atomic.in_use(home.root / "missing") is None


def test_remove_read_only_trees_links_and_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_bytes(b"")
    (tree / "link").symlink_to(outside)
    for folder in (tree / "a" / "b", tree / "a", tree):
        folder.chmod(0o555)
    atomic.remove_tree(tree)
    (tmp_path / "link").symlink_to(outside)
    atomic.remove_tree(tmp_path / "link")
    atomic.remove_tree(tmp_path / "missing")
    assert everything(tmp_path) == ["outside"]


@given(name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_temporary_names(name: str) -> None:
    fresh = atomic.temporary_name(name)
    assert atomic.is_temporary(fresh)
    assert fresh != atomic.temporary_name(name)


def test_a_long_name_still_has_a_temporary(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    atomic.write_bytes(path, b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_plain_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match="not a plain file"):
        atomic.open_plain(tmp_path / "f")
    with pytest.raises(OSError, match="not a plain file"):
        atomic.sha256_file(tmp_path / "f")


def test_links_to_plain_files_are_opened_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("f")
    with atomic.open_plain(tmp_path / "link") as stream:
        assert stream.read() == b"abc"
    with pytest.raises(OSError, match="symbolic links"):
        atomic.open_plain(tmp_path / "link", follow_links=False)


def test_place_keeps_what_is_there(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"")
    assert not atomic.place_dir(tmp_path / "new", tmp_path / "old")
    assert everything(tmp_path) == ["new", "new/new", "old", "old/old"]


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 100_000)
    assert atomic.sha256_file(tmp_path / "f") == hashlib.sha256(b"abc" * 100_000).hexdigest()
