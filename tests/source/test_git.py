"""Real repositories: a commit, its submodules in submodules, and what must not happen on the way."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from source_help import commit_files, make_repository, run_git, tree_of

from orchestrator.errors import (
    ArchiveRefusedError,
    MismatchError,
    OfflineError,
    SourceError,
    ToolMissingError,
)
from orchestrator.report.events import Event, Note, Progress
from orchestrator.source.git import fetch_commit, mirror_of
from orchestrator.source.git_tree import GitPart, discover_submodules, fetch_git, lay_git, resolved

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home


class Nest:
    """A repository with a submodule `sub`, that has one `in/ner`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inner = make_repository(root / "inner.git", {"deep.txt": "deep"})
        make_repository(root / "sub", {"sub.txt": "sub"})
        run_git(root / "sub", "submodule", "add", "-q", "../inner.git", "in/ner")
        self.sub = commit_files(root / "sub", {})
        make_repository(root / "main", {"main.txt": "main"})
        run_git(root / "main", "submodule", "add", "-q", "../sub", "third party/sub")
        self.main = commit_files(root / "main", {})
        self.url = (root / "main").as_uri()

    @property
    def locked(self) -> dict[str, str]:
        return {"third party/sub": self.sub, "third party/sub/in/ner": self.inner}


@pytest.fixture(scope="module")
def nest(tmp_path_factory: pytest.TempPathFactory) -> Nest:
    return Nest(tmp_path_factory.mktemp("nest"))


def test_submodules_in_submodules(home: Home, nest: Nest, tmp_path: Path) -> None:
    assert discover_submodules(nest.url, nest.main, home) == nest.locked
    heard: list[Event] = []
    parts = fetch_git(nest.url, nest.main, nest.locked, home=home, offline=True, emit=heard.append)
    assert heard == []
    lay_git(parts, tmp_path / "to" / "dest", emit=heard.append)
    dest = tmp_path / "to" / "dest"
    assert heard == []
    found = tree_of(dest)
    assert {name: text for name, text in found.items() if name.endswith(".txt")} == {
        "main.txt": "main",
        "third party/sub/sub.txt": "sub",
        "third party/sub/in/ner/deep.txt": "deep",
    }
    assert not [name for name in found if name == ".git" or "/.git/" in name or name.startswith(".git/")]
    assert {path.stat().st_mtime for path in dest.rglob("*")} == {1_700_000_000}
    assert [path.name for path in dest.parent.iterdir()] == ["dest"]


def test_submodules_not_wanted(home: Home, nest: Nest, tmp_path: Path) -> None:
    lay_git(fetch_git(nest.url, nest.main, None, home=home), tmp_path / "dest")
    assert sorted(tree_of(tmp_path / "dest")) == [".gitmodules", "main.txt"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"third party/sub": "0" * 40}, "expected commit 0000.*found"),
        ({"third party/sub/in/ner": "1" * 40}, "submodule third party/sub/in/ner: expected commit 1111"),
        ({"more": "2" * 40}, "that commit .* has not: more"),
    ],
)
def test_a_lock_that_does_not_fit_the_gitlinks(
    home: Home, nest: Nest, change: dict[str, str], match: str
) -> None:
    with pytest.raises(MismatchError, match=match) as caught:
        fetch_git(nest.url, nest.main, {**nest.locked, **change}, home=home)
    assert caught.value.exit_code == 5
    with pytest.raises(MismatchError, match="expected commit none, found"):
        fetch_git(nest.url, nest.main, {}, home=home)


def test_one_commit_is_fetched_once_and_shallow(home: Home, nest: Nest) -> None:
    heard: list[Event] = []
    commit_files(nest.root / "main", {"later.txt": "later"})
    mirror = fetch_commit(nest.url, nest.main, home=home, emit=heard.append)
    assert fetch_commit(nest.url, nest.main, home=home, offline=True, emit=heard.append) == mirror
    assert heard == [Progress("git", f"fetching {nest.url} at {nest.main[:12]}")]
    assert mirror == home.git / f"{hashlib.sha256(nest.url.encode()).hexdigest()}.git"
    assert run_git(mirror, "rev-list", "--count", nest.main) == "1"


def test_a_plain_path_serves_too(home: Home, nest: Nest) -> None:
    path = str(nest.root / "main")
    assert fetch_commit(path, nest.main, home=home) == mirror_of(path, home)


def test_two_commits_of_one_repository(home: Home, tmp_path: Path) -> None:
    first = make_repository(tmp_path / "r", {"x": "1"})
    second = commit_files(tmp_path / "r", {"x": "2"})
    url = str(tmp_path / "r")
    lay_git(fetch_git(url, second, {}, home=home), tmp_path / "two")
    lay_git(fetch_git(url, first, {}, home=home), tmp_path / "one")
    assert (tree_of(tmp_path / "one"), tree_of(tmp_path / "two")) == ({"x": "1"}, {"x": "2"})


def test_a_server_that_gives_out_branches_only(home: Home, tmp_path: Path) -> None:
    first = make_repository(tmp_path / "r", {"x": "1"})
    commit_files(tmp_path / "r", {"x": "2"})
    # Protocol 0 keeps to what is advertised, as old servers do.
    run_git(tmp_path / "r", "config", "uploadpack.allowAnySHA1InWant", "false")
    config = tmp_path / "config"
    config.write_text("[protocol]\nversion = 0\n")
    env = os.environ.get("GIT_CONFIG_GLOBAL")
    os.environ["GIT_CONFIG_GLOBAL"] = str(config)
    try:
        lay_git(fetch_git((tmp_path / "r").as_uri(), first, {}, home=home), tmp_path / "one")
    finally:
        del os.environ["GIT_CONFIG_GLOBAL"]
        if env is not None:
            os.environ["GIT_CONFIG_GLOBAL"] = env
    assert tree_of(tmp_path / "one") == {"x": "1"}


def test_missing_things(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = make_repository(tmp_path / "r", {"x": "1"})
    url = str(tmp_path / "r")
    with pytest.raises(SourceError, match=f"has no commit {'0' * 40}"):
        fetch_commit(url, "0" * 40, home=home)
    with pytest.raises(MismatchError, match="no full commit"):
        fetch_commit(url, commit[:12], home=home)
    with pytest.raises(SourceError, match="could not be fetched"):
        fetch_commit(str(tmp_path / "none"), commit, home=home)
    with pytest.raises(SourceError, match="no address"):
        fetch_commit("--upload-pack=touch /tmp/x", commit, home=home)
    with pytest.raises(OfflineError, match=commit):
        fetch_commit("https://host.example/r.git", commit, home=home, offline=True)
    tree = run_git(tmp_path / "r", "rev-parse", "HEAD^{tree}")
    for _ in range(2):  # nothing may remain that makes the second try believe it
        with pytest.raises(MismatchError, match="is a tree: expected a commit"):
            fetch_commit(url, tree, home=home)
    run_git(tmp_path / "r", "tag", "-a", "-m", "t", "v1")
    with pytest.raises(MismatchError, match="is a tag: expected a commit"):
        fetch_commit(url, run_git(tmp_path / "r", "rev-parse", "v1"), home=home)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match="git is not there"):
        fetch_commit(url, "1" * 40, home=home)


def test_hooks_filters_and_the_users_configuration_do_not_reach_the_tree(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = tmp_path / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{ran}'\n")
        hook.chmod(0o755)
    (tmp_path / "attributes").write_text("* text eol=crlf\n")
    (tmp_path / "config").write_text(
        f"[core]\nautocrlf = true\nhooksPath = {tmp_path / 'hooks'}\n"
        f"attributesFile = {tmp_path / 'attributes'}\n"
        f'[filter "bad"]\nsmudge = "touch \'{ran}\'; cat"\nrequired = true\n'
        f"[init]\ntemplateDir = {tmp_path}\n"
    )
    commit = make_repository(
        tmp_path / "r",
        {
            "a.txt": "one\ntwo\n",
            "b.bad": "kept\n",
            "c.bat": "x\n",
            "stamp": "$Format:%H$\n",
            "gone": "shipped\n",
            ".gitattributes": "*.bad filter=bad\n*.bat text eol=crlf\n"
            "stamp export-subst\ngone export-ignore\n",
        },
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    lay_git(fetch_git(str(tmp_path / "r"), commit, {}, home=home), tmp_path / "dest")
    found = tree_of(tmp_path / "dest")
    assert {name: found[name] for name in ("a.txt", "b.bad", "c.bat", "stamp", "gone")} == {
        "a.txt": "one\ntwo\n",
        "b.bad": "kept\n",
        "c.bat": "x\r\n",
        "stamp": "$Format:%H$\n",
        "gone": "shipped\n",
    }
    assert not ran.exists()


def test_lfs_pointers_are_told(home: Home, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    commit = make_repository(
        tmp_path / "r", {"big.bin": pointer, ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}
    )
    heard: list[Event] = []
    lay_git(fetch_git(str(tmp_path / "r"), commit, {}, home=home), tmp_path / "dest", emit=heard.append)
    (note,) = heard
    assert isinstance(note, Note)
    assert "1 files are Git LFS pointers" in note.text
    assert "big.bin" in note.text


def test_links_and_modes(home: Home, tmp_path: Path) -> None:
    make_repository(tmp_path / "r", {"run.sh": "#!"})
    (tmp_path / "r/run.sh").chmod(0o700)
    (tmp_path / "r/in").symlink_to("run.sh")
    good = commit_files(tmp_path / "r", {})
    (tmp_path / "r/out").symlink_to("../../etc")
    bad = commit_files(tmp_path / "r", {})
    url = str(tmp_path / "r")
    lay_git(fetch_git(url, good, {}, home=home), tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"run.sh": "#!", "in": "-> run.sh"}
    assert stat.S_IMODE((tmp_path / "dest/run.sh").stat().st_mode) == 0o755
    with pytest.raises(ArchiveRefusedError, match="'out' leads out"):
        lay_git(fetch_git(url, bad, {}, home=home), tmp_path / "to" / "evil")
    assert list((tmp_path / "to").iterdir()) == []


def test_a_place_that_is_taken_and_a_damaged_mirror(home: Home, nest: Nest, tmp_path: Path) -> None:
    parts = fetch_git(nest.url, nest.main, None, home=home)
    (tmp_path / "dest").mkdir()
    with pytest.raises(SourceError, match="exists already"):
        lay_git(parts, tmp_path / "dest")
    shutil.rmtree(parts[0].mirror / "objects" / "pack")
    with pytest.raises(SourceError, match="read-tree failed") as caught:
        lay_git(parts, tmp_path / "other")
    assert str(parts[0].mirror) in str(caught.value.hint)
    assert not (tmp_path / "other").exists()


def test_a_gitlink_without_an_address(home: Home, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "r" / "stray", {"x": "1"})
    commit = make_repository(tmp_path / "r", {"y": "2"})
    with pytest.raises(SourceError, match=r"stray has no address in \.gitmodules"):
        fetch_git(str(tmp_path / "r"), commit, {"stray": inner}, home=home)
    lay_git(fetch_git(str(tmp_path / "r"), commit, None, home=home), tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"y": "2"}


def test_a_submodule_that_upstream_leaves_out(home: Home, nest: Nest, tmp_path: Path) -> None:
    shutil.copytree(nest.root / "main", tmp_path / "main", symlinks=True)
    run_git(tmp_path / "main", "config", "-f", ".gitmodules", "submodule.third party/sub.update", "none")
    commit = commit_files(tmp_path / "main", {})
    assert discover_submodules(str(tmp_path / "main"), commit, home) == {}
    assert [part.path for part in fetch_git(str(tmp_path / "main"), commit, {}, home=home)] == [""]


def test_fetches_at_the_same_time(home: Home, nest: Nest) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch_commit(nest.url, nest.main, home=home)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [mirror_of(nest.url, home)] * 4


@pytest.mark.parametrize(
    ("url", "parent", "whole"),
    [
        ("https://a.example/x.git", "https://b.example/y.git", "https://a.example/x.git"),
        ("../x.git", "https://b.example/org/y.git", "https://b.example/org/x.git"),
        ("../../o/x.git", "https://b.example/org/y.git/", "https://b.example/o/x.git"),
        ("./x", "/srv/y", "/srv/y/x"),
        ("../x", "git@host.example:y", "git@host.example:x"),
        ("../x", "git@host.example:org/y", "git@host.example:org/x"),
        ("../.././x", "file:///srv/a/b", "file:///srv/x"),
    ],
)
def test_relative_addresses(url: str, parent: str, whole: str) -> None:
    assert resolved(url, parent) == whole


def test_parts_are_values(home: Home, nest: Nest) -> None:
    (part,) = fetch_git(nest.url, nest.main, None, home=home)
    assert part == GitPart("", nest.url, nest.main, mirror_of(nest.url, home))
