"""Layers: locked wheels, each unpacked once, merged into read-only trees that environments share.

`wheels/<sha256>/` is one unpacked wheel, `layers/<key>/` a merged tree of hard links with `site`,
`scripts` and `data`. Both appear by a rename, so they are whole or not there.
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from orchestrator.build.merge import BUCKETS, merge
from orchestrator.build.unpack import BLOCK, Inventory, make_read_only, read_inventory, unpack_wheel
from orchestrator.errors import LockError, NoSpaceError, StoreError
from orchestrator.model.lockchecks import is_sha256
from orchestrator.report.events import Note, Progress
from orchestrator.report.units import show_bytes
from orchestrator.store.atomic import disk_errors, free_bytes, place_dir, temporary_dir
from orchestrator.store.locks import key_lock
from orchestrator.store.stamps import mark_used

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home

LAYOUT = 1
"""Raised by hand when trees are laid out in another way: former ones are then made anew."""

RECORD = "layer.json"
_SPARE = 64 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """A merged tree that nobody writes to."""

    path: Path
    key: str

    @property
    def site(self) -> Path:
        """What goes onto `sys.path`."""
        return self.path / "site"

    @property
    def scripts(self) -> Path:
        """Files for `bin`, as the wheels hold them."""
        return self.path / "scripts"

    @property
    def data(self) -> Path:
        """Files that wheels put below the environment's prefix."""
        return self.path / "data"


def layer_key(files: Sequence[LockedFile], *, salt: str = "") -> str:
    """Return the name of a layer: a hash of its wheels, of `salt`, and of `LAYOUT`.

    Raises:
        LockError: a sha256 that is none. It names a folder, and so must not be a path to another.
    """
    for file in files:
        if not is_sha256(file.sha256):
            raise LockError(
                f"sha256 of {file.file!r}: found {file.sha256[:80]!r}, expected 64 lower-case hex digits",
                hint="make the lock anew with `sparkbuild lock`",
            )
    lines = [f"layout {LAYOUT}", f"salt {salt}", *sorted({file.sha256 for file in files})]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def find_layer(files: Sequence[LockedFile], *, home: Home, salt: str = "") -> Layer | None:
    """Return the layer when it is there, and note that it was used."""
    key = layer_key(files, salt=salt)
    path = home.layers / key
    if not (path / RECORD).is_file():
        return None
    mark_used(path)
    return Layer(path, key)


def needs(files: Sequence[LockedFile], *, home: Home, salt: str = "") -> list[LockedFile]:
    """Return the files that must be downloaded before `ensure_layer`, each once; LockError as `layer_key`."""
    if (home.layers / layer_key(files, salt=salt) / RECORD).is_file():
        return []
    return [file for file in _unique(files) if not (home.wheels / file.sha256).is_dir()]


def ensure_layer(
    files: Sequence[LockedFile],
    paths: Mapping[str, Path],
    *,
    home: Home,
    emit: Emit,
    finish: Callable[[Path], None] | None = None,
    salt: str = "",
    label: str = "layer",
) -> Layer:
    """Return the layer of these wheels, making what is missing of it.

    Args:
        files: the wheels, as locked.
        paths: sha256 -> downloaded and verified wheel, at least for `needs(files)`. The caller may
            delete them afterwards.
        home: where it goes.
        emit: told of long work and of waiting.
        finish: called with the merged tree before it is made read-only; may add to it, but changes no
            file in place, since files are shared with other layers.
        salt: names what `finish` does, and changes when that does.
        label: the step that events name.

    Raises:
        LockError: two wheels own the same path with different bytes, or a sha256 is none.
        ArchiveRefusedError: a wheel is damaged or not one.
        NoSpaceError: the disk is, or would get, full; says how much is needed.
        StoreError: the file system refused otherwise, or a wheel was not handed over.
    """
    if found := find_layer(files, home=home, salt=salt):
        return found
    key = layer_key(files, salt=salt)
    wheels = sorted(_unique(files))
    with key_lock(home, f"layer-{key[:32]}", what=f"the layer {label}", emit=emit):
        if found := find_layer(files, home=home, salt=salt):
            return found
        _unpack_missing(wheels, paths, home=home, emit=emit, label=label)
        destination = home.layers / key
        with disk_errors(destination), temporary_dir(home.layers, key[:16]) as tree:
            for bucket in BUCKETS:
                (tree / bucket).mkdir()
            merged = merge([(f"{w.name} {w.version}", home.wheels / w.sha256) for w in wheels], tree)
            if merged.stray:
                emit(Note("info", f"kept the first of several: {', '.join(merged.stray)}", label))
            if finish is not None:
                finish(tree)
            make_read_only(tree)
            record = {"schema": "sparkbuild.layer/1", "salt": salt, "wheels": wheels}
            (tree / RECORD).write_bytes(msgspec.json.encode(record))
            place_dir(tree, destination)
        for wheel in wheels:
            mark_used(home.wheels / wheel.sha256)
        mark_used(destination)
    return Layer(destination, key)


def _unique(files: Sequence[LockedFile]) -> list[LockedFile]:
    return list({file.sha256: file for file in files}.values())


def _unpack_missing(
    wheels: Sequence[LockedFile], paths: Mapping[str, Path], *, home: Home, emit: Emit, label: str
) -> None:
    missing = [wheel for wheel in wheels if not (home.wheels / wheel.sha256).is_dir()]
    if not missing:
        return
    unfetched = [wheel.file for wheel in missing if wheel.sha256 not in paths]
    if unfetched:
        raise StoreError(
            f"not unpacked and not downloaded: {', '.join(unfetched)}",
            where=str(home.wheels),
            hint="run again; another run's `store gc` may have taken them",
        )
    inventories = {wheel.sha256: read_inventory(paths[wheel.sha256]) for wheel in missing}
    wanted = sum(inventory.disk_bytes for inventory in inventories.values())
    _check_space(wanted, len(missing), home)
    emit(Progress(label, f"unpacking {len(missing)} wheels, {show_bytes(wanted)}"))
    stop = threading.Event()

    def work(item: tuple[str, Inventory]) -> None:
        sha256, inventory = item
        # Other layers may want the same wheel at this moment.
        with key_lock(home, f"wheel-{sha256[:32]}", what=inventory.wheel.name, emit=emit):
            if not (home.wheels / sha256).is_dir():
                unpack_wheel(inventory, home.wheels / sha256, stop)

    largest_first = sorted(inventories.items(), key=lambda item: -item[1].disk_bytes)
    pool = ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1), thread_name_prefix="unpack")
    try:
        for _ in pool.map(work, largest_first):
            pass
    finally:
        # After an error or Ctrl-C the others stop at their next chunk.
        stop.set()
        pool.shutdown(cancel_futures=True)


def _check_space(wanted: int, count: int, home: Home) -> None:
    free = free_bytes(home.wheels)
    if free is not None and free < wanted + _SPARE:
        short = show_bytes(max(BLOCK, wanted + _SPARE - free))
        raise NoSpaceError(
            f"unpacking {count} wheels needs {show_bytes(wanted)}, {show_bytes(free)} are free",
            where=str(home.wheels),
            hint=f"free {short} (`sparkbuild store gc`), or let SPARKBUILD_HOME name a larger disk",
        )
