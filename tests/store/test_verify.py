"""verify reads every byte that is stored, and moves what is wrong."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from store_help import KEY, Heard, content, draft, everything, put, write_wheel

from orchestrator.store.verify import Verified, verify

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.artifacts import Store
    from orchestrator.store.home import Home

OTHER = "cd" * 32


def download(home: Home, data: bytes = b"sdist", name: str = "x-1.0.tar.gz") -> Path:
    path = home.downloads / hashlib.sha256(data).hexdigest() / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def tamper(path: Path) -> None:
    """Flip a bit, and restore what stat tells of the file."""
    seen = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def test_nothing_is_clean(home: Home) -> None:
    assert verify(home) == Verified(0, (), 0)
    assert not home.root.exists()


def test_a_clean_store(store: Store, home: Home, tmp_path: Path) -> None:
    put(store, tmp_path / "out")
    store.reject(OTHER, [write_wheel(tmp_path / "out")], draft())
    download(home)
    before = everything(home.root)
    assert verify(home) == Verified(3, (), 2 * len(content(KEY)) + 5)
    assert everything(home.root) == before


def test_every_wrong_byte_is_found_and_moved(store: Store, home: Home, tmp_path: Path) -> None:
    tamper(put(store, tmp_path / "out").paths[0])
    tamper(store.reject(OTHER, [write_wheel(tmp_path / "out")], draft()).folder / "manifest.json")
    tamper(download(home))
    good = download(home, b"good")
    kept = verify(home, keep=True)
    assert [(bad.kind, bad.moved_to) for bad in kept.bad] == [
        ("artifacts", None),
        ("rejected", None),
        ("downloads", None),
    ]
    result = verify(home)
    assert [(bad.kind, bad.name, bad.problem) for bad in result.bad] == [
        (bad.kind, bad.name, bad.problem) for bad in kept.bad
    ]
    assert result.ok == 1
    for bad in result.bad:
        assert bad.moved_to is not None
        assert bad.moved_to.exists()
        assert bad.problem in bad.moved_to.with_name(f"{bad.moved_to.name}.why").read_text()
    assert store.get(KEY) is None
    assert good.exists()
    assert verify(home) == Verified(1, (), 4)


def test_what_is_not_finished_or_not_ours_is_left(home: Home) -> None:
    (home.downloads / ("0" * 64)).mkdir(parents=True)  # a download that a kill stopped before its file came
    (home.downloads / ".pip-x").mkdir()
    (home.downloads / "notes").mkdir()
    (home.downloads / "file").write_bytes(b"")
    (download(home).parent / ".used").touch()
    heard = Heard()
    assert verify(home, heard) == Verified(1, (), 5)
    assert len(heard.notes("info")) == 2


def test_a_download_that_is_no_file(home: Home) -> None:
    path = download(home)
    path.unlink()
    path.mkdir()
    assert [bad.kind for bad in verify(home).bad] == ["downloads"]
