"""A lease lives as long as its process, whatever ends it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from store_help import KEY, RUN, start, stop, wait_ready

from orchestrator.errors import StoreError
from orchestrator.store.home import Home
from orchestrator.store.lease import Lease, leases_folder, new_run, read_leases
from orchestrator.store.locks import guard

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lease_names_what_it_uses_until_it_ends(home: Home) -> None:
    with Lease(home, "run1") as lease:
        lease.use("artifacts", [KEY, "other"])
        lease.use("layers", ["l"])
        leased = read_leases(home, clean=True)
        assert leased.runs == {"run1"}
        for kind, name in (
            ("artifacts", KEY),
            ("artifacts", "other"),
            ("rejected", KEY),
            ("layers", "l"),
            ("work", "run1"),
            ("logs", "run1"),
        ):
            assert leased.covers(kind, name)
        for kind, name in (("layers", KEY), ("artifacts", "run1"), ("work", "run2"), ("artifacts", KEY[:-1])):
            assert not leased.covers(kind, name)
    assert read_leases(home, clean=False).runs == frozenset()
    assert list(leases_folder(home).iterdir()) == []
    lease.release()
    with pytest.raises(StoreError, match="ended"):
        lease.use("layers", ["m"])


def test_using_again_writes_nothing(home: Home) -> None:
    with Lease(home, "run1") as lease:
        lease.use("layers", ["a", "b", "a"])
        before = (leases_folder(home) / "run1").read_text()
        lease.use("layers", ["b"])
        lease.use("layers", [])
        assert (leases_folder(home) / "run1").read_text() == before == "layers/a\nlayers/b\n"


def test_another_process_sees_it_and_its_death(home: Home) -> None:
    child = start("hold", home, RUN, f"artifacts/{KEY}", "wheels/w")
    wait_ready(child)
    assert read_leases(home, clean=True).covers("wheels", "w")
    with pytest.raises(StoreError, match=f"{RUN} is going on"):
        Lease(home, RUN)
    stop(child)
    assert (leases_folder(home) / RUN).exists()
    assert not read_leases(home, clean=False).covers("wheels", "w")
    assert (leases_folder(home) / RUN).exists()
    read_leases(home, clean=True)
    assert not (leases_folder(home) / RUN).exists()


def test_files_that_are_no_leases_are_neither_removed_nor_in_the_way(home: Home) -> None:
    folder = leases_folder(home)
    (folder / "album").mkdir(parents=True)
    (folder / "photo.jpg").write_bytes(b"jpg")
    os.mkfifo(folder / "pipe")
    (folder / RUN).write_text("layers/l\n")
    leased = read_leases(home, clean=True)
    assert leased.runs == frozenset()
    assert sorted(path.name for path in folder.iterdir()) == ["album", "photo.jpg", "pipe"]


def test_a_dead_runs_name_can_be_taken_without_what_it_used(home: Home) -> None:
    child = start("hold", home, "run1", "wheels/w")
    wait_ready(child)
    stop(child)
    with Lease(home, "run1"):
        leased = read_leases(home, clean=True)
        assert leased.runs == {"run1"}
        assert not leased.covers("wheels", "w")


def test_a_child_does_not_inherit_it(home: Home) -> None:
    with Lease(home, "run1") as lease:
        assert lease._stream is not None
        assert not os.get_inheritable(lease._stream.fileno())


def test_names_of_runs(home: Home) -> None:
    assert new_run() != new_run()
    with Lease(home) as one, Lease(home) as two:
        assert read_leases(home, clean=False).runs == {one.run, two.run}


def test_no_home_no_leases(home: Home, unwritable: Path) -> None:
    assert read_leases(home, clean=True).runs == frozenset()
    with pytest.raises(StoreError):
        Lease(Home(unwritable))


def test_leases_wait_for_a_gc_that_removes(home: Home) -> None:
    steps: list[str] = []

    def take() -> None:
        with Lease(home, "run1") as lease:
            steps.append("taken")
            with_lease.wait()
            lease.use("layers", ["l"])
            steps.append("used")

    with_lease = threading.Event()
    thread = threading.Thread(target=take)
    with guard(home):
        thread.start()
        thread.join(0.2)
        assert steps == []
    while not steps:
        time.sleep(0.01)
    with guard(home):
        with_lease.set()
        thread.join(0.2)
        assert steps == ["taken"]
    thread.join()
    assert steps == ["taken", "used"]
