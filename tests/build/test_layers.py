"""Layers on a real disk: shared, read-only, whole or absent, also when killed or raced."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import wheelhouse

from orchestrator.build.layers import Layer, ensure_layer, find_layer, layer_key, needs
from orchestrator.errors import ArchiveRefusedError, LockError, NoSpaceError, StoreError
from orchestrator.report.events import Progress, silent
from orchestrator.store.atomic import remove_tree
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Event

Wheels = tuple[list["LockedFile"], dict[str, Path]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def wheels(tmp_path: Path) -> Wheels:
    return make_wheels(tmp_path, 3, 10)


def make_wheels(folder: Path, count: int, files: int) -> Wheels:
    (folder / "dl").mkdir(exist_ok=True)
    made = [
        wheelhouse.make_wheel(
            folder / "dl", f"pkg-{i}", {f"pkg{i}/m{j}.py": f"{i} {j}\n" * 50 for j in range(files)}
        )
        for i in range(count)
    ]
    return [locked for locked, _ in made], {locked.sha256: path for locked, path in made}


def ensure(wheels: Wheels, home: Home, *, salt: str = "") -> Layer:
    return ensure_layer(wheels[0], wheels[1], home=home, emit=silent, salt=salt)


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []


def test_a_layer_holds_all_wheels_and_no_second_copy(wheels: Wheels, home: Home) -> None:
    layer = ensure(wheels, home)
    assert (layer.site / "pkg2/m9.py").read_text().startswith("2 9")
    assert (layer.site / "pkg0/m0.py").samefile(home.wheels / wheels[0][0].sha256 / "site/pkg0/m0.py")
    assert layer.path == home.layers / layer_key(wheels[0])
    assert not layer.site.stat().st_mode & 0o222
    assert not (layer.site / "pkg0").stat().st_mode & 0o222


def test_a_second_call_needs_no_downloads(wheels: Wheels, home: Home) -> None:
    files, paths = wheels
    assert needs(files, home=home) == files
    first = ensure(wheels, home)
    for path in paths.values():
        path.unlink()
    events: list[Event] = []
    assert needs(files, home=home) == []
    assert ensure_layer(files, {}, home=home, emit=events.append) == first
    assert events == []
    assert find_layer(files, home=home) == first


def test_layers_share_unpacked_wheels(tmp_path: Path, wheels: Wheels, home: Home) -> None:
    files, _ = wheels
    ensure(wheels, home)
    extra, path = wheelhouse.make_wheel(tmp_path, "extra", {"extra.py": ""})
    assert needs([*files, extra, extra], home=home) == [extra]
    wider = ensure_layer([*files, extra], {extra.sha256: path}, home=home, emit=silent)
    assert (wider.site / "pkg0/m0.py").stat().st_nlink == 3
    assert len(visible(home.layers)) == 2


def test_the_key_follows_content_and_salt_alone(wheels: Wheels) -> None:
    files, _ = wheels
    assert layer_key(files) == layer_key([*reversed(files), files[0]])
    assert layer_key(files) != layer_key(files[1:])
    assert layer_key(files) != layer_key(files, salt="repairs-1")


@pytest.mark.parametrize("path", ["{decoy}", "../decoy", "", "..", "A" * 64, "a" * 63])
def test_a_sha256_that_is_a_path_leads_nowhere(tmp_path: Path, wheels: Wheels, home: Home, path: str) -> None:
    """A folder that nobody verified, named by a lock's sha256, must not be taken for an unpacked wheel."""
    decoy = tmp_path / "decoy"
    (decoy / "site").mkdir(parents=True)
    (decoy / "site/evil.py").write_text("raise SystemExit\n")
    files = [msgspec.structs.replace(wheels[0][0], sha256=path.format(decoy=decoy)), *wheels[0][1:]]
    for call in (
        lambda: layer_key(files),
        lambda: needs(files, home=home),
        lambda: find_layer(files, home=home),
        lambda: ensure_layer(files, wheels[1], home=home, emit=silent),
    ):
        with pytest.raises(LockError, match="expected 64 lower-case hex digits") as caught:
            call()
        assert files[0].file in caught.value.message
        assert "sparkbuild lock" in (caught.value.hint or "")
    assert not visible(home.layers)


def test_finish_adds_to_the_tree_before_it_is_seen(wheels: Wheels, home: Home) -> None:
    def finish(tree: Path) -> None:
        assert not visible(home.layers)
        (tree / "site/added").write_text("new")

    layer = ensure_layer(wheels[0], wheels[1], home=home, emit=silent, finish=finish, salt="s")
    assert (layer.site / "added").read_text() == "new"


def test_a_finish_that_fails_leaves_unpacked_wheels_only(wheels: Wheels, home: Home) -> None:
    def finish(tree: Path) -> None:
        (tree / "site" / "no" / "such" / "folder").write_text("")

    with pytest.raises(StoreError):
        ensure_layer(wheels[0], wheels[1], home=home, emit=silent, finish=finish)
    assert list(home.layers.iterdir()) == []
    assert needs(wheels[0], home=home) == []


def test_the_record_names_the_wheels(wheels: Wheels, home: Home) -> None:
    record = msgspec.json.decode((ensure(wheels, home).path / "layer.json").read_bytes())
    assert {wheel["sha256"] for wheel in record["wheels"]} == set(wheels[1])


def test_no_wheels_make_an_empty_layer(home: Home) -> None:
    layer = ensure_layer([], {}, home=home, emit=silent)
    assert list(layer.site.iterdir()) == []


def test_progress_says_how_much(wheels: Wheels, home: Home) -> None:
    events: list[Event] = []
    ensure_layer(wheels[0], wheels[1], home=home, emit=events.append, label="torch")
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.step for event in progress] == ["torch"]
    assert "3 wheels" in progress[0].text


def test_a_wheel_that_nobody_brought(wheels: Wheels, home: Home) -> None:
    with pytest.raises(StoreError, match=r"pkg_1-1\.0"):
        ensure_layer(wheels[0], {wheels[0][0].sha256: wheels[1][wheels[0][0].sha256]}, home=home, emit=silent)


def test_a_damaged_wheel_leaves_the_others(wheels: Wheels, home: Home) -> None:
    files, paths = wheels
    bad = paths[files[1].sha256]
    data = bytearray(bad.read_bytes())
    data[44] ^= 0xFF
    bad.write_bytes(data)
    with pytest.raises(ArchiveRefusedError, match="damaged"):
        ensure(wheels, home)
    assert visible(home.layers) == []
    assert files[1] in needs(files, home=home)
    assert not (home.wheels / files[1].sha256).exists()


def test_two_wheels_of_one_path(tmp_path: Path, home: Home) -> None:
    a, path_a = wheelhouse.make_wheel(tmp_path, "aa", {"both/core.py": "1"})
    b, path_b = wheelhouse.make_wheel(tmp_path, "bb", {"both/core.py": "2"})
    with pytest.raises(LockError, match=r"aa 1\.0 and bb 1\.0 both own both/core\.py"):
        ensure_layer([b, a], {a.sha256: path_a, b.sha256: path_b}, home=home, emit=silent)
    assert list(home.layers.iterdir()) == []


def test_where_links_do_not_work_files_are_copied(wheels: Wheels, home: Home) -> None:
    other = Path("/dev/shm")  # noqa: S108 - wanted because it is another file system
    home.root.mkdir(parents=True)
    if not other.is_dir() or other.stat().st_dev == home.root.stat().st_dev:
        pytest.skip("no second file system to write to")
    folder = other / f"sparkbuild-test-{os.getpid()}"
    folder.mkdir()
    try:
        home.layers.symlink_to(folder)
        layer = ensure(wheels, home)
        copy = layer.site / "pkg1/m3.py"
        assert copy.read_text() == "1 3\n" * 50
        assert copy.stat().st_dev == other.stat().st_dev
        assert not copy.stat().st_mode & 0o222
    finally:
        remove_tree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 80 MiB and 60 inodes, where the user may mount one."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    place = tmp_path / "small"
    place.mkdir()
    if mount is None or umount is None:
        pytest.skip("no mount")
    options = ["-t", "tmpfs", "-o", "size=80m,nr_inodes=60", "none"]
    mounted = subprocess.run([mount, *options, str(place)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield place
    finally:
        subprocess.run([umount, str(place)], check=True)


def test_too_little_space_is_said_before_a_byte_is_written(tmp_path: Path, small_disk: Path) -> None:
    home = Home(small_disk)
    locked, path = wheelhouse.make_wheel(tmp_path, "big", {"big/data": bytes(50 << 20)})
    with pytest.raises(NoSpaceError, match=r"1 wheels needs 50\.0 MiB, \d+\.\d MiB are free") as caught:
        ensure_layer([locked], {locked.sha256: path}, home=home, emit=silent)
    assert caught.value.exit_code == 4
    assert "store gc" in str(caught.value.hint)
    assert not home.wheels.exists()


def test_a_disk_that_gets_full_leaves_nothing_half(tmp_path: Path, small_disk: Path) -> None:
    home = Home(small_disk)
    wheels = make_wheels(tmp_path, 1, 80)
    with pytest.raises(NoSpaceError):
        ensure(wheels, home)
    assert visible(home.wheels) == []
    assert visible(home.layers) == []


CHILD = """
import sys
from pathlib import Path
import msgspec
from orchestrator.build.layers import ensure_layer
from orchestrator.model.lock import LockedFile
from orchestrator.store.home import Home
files = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=list[LockedFile])
paths = {file.sha256: Path(sys.argv[3], file.file) for file in files}
print("ready", flush=True)
layer = ensure_layer(files, paths, home=Home(Path(sys.argv[1])), emit=lambda event: print(event, flush=True))
print(layer.key)
"""


def child(home: Home, wheels: Wheels, tmp_path: Path) -> subprocess.Popen[str]:
    listing = tmp_path / "files.json"
    listing.write_bytes(msgspec.json.encode(wheels[0]))
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home.root), str(listing), str(tmp_path / "dl")],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
    )


def test_two_at_once_make_one_layer(tmp_path: Path, home: Home) -> None:
    wheels = make_wheels(tmp_path, 4, 150)
    running = [child(home, wheels, tmp_path) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert {output.splitlines()[-1] for output in outputs} == {layer_key(wheels[0])}
    # Whoever came second found it done, or waited; nobody unpacked it again.
    assert sum("unpacking" in output for output in outputs) == 1
    assert [path.name for path in home.layers.iterdir()] == [layer_key(wheels[0])]


def test_kills_leave_temporaries_only(tmp_path: Path, home: Home) -> None:
    wheels = make_wheels(tmp_path, 6, 120)
    moments = random.Random(20261201)
    unfinished = 0
    for _ in range(12):
        process = child(home, wheels, tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.12))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        unfinished += process.returncode != 0
        for tree in visible(home.wheels):
            assert sum(1 for path in tree.rglob("*.py") if path.stat().st_size > 0) == 120
        for made in visible(home.layers):
            assert sum(1 for path in made.rglob("*.py") if path.stat().st_size > 0) == 6 * 120
    assert unfinished > 0, "no kill came in time: the test shows nothing"
    layer = ensure(wheels, home)
    assert sum(1 for _ in layer.site.rglob("*.py")) == 6 * 120
