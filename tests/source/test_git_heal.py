"""Damaged mirrors of real repositories: moved away and fetched once more, or told with a next step."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from source_help import make_repository, run_git, tree_of

from orchestrator.errors import OfflineError, SourceError
from orchestrator.model.lock import LockedSource
from orchestrator.model.recipe import Source
from orchestrator.report.events import Event, Note
from orchestrator.source.fetch import FetchedSource, fetch_source
from orchestrator.source.git import mirror_of
from orchestrator.source.git_heal import tells_damage
from orchestrator.source.git_tree import discover_submodules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.store.home import Home


class Fetcher:
    """A repository with a submodule, fetched into a home."""

    def __init__(self, root: Path, home: Home) -> None:
        self.home = home
        self.root = root
        self.inner = make_repository(root / "inner", {"deep.txt": "deep"})
        make_repository(root / "main", {"main.txt": "main"})
        run_git(root / "main", "submodule", "add", "-q", "../inner", "in")
        run_git(root / "main", "commit", "-q", "-m", "x")
        self.commit = run_git(root / "main", "rev-parse", "HEAD")
        self.url = (root / "main").as_uri()
        self.heard: list[Event] = []

    def fetch(self, *, offline: bool = False, submodules: bool = True) -> FetchedSource:
        return fetch_source(
            name="main",
            source=Source(git=self.url, submodules=submodules),
            locked=LockedSource(commit=self.commit, submodules={"in": self.inner}),
            version="1",
            home=self.home,
            offline=offline,
            emit=self.heard.append,
        )

    @property
    def mirrors(self) -> list[Path]:
        return [mirror_of(url, self.home) for url in (self.url, (self.root / "inner").as_uri())]

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.heard if isinstance(event, Note) and event.level == "warning"]

    @property
    def quarantined(self) -> int:
        return len([path for path in self.home.quarantine.glob("*") if path.suffix != ".why"])


@pytest.fixture
def fetcher(home: Home, tmp_path: Path) -> Fetcher:
    return Fetcher(tmp_path, home)


def no_head(mirror: Path) -> None:
    (mirror / "HEAD").write_text("")


def rubbish_for_head(mirror: Path) -> None:
    (mirror / "HEAD").write_bytes(b"\xff" * 50)


def lost_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def bad_config(mirror: Path) -> None:
    (mirror / "config").write_text("[core\n")


def a_file(mirror: Path) -> None:
    shutil.rmtree(mirror)
    mirror.write_text("x")


def a_link_to_nowhere(mirror: Path) -> None:
    shutil.rmtree(mirror)
    mirror.symlink_to(mirror.parent / "nowhere")


def no_objects(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects")


def no_packs(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects" / "pack")


def rubbish_for_packs(mirror: Path) -> None:
    for pack in mirror.glob("objects/pack/*.pack"):
        pack.chmod(0o644)
        pack.write_bytes(b"rubbish" * 20)


def flipped_bytes(mirror: Path) -> None:
    for pack in mirror.glob("objects/pack/*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[14:-20] = bytes(byte ^ 0xFF for byte in data[14:-20])
        pack.write_bytes(data)


def one_blob_gone(mirror: Path) -> None:
    """Unpack all objects, then lose a file's."""
    packs = [pack.rename(mirror / pack.name) for pack in mirror.glob("objects/pack/*.pack")]
    shutil.rmtree(mirror / "objects" / "pack")
    for pack in packs:
        run_git(mirror, "-c", f"alias.u=!git unpack-objects -q < '{pack}'", "u")
    (commit,) = [path.name for path in (mirror / "refs/sparkbuild").iterdir()]
    listed = run_git(mirror, "ls-tree", "-r", commit).splitlines()
    blob = next(line.split()[2] for line in listed if line.endswith(".txt"))
    (mirror / "objects" / blob[:2] / blob[2:]).unlink()


DAMAGES = [
    *(no_head, rubbish_for_head, lost_head, bad_config, a_file, a_link_to_nowhere, no_objects, no_packs),
    *(rubbish_for_packs, flipped_bytes, one_blob_gone),
]


@pytest.mark.parametrize(
    ("damage", "which"), [*((damage, 0) for damage in DAMAGES), (no_head, 1), (one_blob_gone, 1)]
)
def test_a_damaged_mirror_is_fetched_anew(
    fetcher: Fetcher, tmp_path: Path, damage: Callable[[Path], None], which: int
) -> None:
    fetcher.fetch()
    damage(fetcher.mirrors[which])
    fetcher.fetch().lay(tmp_path / "to" / "dest")
    found = tree_of(tmp_path / "to" / "dest")
    assert (found["main.txt"], found["in/deep.txt"]) == ("main", "deep")
    assert len(fetcher.warnings) == fetcher.quarantined == 1
    assert str(fetcher.mirrors[which]) in fetcher.warnings[0]
    fetcher.fetch(offline=True).lay(tmp_path / "to" / "again")
    assert len(fetcher.warnings) == 1


def test_both_are_healed_when_a_build_finds_out(fetcher: Fetcher, tmp_path: Path) -> None:
    fetched = fetcher.fetch()
    for mirror in fetcher.mirrors:
        one_blob_gone(mirror)
    fetched.lay(tmp_path / "dest")
    assert tree_of(tmp_path / "dest")["in/deep.txt"] == "deep"
    assert len(fetcher.warnings) == fetcher.quarantined == 2


def test_a_lock_is_made_from_a_damaged_mirror(fetcher: Fetcher) -> None:
    fetcher.fetch()
    for mirror in fetcher.mirrors:
        flipped_bytes(mirror)
    found = discover_submodules(fetcher.url, fetcher.commit, fetcher.home, emit=fetcher.heard.append)
    assert found == {"in": fetcher.inner}
    assert fetcher.warnings


def test_the_lock_of_a_git_that_was_killed_is_in_nobodys_way(fetcher: Fetcher, tmp_path: Path) -> None:
    mirror = fetcher.mirrors[0]
    fetcher.fetch()
    run_git(mirror, "update-ref", "-d", f"refs/sparkbuild/{fetcher.commit}")
    (mirror / "shallow.lock").write_text("")
    (mirror / "refs/sparkbuild").mkdir(exist_ok=True)
    (mirror / f"refs/sparkbuild/{fetcher.commit}.lock").write_text("")
    fetcher.fetch().lay(tmp_path / "dest")
    assert tree_of(tmp_path / "dest")["main.txt"] == "main"
    assert fetcher.quarantined == 1


@pytest.mark.parametrize("damage", [no_head, a_file, no_packs, one_blob_gone])
def test_offline_it_is_told_and_left_alone(
    fetcher: Fetcher, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    fetcher.fetch()
    mirror = fetcher.mirrors[0]
    # The address of a server that is not there; its mirror is this one.
    fetcher.url = "https://host.invalid/x"
    mirror.rename(fetcher.mirrors[0])
    damage(fetcher.mirrors[0])
    with pytest.raises(SourceError) as caught:
        fetcher.fetch(offline=True, submodules=False).lay(tmp_path / "dest")
    assert caught.value.exit_code == 5
    assert isinstance(caught.value, OfflineError) == (damage is not one_blob_gone)
    assert str(fetcher.mirrors[0]) in str(caught.value)
    assert "with the network" in str(caught.value.hint)
    assert fetcher.quarantined == 0
    assert fetcher.mirrors[0].exists()


def test_a_server_that_is_not_there_is_no_damage(home: Home, tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path, home)
    fetcher.fetch()
    fetcher.commit = "1" * 40
    with pytest.raises(SourceError, match=r"could not be fetched|has no commit"):
        fetcher.fetch()
    shutil.rmtree(tmp_path / "main")
    with pytest.raises(SourceError, match="could not be fetched"):
        fetcher.fetch()
    assert fetcher.quarantined == 0


def test_a_tree_of_git_that_is_too_deep(home: Home, tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path, home)
    deep = (tmp_path / "main").joinpath(*["d"] * 201)
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    run_git(tmp_path / "main", "add", "-A")
    run_git(tmp_path / "main", "commit", "-q", "-m", "deep")
    fetcher.commit = run_git(tmp_path / "main", "rev-parse", "HEAD")
    with pytest.raises(SourceError, match="deeper than 200 folders"):
        fetcher.fetch().lay(tmp_path / "to" / "dest")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "damage"),
    [
        ("fatal: not a git repository: '/x'", True),
        ("fatal: bad object HEAD", True),
        ("error: unable to read sha1 file of x (e69de29)", True),
        ("error: inflate: data stream error (incorrect header check)", True),
        ("error: file ./objects/pack/x.pack is far too short to be a packfile", True),
        ("fatal: '/x' does not appear to be a git repository", False),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", False),
        ("remote: fatal: bad object HEAD", False),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", False),
        ("fatal: Could not read from remote repository.", False),
        ("fatal: early EOF\nfatal: fetch-pack: invalid index-pack output", False),
        ("fatal: pack has bad object at offset 12: inflate returned -5\nfatal: index-pack failed", False),
        ("git: 'remote-x' is not a git command\nerror: unable to find remote helper for 'x'", False),
        ("error: unable to create file x: Permission denied", False),
        ("", False),
    ],
)
def test_what_tells_damage(said: str, *, damage: bool) -> None:
    assert tells_damage(said) == damage
