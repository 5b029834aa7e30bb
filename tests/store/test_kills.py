"""SIGKILL at any moment leaves a store that verifies clean and serves right bytes or nothing."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from store_help import Heard, content, put, start, wait_ready

from orchestrator.store.artifacts import Store
from orchestrator.store.gc import collect
from orchestrator.store.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home

KEYS = ["a" * 64, "b" * 64, "c" * 64]
KILLS = 32


def test_kills_at_random_moments(home: Home, tmp_path: Path) -> None:
    dice = random.Random(2026)
    heard = Heard()
    store = Store(home, heard)
    for turn in range(KILLS):
        child = start("churn", home, str(turn), *KEYS)
        wait_ready(child)
        time.sleep(dice.uniform(0, 0.12))
        child.kill()
        said, _ = child.communicate()
        assert said == ""
        for key in KEYS:
            for found in (store.get(key), store.get_rejected(key)):
                assert found is None or found.paths[0].read_bytes() == content(key)
    result = verify(home)
    assert result.bad == ()
    assert heard.notes("warning") == []
    assert not home.quarantine.exists()
    for key in KEYS:
        artifact = put(store, tmp_path / "out", key)
        assert store.verified(artifact) == artifact.paths
    collect(home, unused_for=timedelta(days=1), now=time.time() + 7200)
    left = [path for path in home.root.rglob("*") if ".tmp-" in path.name]
    assert left == []
    assert not any((home.root / "trash").iterdir())
