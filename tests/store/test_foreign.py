"""Folders of the state that are links to where other things lie: what is not ours stays, all of it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from store_help import KEY, RUN, Heard, age, content, everything, put, restrained, start

from orchestrator.errors import StoreError
from orchestrator.store import atomic
from orchestrator.store.gc import collect
from orchestrator.store.listing import entries
from orchestrator.store.scan import trash_folder
from orchestrator.store.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrator.store.artifacts import Store
    from orchestrator.store.home import Home

NOW = timedelta(0)
FOLDERS = (
    *("artifacts", "rejected", "downloads", "layers", "wheels"),
    *("git", "work", "logs", "trash", "quarantine", "locks/leases"),
)
OTHER_KEY = "cd" * 32
QUARANTINED = f"20260102T030405Z.artifacts.{KEY}.0123ab"


def photos(folder: Path) -> Sequence[str]:
    """Put things of somebody else into a folder, some with names rather like ours."""
    for name in ("album", "2026", ".hidden", ".pip-mine", "ab" * 20, "x.tmp-0123456789ab"):
        (folder / name / "inside").mkdir(parents=True)
        (folder / name / "inside" / "photo.jpg").write_bytes(b"jpg")
        (folder / name / "manifest.json").write_bytes(b"{}")
        age(folder / name, 999)
    for name in ("photo.jpg", ".DS_Store", KEY[:-1], ".notes.tmp-old", f"{KEY}.jpg"):
        (folder / name).write_bytes(b"jpg")
        age(folder / name, 999)
    return everything(folder)


def link_to(home: Home, name: str, place: Path) -> None:
    """Let a folder of the home be a link."""
    link = home.root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(place, target_is_directory=True)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("name", FOLDERS)
def test_things_of_others_stay(home: Home, tmp_path: Path, name: str, *, linked: bool) -> None:
    place = tmp_path / "photos" if linked else home.root / name
    before = photos(place)
    if linked:
        link_to(home, name, place)
    heard = Heard()
    assert collect(home, unused_for=NOW, emit=heard, now=time.time() + 99 * 86400).items == ()
    assert verify(home, heard).bad == ()
    assert list(entries(home, heard)) == []
    assert everything(place) == before
    assert heard.notes("warning") == []
    notes = heard.notes("info")
    assert any("album: not part of the store" in text for text in notes) == (name in FOLDERS[:3])


def ours(home: Home) -> list[Path]:
    """Put one thing of ours, long unused, into each folder that gc cleans."""
    made = [
        *(folder / OTHER_KEY for folder in (home.artifacts, home.rejected, home.downloads)),
        *(home.layers / OTHER_KEY, home.wheels / OTHER_KEY, home.work / RUN, home.logs / RUN),
        *(trash_folder(home) / atomic.temporary_name("x"), home.quarantine / QUARANTINED),
        *(home.work / atomic.temporary_name("x"), home.downloads / ".pip-abcdefgh"),
        *(home.downloads / ".parts" / OTHER_KEY, home.git / f"{OTHER_KEY}.git"),
    ]
    for path in made:
        (path / "inside").mkdir(parents=True)
        (path / "inside" / "file").write_bytes(b"123")
        age(path, 99)
    return made


@pytest.mark.parametrize("linked", [True, False])
def test_things_of_ours_go(home: Home, small_disk: Path, *, linked: bool) -> None:
    if linked:  # each to another disk, from which nothing can be renamed into the trash
        for name in FOLDERS[:-1]:
            (small_disk / name).mkdir()
            link_to(home, name, small_disk / name)
    made = ours(home)
    heard = Heard()
    later = time.time() + 2 * 86400
    foretold = collect(home, unused_for=NOW, dry_run=True, now=later)
    assert collect(home, unused_for=NOW, emit=heard, now=later) == foretold
    assert len(foretold.items) == len(made)
    assert heard.notes("warning") == []
    assert [path for path in made if os.path.lexists(path)] == []
    left = {path.name for folder in FOLDERS[:-1] for path in (home.root / folder).iterdir()}
    assert left == {".parts"}
    assert all((home.root / name).is_symlink() == linked for name in FOLDERS[:-1])


def test_a_link_among_ours_goes_and_what_it_points_to_stays(home: Home, tmp_path: Path) -> None:
    before = photos(tmp_path / "photos")
    (tmp_path / "photos" / atomic.temporary_name("x")).touch()
    age(tmp_path / "photos", 999)
    seen = (tmp_path / "photos").stat()
    for folder in (home.artifacts, home.layers, home.downloads):
        folder.mkdir(parents=True)
        (folder / KEY).symlink_to(tmp_path / "photos")
    (home.downloads / ".parts").symlink_to(tmp_path / "photos")
    (home.work / RUN).parent.mkdir()
    (home.work / RUN).symlink_to(tmp_path / "photos")
    assert len(verify(home).bad) == 2  # moved to quarantine: the links
    collect(home, unused_for=NOW, now=time.time() + 99 * 86400)
    assert len(everything(tmp_path / "photos")) == len(before) + 1
    assert (tmp_path / "photos").stat().st_mtime == seen.st_mtime
    assert everything(home.work) == []


@pytest.mark.parametrize("room", ["quarantine", "artifacts"])
def test_quarantine_on_another_disk(store: Store, home: Home, small_disk: Path, room: str) -> None:
    link_to(home, room, small_disk)
    wheel = put(store, home.root / "out").paths[0]
    wheel.chmod(0o644)
    wheel.write_bytes(b"wrong")
    (bad,) = verify(home).bad
    assert bad.moved_to is not None
    assert bad.moved_to.parent == home.quarantine
    assert (bad.moved_to / wheel.name).read_bytes() == b"wrong"
    assert bad.moved_to.with_name(f"{bad.moved_to.name}.why").is_file()
    assert everything(home.artifacts) == []


def test_quarantine_on_another_disk_that_is_full(store: Store, home: Home, small_disk: Path) -> None:
    link_to(home, "quarantine", small_disk)
    wheel = put(store, home.root / "out").paths[0]
    (small_disk / "photo").write_bytes(bytes(2 * 2**20 - 8192))
    wheel.chmod(0o644)
    wheel.write_bytes(b"wrong" * 20_000)
    assert store.get(KEY) is None
    (hidden,) = home.artifacts.iterdir()
    assert atomic.is_temporary(hidden.name)
    assert everything(small_disk) == ["photo"]
    assert verify(home).bad == ()
    assert len(collect(home, unused_for=NOW, now=time.time() + 120).items) == 1
    assert everything(home.artifacts) == []


def test_rejected_on_another_disk(store: Store, home: Home, small_disk: Path) -> None:
    link_to(home, "rejected", small_disk)
    put(store, home.root / "out")
    demoted = store.demote(KEY)
    assert demoted is not None
    assert demoted.folder.parent == home.rejected
    assert everything(home.artifacts) == []
    promoted = store.promote(KEY)
    assert promoted is not None
    assert store.verified(promoted) == promoted.paths
    assert promoted.manifest.created == demoted.manifest.created
    assert everything(small_disk) == []
    seen = promoted.paths[0].stat()
    promoted.paths[0].chmod(0o644)
    promoted.paths[0].write_bytes(b"x" * seen.st_size)
    os.utime(promoted.paths[0], ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert store.demote(KEY) is None  # wrong bytes gain no new manifest by moving
    assert everything(small_disk) == everything(home.artifacts) == []


def test_a_deep_tree_does_not_end_gc(home: Home) -> None:
    here = home.work / RUN
    here.mkdir(parents=True)
    descriptor = os.open(here, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("folder", dir_fd=descriptor)
        inside = os.open("folder", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inside
    os.close(descriptor)
    (home.layers / KEY).mkdir(parents=True)
    heard = Heard()
    result = collect(home, unused_for=NOW, emit=heard)
    assert [item.kind for item in result.items] == ["work", "layers"]
    assert heard.notes("warning") == []
    assert everything(home.work) == everything(home.layers) == everything(trash_folder(home)) == []


@pytest.mark.parametrize("name", ["work", "artifacts", "trash", "locks"])
def test_a_file_in_place_of_a_folder_is_told(home: Home, name: str) -> None:
    home.root.mkdir()
    (home.root / name).write_bytes(b"")
    with pytest.raises(StoreError, match="a file lies where a folder should be") as caught:
        collect(home, unused_for=NOW)
    assert caught.value.hint is not None
    assert (home.root / name).is_file()


def test_a_file_in_place_of_the_artifacts_is_told_by_all(store: Store, home: Home) -> None:
    home.root.mkdir()
    home.artifacts.write_bytes(b"")
    for act in (lambda: verify(home), lambda: list(entries(home)), lambda: store.get(KEY)):
        with pytest.raises(StoreError, match="a file lies where a folder should be"):
            act()


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_locked_folder_of_artifacts_is_told(store: Store, home: Home, tmp_path: Path, mode: int) -> None:
    put(store, tmp_path / "out")
    home.artifacts.chmod(mode)
    try:
        child = start("look", home, KEY, prefix=restrained())
        said = child.communicate(timeout=20)[0].splitlines()
    finally:
        home.artifacts.chmod(0o755)
    assert said[0] == "ready"
    told = "StoreError: permission denied"
    assert said[-1] == f"get {told}"
    if mode == 0:
        assert said[1:-1] == [f"{act} {told}" for act in ("gc", "list", "verify")]
    store.get(KEY)
    assert (home.artifacts / KEY / "x-1.0-py3-none-any.whl").read_bytes() == content(KEY)


def test_a_locked_artifact_moves_to_quarantine(store: Store, home: Home, tmp_path: Path) -> None:
    put(store, tmp_path / "out").folder.chmod(0)
    child = start("look", home, KEY, prefix=restrained())
    assert child.communicate(timeout=20)[0].splitlines() == [
        "ready",
        "gc 0",
        "list 1",
        "verify 1",
        "get None",
    ]
    assert everything(home.artifacts) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_pipes_and_folders_in_place_of_files_never_block(
    store: Store, home: Home, make: Callable[[Path], None]
) -> None:
    for folder in (home.artifacts / KEY, home.downloads / KEY):
        folder.mkdir(parents=True)
    make(home.artifacts / KEY / "manifest.json")
    make(home.downloads / KEY / "x.tar.gz")
    assert [entry.verdict for entry in entries(home)] == ["broken"]
    assert [bad.kind for bad in verify(home, keep=True).bad] == ["artifacts", "downloads"]
    assert store.get(KEY) is None
    assert [bad.kind for bad in verify(home).bad] == ["downloads"]
    assert len(collect(home, unused_for=NOW, now=time.time() + 99 * 86400).items) == 4
    assert everything(home.quarantine) == []
