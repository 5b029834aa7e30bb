"""A process that works on a store until it is killed, or until its task is done."""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from store_help import Heard, content, draft, write_wheel

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.store.artifacts import Store
from orchestrator.store.atomic import remove_tree, temporary_dir, write_bytes
from orchestrator.store.facts import Facts
from orchestrator.store.gc import collect
from orchestrator.store.home import Home
from orchestrator.store.lease import Lease
from orchestrator.store.listing import entries
from orchestrator.store.manifest import Audit
from orchestrator.store.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable


def say(text: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def churn(home: Home, seed: str, *keys: str) -> None:
    """Do everything that a store can, for ever."""
    dice = random.Random(seed)
    store = Store(home)
    with tempfile.TemporaryDirectory(dir=home.root.parent) as folder:
        say("ready")
        for turn in itertools.count():
            key = dice.choice(keys)
            one = dice.randrange(8)
            if one <= 2:
                store.put(key, [write_wheel(Path(folder), key)], draft(), move=bool(turn % 2))
            elif one == 3:
                store.demote(key)
            elif one == 4:
                store.promote(key)
            elif one == 5:
                store.update_audit(key, Audit(key="k", verdict="pass", coverage=f"turn {turn}"))
            elif one == 6:
                collect(home, unused_for=timedelta(0))
            elif verify(home).bad:
                say("bad")
            artifact = store.get(key)
            if artifact is not None and artifact.manifest.files[0].size != len(content(key)):
                say("bad")


def build(home: Home, key: str, journal: str, seconds: str) -> None:
    """Build one key as a run does."""
    heard = Heard()
    store = Store(home, heard)
    say("ready")
    with store.lock(key, "x") as waited, tempfile.TemporaryDirectory(dir=home.root.parent) as folder:
        artifact = store.get(key)
        if artifact is None:
            with Path(journal).open("a", encoding="utf-8") as stream:
                stream.write("built\n")
            time.sleep(float(seconds))
            artifact = store.put(key, [write_wheel(Path(folder), key)], draft())
    say(f"{waited} {artifact.manifest.files[0].sha256} {heard.notes('info')}")


def hold(home: Home, run: str, *names: str) -> None:
    """Hold a lease until killed."""
    with Lease(home, run) as lease:
        for name in names:
            kind, _, rest = name.partition("/")
            lease.use(kind, [rest])  # type: ignore[arg-type] # the test names real kinds
        say("ready")
        time.sleep(60)


def hold_temporary(home: Home) -> None:
    """Stay in the middle of a put until killed."""
    with temporary_dir(home.artifacts, "k"):
        say("ready")
        time.sleep(60)


def borrow(home: Home, seconds: str, *keys: str) -> None:
    """Lease, look, use, let go, as runs do; says how often a thing was there, and `lost` if one vanished."""
    store = Store(home)
    end = time.monotonic() + float(seconds)
    seen = 0
    say("ready")
    with tempfile.TemporaryDirectory(dir=home.root.parent) as folder:
        while time.monotonic() < end:
            with Lease(home) as lease:
                lease.use("artifacts", keys)
                for key in keys:
                    if store.get(key) is None:
                        store.put(key, [write_wheel(Path(folder), key)], draft())
                time.sleep(0.01)
                for key in keys:
                    artifact = store.get(key)
                    if artifact is None or store.verified(artifact) is None:
                        say("lost")
                    seen += 1
    say(f"seen {seen}")


def remember(home: Home, *files: str) -> None:
    """Write facts again and again."""
    say("ready")
    for turn in range(40):
        for file in files:
            Facts(home.facts).get_or(Path(file), f"kind{turn}", lambda path: path.name)
    say("done")


def fill(home: Home, limit: str) -> None:
    """Write more than the limit on file sizes allows."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        write_bytes(home.root / "big", bytes(int(limit) + 1))
    except (StoreError, NoSpaceError) as error:
        say(f"{type(error).__name__}: {error}")


def alternate(home: Home, path: str) -> None:
    """Write one file again and again."""
    del home
    for turn in itertools.count():
        write_bytes(Path(path), b"ab"[turn % 2 : turn % 2 + 1] * 500_000, durable=False)
        if turn == 0:
            say("ready")


def remove(home: Home, path: str) -> None:
    """Remove a tree."""
    del home
    say("ready")
    remove_tree(Path(path))


def look(home: Home, key: str) -> None:
    """Do with a store what a person does; says what each gives."""
    say("ready")
    acts: dict[str, Callable[[], object]] = {
        "gc": lambda: len(collect(home, unused_for=timedelta(days=1)).items),
        "list": lambda: len(list(entries(home))),
        "verify": lambda: len(verify(home).bad),
        "get": lambda: Store(home).get(key),
    }
    for name, act in acts.items():
        try:
            said = str(act())
        except StoreError as error:
            said = f"StoreError: {error.message}"
        say(f"{name} {said}")


ACTIONS: dict[str, Callable[..., None]] = {
    "churn": churn,
    "build": build,
    "hold": hold,
    "hold-temporary": hold_temporary,
    "borrow": borrow,
    "remember": remember,
    "fill": fill,
    "alternate": alternate,
    "remove": remove,
    "look": look,
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](Home(Path(sys.argv[2])), *sys.argv[3:])
