"""gc takes what nobody uses, all of it, and nothing else."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from source_help import make_repository
from store_help import KEY, RUN, Heard, age, everything, put, start, stop, wait_ready

from orchestrator.errors import StoreError
from orchestrator.source.git import fetch_commit
from orchestrator.store import atomic
from orchestrator.store.gc import Collected, collect
from orchestrator.store.home import Home
from orchestrator.store.lease import Lease, leases_folder
from orchestrator.store.locks import guard
from orchestrator.store.scan import days
from orchestrator.store.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.artifacts import Store

MONTH = timedelta(days=30)
DAY = timedelta(days=1)
NOW = timedelta(0)
OTHER_RUN = "20260102-030405-678-0000"
LAYER, WHEEL, REJECTED, DOWNLOAD, YOUNG = ("1" * 64, "2" * 64, "3" * 64, "d" * 64, "4" * 64)


def kinds(result: Collected) -> list[tuple[str, str]]:
    return [(item.kind, item.name) for item in result.items]


def tree(path: Path, *, size: int = 1000, unused_days: float = 0.0, read_only: bool = False) -> Path:
    """Make a folder with one file deep inside."""
    (path / "site" / "pkg").mkdir(parents=True)
    (path / "site" / "pkg" / "file").write_bytes(bytes(size))
    if read_only:
        for folder in (path / "site" / "pkg", path / "site", path):
            folder.chmod(0o555)
    age(path, unused_days)
    return path


def test_an_empty_home_has_nothing_to_collect(home: Home) -> None:
    assert collect(home, unused_for=NOW) == Collected((), 0)
    assert not home.root.exists()


def test_only_what_lay_unused_for_so_long_goes(store: Store, home: Home, tmp_path: Path) -> None:
    artifact = put(store, tmp_path / "out")
    age(artifact.folder, days=31)
    for name, folder in (
        (LAYER, home.layers),
        (WHEEL, home.wheels),
        (DOWNLOAD, home.downloads),
        (REJECTED, home.rejected),
    ):
        tree(folder / name, unused_days=31)
        tree(folder / YOUNG, unused_days=29)
    put(store, tmp_path / "out", "cd" * 32)
    result = collect(home, unused_for=MONTH)
    assert sorted(kinds(result)) == [
        ("artifacts", KEY),
        ("downloads", DOWNLOAD),
        ("layers", LAYER),
        ("rejected", REJECTED),
        ("wheels", WHEEL),
    ]
    assert all("31 days" in item.why for item in result.items)
    assert result.bytes == sum(item.bytes for item in result.items)
    assert not artifact.folder.exists()
    assert (home.layers / YOUNG).exists()
    assert store.get("cd" * 32) is not None
    assert collect(home, unused_for=MONTH) == Collected((), 0)


def test_use_keeps_it(store: Store, home: Home, tmp_path: Path) -> None:
    age(put(store, tmp_path / "out").folder, days=100)
    assert store.get(KEY) is not None
    assert collect(home, unused_for=DAY) == Collected((), 0)
    layer = tree(home.layers / LAYER, unused_days=100)
    (layer / "used").touch()  # the other name of the stamp
    os.utime(layer, (0, 0))
    assert collect(home, unused_for=DAY) == Collected((), 0)


def test_repositories_that_nobody_fetched_from_for_long_go(home: Home, tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "upstream", {"x": "1"})
    url = str(tmp_path / "upstream")
    mirror = fetch_commit(url, commit, home=home)
    assert collect(home, unused_for=DAY) == Collected((), 0)
    age(mirror, days=31)
    assert fetch_commit(url, commit, home=home, offline=True) == mirror
    assert collect(home, unused_for=MONTH) == Collected((), 0), "used, without anything being fetched"
    age(mirror, days=31)
    with Lease(home) as lease:
        lease.use("git", [mirror.name])
        assert collect(home, unused_for=MONTH) == Collected((), 0)
    assert kinds(collect(home, unused_for=MONTH)) == [("git", mirror.name)]
    assert not mirror.exists()
    assert fetch_commit(url, commit, home=home) == mirror, "and is fetched again when it is wanted"


def test_a_dry_run_says_the_same_and_changes_nothing(store: Store, home: Home, tmp_path: Path) -> None:
    age(put(store, tmp_path / "out").folder, days=31)
    tree(home.work / RUN)
    tree(home.layers / LAYER, unused_days=31)
    before = everything(home.root)
    foretold = collect(home, unused_for=MONTH, dry_run=True)
    assert everything(home.root) == before
    assert collect(home, unused_for=MONTH) == foretold
    assert len(foretold.items) == 3


def test_a_live_lease_of_another_process_is_respected(store: Store, home: Home, tmp_path: Path) -> None:
    put(store, tmp_path / "out")
    put(store, tmp_path / "out", "cd" * 32)
    for folder in (home.layers, home.wheels, home.downloads):
        tree(folder / LAYER)
    tree(home.work / OTHER_RUN)
    tree(home.work / RUN)
    tree(home.logs / RUN, unused_days=99)
    names = [f"{kind}/{LAYER}" for kind in ("layers", "wheels", "downloads")]
    child = start("hold", home, RUN, f"artifacts/{KEY}", f"work/{OTHER_RUN}", *names)
    wait_ready(child)
    assert kinds(collect(home, unused_for=NOW)) == [("artifacts", "cd" * 32)]
    assert store.get(KEY) is not None
    stop(child)
    gone = collect(home, unused_for=NOW)
    assert sorted(kind for kind, _ in kinds(gone)) == [
        "artifacts", "downloads", "layers", "logs", "wheels", "work", "work",
    ]  # fmt: skip
    assert list((home.locks / "leases").iterdir()) == []


def test_build_trees_stay_for_three_days_so_that_a_build_can_go_on(home: Home) -> None:
    left, old = tree(home.work / KEY[:16], unused_days=2), tree(home.work / LAYER[:16], unused_days=4)
    strange = tree(home.work / "somebody", unused_days=99)
    assert kinds(collect(home, unused_for=MONTH)) == [("work", LAYER[:16])]
    assert left.exists()
    assert not old.exists()
    child = start("hold", home, RUN, f"work/{KEY[:16]}")
    wait_ready(child)
    assert kinds(collect(home, unused_for=NOW)) == []
    stop(child)
    assert kinds(collect(home, unused_for=NOW)) == [("work", KEY[:16])]
    assert strange.exists()


def test_an_unpacked_wheel_that_a_layer_holds_stays(home: Home) -> None:
    wheel = tree(home.wheels / WHEEL, size=5000)
    layer = home.layers / LAYER
    layer.mkdir(parents=True)
    (layer / "file").hardlink_to(wheel / "site" / "pkg" / "file")
    age(wheel, 31)
    assert collect(home, unused_for=MONTH) == Collected((), 0)
    age(layer, 31)
    foretold = collect(home, unused_for=MONTH, dry_run=True)
    assert kinds(foretold) == [("layers", LAYER), ("wheels", WHEEL)]
    assert foretold.bytes == 5000  # one file, linked twice
    assert collect(home, unused_for=MONTH) == foretold
    assert list(home.wheels.iterdir()) == []


def test_a_layer_whose_wheels_stay_frees_only_its_own(home: Home) -> None:
    wheel = tree(home.wheels / WHEEL, size=5000)
    layer = tree(home.layers / LAYER, size=70)
    (layer / "file").hardlink_to(wheel / "site" / "pkg" / "file")
    age(layer, 31)
    result = collect(home, unused_for=MONTH)
    assert kinds(result) == [("layers", LAYER)]
    assert (result.items[0].bytes, result.bytes) == (5070, 70)
    assert (wheel / "site" / "pkg" / "file").stat().st_size == 5000


def test_read_only_trees_go(home: Home) -> None:
    tree(home.layers / LAYER, unused_days=31, read_only=True)
    assert kinds(collect(home, unused_for=MONTH)) == [("layers", LAYER)]
    assert list(home.layers.iterdir()) == []
    assert list((home.root / "trash").iterdir()) == []


def test_what_a_stopped_gc_left_goes(home: Home) -> None:
    name = atomic.temporary_name(LAYER)
    tree(home.root / "trash" / name, read_only=True)
    result = collect(home, unused_for=MONTH)
    assert kinds(result) == [("trash", name)]
    assert result.bytes == 1000
    assert list((home.root / "trash").iterdir()) == []


def test_the_temporary_of_a_killed_put_goes_that_of_a_living_one_stays(home: Home) -> None:
    child = start("hold-temporary", home)
    wait_ready(child)
    later = time.time() + 3600
    assert collect(home, unused_for=NOW, now=later) == Collected((), 0)
    stop(child)
    assert collect(home, unused_for=NOW) == Collected((), 0)  # too young to be sure
    with Lease(home):  # of another run
        assert [item.kind for item in collect(home, unused_for=NOW, now=later).items] == ["temporary"]
    assert list(home.artifacts.iterdir()) == []


def test_temporaries_of_others_go_when_no_run_lives(home: Home) -> None:
    for name in (".pip-abcd_123", ".pip-00000000"):
        tree(home.downloads / name)
    tree(home.layers / ".tmp1234")  # of whom?
    later = time.time() + 120
    with Lease(home):
        assert collect(home, unused_for=MONTH, now=later) == Collected((), 0)
        next_day = collect(home, unused_for=MONTH, dry_run=True, now=later + 86400)
    assert [item.kind for item in next_day.items] == ["temporary"] * 2
    assert collect(home, unused_for=MONTH, now=later) == next_day
    assert (home.layers / ".tmp1234").exists()


def test_single_temporary_files_go_after_an_hour(store: Store, home: Home, tmp_path: Path) -> None:
    folder = put(store, tmp_path / "out").folder
    for place in (home.root, folder):
        (place / atomic.temporary_name("f.json")).write_bytes(b"123")
    assert collect(home, unused_for=MONTH, now=time.time() + 3000) == Collected((), 0)
    assert collect(home, unused_for=MONTH, now=time.time() + 3700).bytes == 6
    assert store.get(KEY) is not None


def test_old_logs_and_quarantine_go(home: Home) -> None:
    stamp = "20260102T030405Z.artifacts"
    for folder, old, young in (
        (home.logs, RUN, OTHER_RUN),
        (home.quarantine, f"{stamp}.{KEY}.0123ab", f"{stamp}.{LAYER}.0123ab"),
    ):
        tree(folder / old, unused_days=31)
        tree(folder / young, unused_days=29)
    why = home.quarantine / f"{stamp}.{KEY}.0123ab.why"
    why.write_text("x")
    age(why, 31)
    assert sorted(kinds(collect(home, unused_for=NOW))) == [
        ("logs", RUN),
        ("quarantine", f"{stamp}.{KEY}.0123ab"),
        ("quarantine", why.name),
    ]


def test_files_that_are_not_ours_stay(home: Home) -> None:
    home.artifacts.mkdir(parents=True)
    (home.artifacts / "README").write_bytes(b"")
    age(home.artifacts / "README", 999)
    assert collect(home, unused_for=NOW) == Collected((), 0)


def test_links_out_are_not_followed(home: Home, tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", size=9)
    layer = tree(home.layers / LAYER, size=10)
    (layer / "link").symlink_to(outside)
    assert collect(home, unused_for=NOW).bytes < 1000
    assert (outside / "site" / "pkg" / "file").exists()


def test_an_unwritable_home_is_told_and_a_dry_run_works(unwritable: Path) -> None:
    home = Home(unwritable)
    assert collect(home, unused_for=NOW, dry_run=True) == Collected((), 0)
    with pytest.raises(StoreError):
        collect(home, unused_for=NOW)


def test_what_was_used_or_leased_since_it_was_chosen_stays(home: Home) -> None:
    used, leased, idle = (digit * 64 for digit in "123")
    for name in (used, leased, idle):
        tree(home.layers / name, unused_days=31)
    result: list[Collected] = []
    thread = threading.Thread(target=lambda: result.append(collect(home, unused_for=MONTH)))
    with Lease(home, RUN) as lease:
        with guard(home):  # gc has chosen, and waits to remove
            thread.start()
            thread.join(0.3)
            assert thread.is_alive()
            (home.layers / used / ".used").touch()
            # What `use` writes; it would wait for us, as it must for gc.
            (leases_folder(home) / lease.run).write_text(f"layers/{leased}\n")
        thread.join()
    assert [kinds(one) for one in result] == [[("layers", idle)]]


def test_gc_against_runs_that_take_leases(home: Home) -> None:
    keys = [KEY, "cd" * 32]
    child = start("borrow", home, "2", *keys)
    wait_ready(child)
    taken = 0
    heard = Heard()
    while child.poll() is None:
        taken += len(collect(home, unused_for=NOW, emit=heard).items)
    said, _ = child.communicate()
    assert "lost" not in said
    assert int(said.split()[-1]) > 10
    assert taken > 0
    assert heard.notes("warning") == []
    assert verify(home).bad == ()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 minutes"),
        (-5, "0 minutes"),
        (60, "1 minute"),
        (7200, "2 hours"),
        (86400, "1 day"),
        (31 * 86400, "31 days"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert days(seconds) == text
