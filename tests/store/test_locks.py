"""Two runs on one key: one builds, the other waits and reuses, whatever happens to the first."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING

import pytest
from store_help import KEY, Heard, content, start, stop, wait_ready

from orchestrator.errors import StoreError
from orchestrator.store.home import Home
from orchestrator.store.locks import guard, key_lock

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.artifacts import Store

DIGEST = hashlib.sha256(content(KEY)).hexdigest()


def test_one_builds_and_the_other_waits(home: Home, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    children = [start("build", home, KEY, str(journal), "0.6") for _ in range(2)]
    said = sorted(child.communicate(timeout=30)[0] for child in children)
    assert journal.read_text() == "built\n"
    assert said == [
        f"ready\nFalse {DIGEST} []\n",
        f"ready\nTrue {DIGEST} ['another run is building x, waiting']\n",
    ]


def test_a_killed_builder_holds_nothing(store: Store, home: Home, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first = start("build", home, KEY, str(journal), "60")
    wait_ready(first)
    while not journal.exists():
        pass
    second = start("build", home, KEY, str(journal), "0")
    wait_ready(second)
    stop(first)
    said, _ = second.communicate(timeout=30)
    assert DIGEST in said
    assert journal.read_text() == "built\nbuilt\n"
    assert store.get(KEY) is not None


def test_threads_exclude_each_other(store: Store) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with store.lock(KEY), guard(store.home):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)


def test_different_keys_do_not_wait(home: Home) -> None:
    heard = Heard()
    with key_lock(home, "a", emit=heard) as first, key_lock(home, "b", emit=heard) as second:
        assert (first, second) == (False, False)
    assert heard.events == []


def test_an_error_inside_frees_the_lock(home: Home) -> None:
    with pytest.raises(ValueError, match="mine"), key_lock(home, KEY):
        raise ValueError("mine")
    with pytest.raises(OSError, match="mine"), guard(home):
        raise OSError("mine")  # not turned into an error about the lock
    with key_lock(home, KEY) as waited, guard(home):
        assert waited is False


def test_a_place_without_room_for_locks(unwritable: Path) -> None:
    with pytest.raises(StoreError), key_lock(Home(unwritable), KEY):
        pass
    with pytest.raises(StoreError), guard(Home(unwritable)):
        pass
