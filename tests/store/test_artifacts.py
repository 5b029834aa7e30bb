"""An artifact is served while its bytes are those of its manifest, and never otherwise."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_help import KEY, Heard, age, content, draft, everything, put, write_wheel

from orchestrator.errors import BuildFailedError, NoSpaceError, StoreError
from orchestrator.store import manifest as manifests
from orchestrator.store.artifacts import Artifact, Store
from orchestrator.store.home import Home
from orchestrator.store.listing import entries
from orchestrator.store.manifest import Audit
from orchestrator.store.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "cd" * 32


def wheel_of(artifact: Artifact) -> Path:
    (path,) = artifact.paths
    return path


def overwrite(path: Path, data: bytes) -> None:
    """Change a read-only file in place, as a fault or a careless person does."""
    path.chmod(0o644)
    path.write_bytes(data)


def test_what_is_put_is_served(store: Store, home: Home, tmp_path: Path) -> None:
    assert store.get(KEY) is None
    stored = put(store, tmp_path / "out")
    served = Store(home).get(KEY)
    assert served == store.get(KEY)
    assert served is not None
    assert served.manifest == manifests.read(stored.folder)
    assert (served.key, served.size) == (KEY, len(content(KEY)))
    assert served.manifest.created.endswith("+00:00")
    assert store.verified(served) == [home.artifacts / KEY / "x-1.0-py3-none-any.whl"]
    assert wheel_of(served).read_bytes() == content(KEY)
    assert (tmp_path / "out" / "x-1.0-py3-none-any.whl").exists()


def test_several_files_are_one_artifact(store: Store, tmp_path: Path) -> None:
    files = [write_wheel(tmp_path, KEY, name) for name in ("b.whl", "a.whl")]
    artifact = store.put(KEY, files, draft())
    assert [path.name for path in artifact.paths] == ["b.whl", "a.whl"]
    wheel_of_b = artifact.paths[0]
    overwrite(wheel_of_b, b"x" * len(content(KEY)))
    assert store.get(KEY) is None


def test_moved_files_leave_their_place(store: Store, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "out")
    inode = wheel.stat().st_ino
    artifact = store.put(KEY, [wheel], draft(), move=True)
    assert not wheel.exists()
    assert wheel_of(artifact).stat().st_ino == inode
    assert wheel_of(artifact).stat().st_mode & 0o777 == 0o444
    assert wheel_of(artifact).read_bytes() == content(KEY)


def test_a_link_is_stored_as_the_file_it_means(store: Store, tmp_path: Path) -> None:
    link = tmp_path / "link.whl"
    link.symlink_to(write_wheel(tmp_path / "out"))
    artifact = store.put(KEY, [link], draft(), move=True)
    assert not wheel_of(artifact).is_symlink()
    assert store.get(KEY) == artifact
    assert wheel_of(artifact).read_bytes() == content(KEY)


def test_the_first_of_a_key_stays(store: Store, tmp_path: Path) -> None:
    first = put(store, tmp_path / "out")
    other = tmp_path / "x-1.0-py3-none-any.whl"
    other.write_bytes(b"built again, other bytes")
    assert store.put(KEY, [other], draft()).manifest.files == first.manifest.files
    assert wheel_of(first).read_bytes() == content(KEY)
    assert everything(store.home.artifacts).count(KEY) == 1


def test_a_bad_first_gives_way(store: Store, heard: Heard, tmp_path: Path) -> None:
    overwrite(wheel_of(put(store, tmp_path / "out")), b"bad")
    again = put(store, tmp_path / "out")
    assert store.verified(again) == again.paths
    assert len(heard.notes("warning")) == 1


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([], StoreError),
        (["a.whl", "sub/a.whl"], StoreError),
        (["manifest.json"], BuildFailedError),
        ([".used"], BuildFailedError),
        (["a.whl", "simple"], BuildFailedError),
    ],
)
def test_files_that_make_no_artifact(
    store: Store, tmp_path: Path, names: list[str], kind: type[Exception]
) -> None:
    files = [tmp_path / name for name in names]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    with pytest.raises(kind):
        store.put(KEY, files, draft())
    assert verify(store.home).ok == 0


def test_a_missing_source_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"gone\.whl"):
        store.put(KEY, [write_wheel(tmp_path / "out"), tmp_path / "gone.whl"], draft(), move=True)
    assert everything(store.home.artifacts) == []
    assert (tmp_path / "out" / "x-1.0-py3-none-any.whl").stat().st_mode & 0o200  # as it was


@pytest.mark.parametrize("key", ["..", "a/b", ""])
def test_keys_cannot_leave_the_store(store: Store, tmp_path: Path, key: str) -> None:
    wheel = write_wheel(tmp_path / "out")
    for action in (store.get, store.get_rejected, store.promote, store.lock):
        with pytest.raises(StoreError):
            action(key)
    with pytest.raises(StoreError):
        store.put(key, [wheel], draft())


def test_a_touched_file_with_its_bytes_serves_on(store: Store, heard: Heard, tmp_path: Path) -> None:
    wheel = wheel_of(put(store, tmp_path / "out"))
    os.utime(wheel, ns=(1, 1))
    served = store.get(KEY)
    assert served is not None
    assert served.manifest.files[0].mtime_ns == 1
    assert "touched" in heard.notes("info")[0]
    assert store.get(KEY) == served  # by stat alone again
    assert len(heard.notes("info")) == 1


def test_a_store_moved_to_another_disk_serves_on(store: Store, heard: Heard, tmp_path: Path) -> None:
    put(store, tmp_path / "out")
    shutil.copytree(store.home.root, tmp_path / "moved")
    moved = Store(Home(tmp_path / "moved"), heard)
    assert moved.get(KEY) is not None
    assert moved.get(KEY) is not None
    assert len(heard.notes("info")) == 1
    assert heard.notes("warning") == []


def test_a_byte_changed_behind_the_stat_is_caught_when_handed_on(
    store: Store, heard: Heard, tmp_path: Path
) -> None:
    wheel = wheel_of(put(store, tmp_path / "out"))
    seen = wheel.stat()
    data = bytearray(wheel.read_bytes())
    data[777] ^= 1
    overwrite(wheel, bytes(data))
    os.utime(wheel, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    served = store.get(KEY)
    assert served is not None  # by stat it looks untouched
    assert store.verified(served) is None
    assert store.get(KEY) is None
    (warning,) = heard.notes("warning")
    assert "sha256" in warning
    assert str(store.home.quarantine) in warning
    (kept,) = [path for path in store.home.quarantine.iterdir() if path.is_dir()]
    assert (kept / wheel.name).read_bytes() == bytes(data)
    assert "sha256" in kept.with_name(f"{kept.name}.why").read_text()
    put(store, tmp_path / "out")
    assert store.get(KEY) is not None


def test_verified_hands_on_nothing_of_another_build(store: Store, tmp_path: Path) -> None:
    old = put(store, tmp_path / "out")
    shutil.rmtree(old.folder)
    assert store.verified(old) is None
    new = tmp_path / old.paths[0].name
    new.write_bytes(b"another build")
    store.put(KEY, [new], draft())
    assert store.verified(old) is None
    assert store.get(KEY) is not None  # the new one is not to blame


def test_only_the_folder_that_was_judged_is_condemned(store: Store, heard: Heard, tmp_path: Path) -> None:
    artifact = put(store, tmp_path / "out")
    judged = tmp_path.stat().st_ino  # another folder lay there when the bytes were read
    store._condemn(artifact.folder, "bad bytes", judged)
    assert store.get(KEY) == artifact
    store._condemn(store.home.artifacts / OTHER, "gone", judged)
    assert heard.events == []


def _shorter(folder: Path) -> None:
    overwrite(folder / "x-1.0-py3-none-any.whl", b"short")


def _removed(folder: Path) -> None:
    (folder / "x-1.0-py3-none-any.whl").unlink()


def _linked_elsewhere(folder: Path) -> None:
    wheel = folder / "x-1.0-py3-none-any.whl"
    wheel.rename(folder.parent.parent / "elsewhere")
    wheel.symlink_to(folder.parent.parent / "elsewhere")


def _a_folder_instead(folder: Path) -> None:
    _removed(folder)
    (folder / "x-1.0-py3-none-any.whl").mkdir()


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _truncated(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(data[: len(data) // 2])


def _not_json(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\x00" * 50)


def _of_another_key(folder: Path) -> None:
    manifest = manifests.read(folder)
    (folder / "manifest.json").write_bytes(manifests.encode(msgspec.structs.replace(manifest, key=OTHER)))


def _naming_a_path(folder: Path) -> None:
    manifest = manifests.read(folder)
    file = msgspec.structs.replace(manifest.files[0], name="../../elsewhere")
    (folder / "manifest.json").write_bytes(manifests.encode(msgspec.structs.replace(manifest, files=(file,))))


def _naming_nothing(folder: Path) -> None:
    manifest = manifests.read(folder)
    (folder / "manifest.json").write_bytes(manifests.encode(msgspec.structs.replace(manifest, files=())))


def _manifest_a_folder(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()


def _a_file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"")


def _a_dead_link_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("nowhere")


@pytest.mark.parametrize(
    "harm",
    [
        _shorter,
        _removed,
        _linked_elsewhere,
        _a_folder_instead,
        _no_manifest,
        _truncated,
        _not_json,
        _of_another_key,
        _naming_a_path,
        _naming_nothing,
        _manifest_a_folder,
        _a_file_instead,
        _a_dead_link_instead,
    ],
)
def test_harm_is_quarantined_and_built_again(
    store: Store, heard: Heard, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(put(store, tmp_path / "out").folder)
    assert store.get(KEY) is None
    assert len(heard.notes("warning")) == 1
    assert not os.path.lexists(store.home.artifacts / KEY)
    assert len([path for path in store.home.quarantine.iterdir() if not path.name.endswith(".why")]) == 1
    again = put(store, tmp_path / "out")
    assert store.verified(again) == again.paths


def test_a_rejected_one_is_kept_and_not_served(store: Store, home: Home, tmp_path: Path) -> None:
    audit = Audit(key="k1", verdict="fail", coverage="0 of 3")
    store.reject(KEY, [write_wheel(tmp_path / "out")], draft(audit=audit), move=True)
    assert store.get(KEY) is None
    rejected = store.get_rejected(KEY)
    assert rejected is not None
    assert rejected.manifest.audit == audit
    assert [(entry.rejected, entry.verdict) for entry in entries(home)] == [(True, "rejected")]
    passed = Audit(key="k2", verdict="pass", coverage="3 of 3")
    assert store.update_audit(KEY, passed) is not None
    promoted = store.promote(KEY)
    assert promoted is not None
    assert promoted.manifest.audit == passed
    assert store.get_rejected(KEY) is None
    served = store.get(KEY)
    assert served is not None
    assert store.verified(served) == served.paths
    assert [entry.verdict for entry in entries(home)] == ["pass"]
    assert store.demote(KEY) is not None
    assert store.get(KEY) is None
    assert store.get_rejected(KEY) is not None


def test_nothing_to_promote_demote_or_audit(store: Store) -> None:
    assert store.promote(KEY) is None
    assert store.demote(KEY) is None
    assert store.update_audit(KEY, Audit(key="k", verdict="pass", coverage="")) is None


def test_the_newest_rejected_stays_the_first_served_stays(store: Store, tmp_path: Path) -> None:
    store.reject(KEY, [write_wheel(tmp_path / "out")], draft())
    newer = tmp_path / "newer.whl"
    newer.write_bytes(b"newer")
    store.reject(KEY, [newer], draft())
    rejected = store.get_rejected(KEY)
    assert rejected is not None
    assert rejected.paths[0].name == "newer.whl"
    first = put(store, tmp_path / "out")
    promoted = store.promote(KEY)
    assert promoted is not None
    assert promoted.paths == first.paths
    assert everything(store.home.rejected) == []
    store.reject(KEY, [newer], draft())
    assert store.demote(KEY) is not None
    demoted = store.get_rejected(KEY)
    assert demoted is not None
    assert demoted.paths[0].name == first.paths[0].name
    assert everything(store.home.artifacts) == []


def test_an_audit_is_written_without_touching_the_rest(store: Store, tmp_path: Path) -> None:
    before = put(store, tmp_path / "out").manifest
    audit = Audit(key="k", verdict="pass", coverage="all")
    updated = store.update_audit(KEY, audit)
    assert updated is not None
    assert updated == store.get(KEY)
    after = manifests.read(updated.folder)
    assert after.audit == audit
    assert (after.files, after.ingredients, after.created) == (
        before.files,
        before.ingredients,
        before.created,
    )


def test_strange_files_are_noted_and_ignored(store: Store, home: Home, heard: Heard, tmp_path: Path) -> None:
    put(store, tmp_path / "out")
    (home.artifacts / "README").write_bytes(b"")
    (home.artifacts / KEY / "notes.txt").write_bytes(b"")
    assert len(list(entries(home, heard))) == 1
    assert "README" in heard.notes("info")[0]
    assert store.get(KEY) is not None
    assert verify(home).bad == ()


def test_a_full_disk_leaves_the_store_as_it_was(small_disk: Path, tmp_path: Path) -> None:
    store = Store(Home(small_disk))
    kept = put(store, tmp_path / "out")
    big = tmp_path / "big.whl"
    big.write_bytes(bytes(3 * 2**20))
    before = everything(small_disk)
    with pytest.raises(NoSpaceError, match="free"):
        store.put(OTHER, [big], draft(), move=True)
    assert big.stat().st_size == 3 * 2**20
    assert [path for path in everything(small_disk) if "locks" not in path] == [
        path for path in before if "locks" not in path
    ]
    assert store.get(OTHER) is None
    assert store.verified(kept) == kept.paths


def test_a_full_disk_still_serves(small_disk: Path, tmp_path: Path) -> None:
    store = Store(Home(small_disk))
    wheel = wheel_of(put(store, tmp_path / "out"))
    with pytest.raises(OSError, match="space"):  # until not a byte is free
        (small_disk / "filler").write_bytes(bytes(4 * 2**20))
    os.utime(wheel, ns=(1, 1))  # the manifest cannot be rewritten now
    assert store.get(KEY) is not None
    with pytest.raises(NoSpaceError):
        store.update_audit(KEY, Audit(key="k", verdict="pass", coverage=""))
    assert store.get(KEY) is not None


def test_an_unwritable_home_is_told(unwritable: Path, tmp_path: Path) -> None:
    store = Store(Home(unwritable))
    assert store.get(KEY) is None
    with pytest.raises(StoreError) as caught:
        put(store, tmp_path / "out")
    assert caught.value.hint is not None
    assert "SPARKBUILD_HOME" in caught.value.hint


def test_use_is_stamped_once_a_day(store: Store, tmp_path: Path) -> None:
    folder = put(store, tmp_path / "out").folder
    store.get(KEY)
    first = (folder / ".used").stat().st_mtime_ns
    store.get(KEY)
    assert (folder / ".used").stat().st_mtime_ns == first
    age(folder, days=2)
    store.get(KEY)
    assert (folder / ".used").stat().st_mtime_ns >= first


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.sampled_from(["put", "reject", "promote", "demote", "audit", "harm", "get"]), max_size=8
    )
)
def test_no_order_of_steps_serves_wrong_bytes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Compares with the plain model: which of the two places holds the key, and whether it is harmed."""
    tmp_path = tmp_path_factory.mktemp("steps")
    store = Store(Home(tmp_path / "home"))
    served = rejected = False
    for step in steps:
        if step == "put":
            put(store, tmp_path / "out")
            served = True
        elif step == "reject":
            store.reject(KEY, [write_wheel(tmp_path / "out")], draft())
            rejected = True
        elif step == "promote":
            assert (store.promote(KEY) is not None) == rejected
            served, rejected = served or rejected, False
        elif step == "demote":
            assert (store.demote(KEY) is not None) == served
            served, rejected = False, served or rejected
        elif step == "audit":
            found = store.update_audit(KEY, Audit(key="k", verdict="pass", coverage=""))
            assert (found is not None) == (served or rejected)
        elif step == "harm" and served:
            overwrite(store.home.artifacts / KEY / "x-1.0-py3-none-any.whl", b"harm")
            assert store.get(KEY) is None
            served = False
        assert (store.get(KEY) is not None, store.get_rejected(KEY) is not None) == (served, rejected)
    assert verify(store.home).bad == ()
