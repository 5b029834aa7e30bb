"""All kinds of sources through one door; one real sdist."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from source_help import DiskIndex, locked, make_repository, tree_of

from orchestrator.errors import LockError, MismatchError, OfflineError, RecipeError, SourceError, UsageError
from orchestrator.model.lock import LockedFile, LockedSource
from orchestrator.model.recipe import Source
from orchestrator.source.fetch import fetch_source
from orchestrator.source.local import tree_digest
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


def sdist(folder: Path) -> Path:
    """Write demo-1.0.tar.gz, with one file."""
    folder.mkdir()
    (folder / "setup.py").write_text("pass\n")
    path = folder / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / "setup.py", "demo-1.0/setup.py")
    return path


def test_an_sdist(home: Home, disk_index: DiskIndex, tmp_path: Path) -> None:
    path = sdist(tmp_path / "s")
    disk_index.list("demo", path)
    lock = LockedSource(file=locked(path))
    fetched = fetch_source(name="main", source=Source(sdist="demo"), locked=lock, version="1.0", home=home)
    assert (fetched.name, fetched.digest) == ("main", locked(path).sha256)
    fetched.lay(tmp_path / "one")
    fetched.lay(tmp_path / "two")
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "two") == {"setup.py": "pass\n"}
    with pytest.raises(SourceError, match="exists already"):
        fetched.lay(tmp_path / "two")


def test_an_archive_at_an_address_with_the_version_in_it(
    home: Home, disk_index: DiskIndex, tmp_path: Path
) -> None:
    del disk_index
    path = sdist(tmp_path / "s")
    source = Source(archive=path.as_uri().replace("1.0", "{version}"))
    lock = LockedSource(file=locked(path))
    fetched = fetch_source(name="extra", source=source, locked=lock, version="1.0", home=home)
    fetched.lay(tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"setup.py": "pass\n"}
    path.write_bytes(path.read_bytes()[:-1])
    again = LockedSource(file=LockedFile(name="x", version="1.0", file="x", sha256="0" * 64, size=1))
    with pytest.raises(MismatchError, match="expected sha256 0000"):
        fetch_source(name="extra", source=source, locked=again, version="1.0", home=home)


def test_a_git_source(home: Home, tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "r", {"x": "1"})
    source = Source(git=str(tmp_path / "r"))
    fetched = fetch_source(
        name="main", source=source, locked=LockedSource(commit=commit), version="1", home=home
    )
    fetched.lay(tmp_path / "dest")
    assert (fetched.digest, tree_of(tmp_path / "dest")) == (commit, {"x": "1"})


def test_a_local_folder_needs_no_lock(home: Home, tmp_path: Path) -> None:
    sdist(tmp_path / "s")
    fetched = fetch_source(
        name="main", source=Source(local="s"), locked=None, version="1", home=home, base=tmp_path
    )
    assert fetched.digest == tree_digest(tmp_path / "s")
    fetched.lay(tmp_path / "dest")
    assert sorted(path.name for path in (tmp_path / "dest").iterdir()) == ["demo-1.0.tar.gz", "setup.py"]
    (tmp_path / "s/setup.py").write_text("changed")
    with pytest.raises(SourceError, match="changed"):
        fetched.lay(tmp_path / "again")


def test_a_local_folder_that_holds_the_state_folder(tmp_path: Path) -> None:
    sdist(tmp_path / "s")
    home = Home(tmp_path / "s" / "home")
    home.claim()
    with pytest.raises(UsageError, match="holds the state folder"):
        fetch_source(
            name="main", source=Source(local="s"), locked=None, version="1", home=home, base=tmp_path
        )


@pytest.mark.parametrize(
    ("source", "lock", "error", "match"),
    [
        (Source(sdist="demo"), None, LockError, "nothing for source main"),
        (Source(sdist="demo"), LockedSource(), LockError, "no file for source main"),
        (Source(git="https://host.example/x"), LockedSource(), LockError, "no commit"),
        (Source(), LockedSource(), RecipeError, "no kind"),
    ],
)
def test_what_is_missing(
    home: Home, source: Source, lock: LockedSource | None, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        fetch_source(name="main", source=source, locked=lock, version="1", home=home)


@pytest.mark.network
def test_the_sdist_of_causal_conv1d(home: Home, tmp_path: Path) -> None:
    file = LockedFile(
        name="causal-conv1d",
        version="1.7.0",
        file="causal_conv1d-1.7.0.tar.gz",
        sha256="3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b",
        size=30328,
    )
    source, lock = Source(sdist="causal-conv1d"), LockedSource(file=file)
    with pytest.raises(OfflineError, match=file.file):
        fetch_source(name="main", source=source, locked=lock, version="1.7.0", home=home, offline=True)
    fetched = fetch_source(name="main", source=source, locked=lock, version="1.7.0", home=home)
    fetched.lay(tmp_path / "dest")
    assert "arch=compute_75" in (tmp_path / "dest" / "setup.py").read_text()
