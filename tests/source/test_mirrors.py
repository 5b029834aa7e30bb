"""Other places: prefixes of addresses, and archive folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from source_help import DiskIndex, locked, make_repository, make_wheel, run_git

from orchestrator.errors import OfflineError, SourceError, UsageError
from orchestrator.source.download import fetch_file
from orchestrator.source.git import fetch_commit, mirror_of
from orchestrator.source.git_tree import fetch_git
from orchestrator.source.mirrors import NO_MIRRORS, VARIABLE, Mirrors, parse_mirrors
from orchestrator.source.pipconfig import IndexConfig
from orchestrator.source.wheels import fetch_wheels

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home

URL = "https://host.invalid/owner/name"


@pytest.fixture(autouse=True)
def none_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_prefix_is_replaced_and_the_first_counts() -> None:
    mirrors = parse_mirrors(["https://host.invalid/=https://a.example/m/", "https://=ssh://b.example/"])
    assert mirrors.repository(URL) == "https://a.example/m/owner/name"
    assert mirrors.file("https://other.example/x.tgz?y=1") == "ssh://b.example/other.example/x.tgz?y=1"
    assert mirrors.repository("git://host.invalid/x") == "git://host.invalid/x"
    assert NO_MIRRORS.repository(URL) == URL


def test_the_environment_comes_after_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "https://host.invalid/=https://late.example/ https://b/=https://c/")
    assert parse_mirrors([]).repository(URL) == "https://late.example/owner/name"
    early = parse_mirrors(["https://host.invalid/=https://early.example/"])
    assert early.repository(URL) == "https://early.example/owner/name"


@pytest.mark.parametrize(
    "text", ["nothing", "https://a/=", "https://a/=  ", "=/no/such/folder", "x=relative/gone"]
)
def test_what_is_no_mirror(text: str) -> None:
    with pytest.raises(UsageError, match="--mirror"):
        parse_mirrors([text])


@pytest.mark.parametrize(
    "place", ["host.invalid/owner/name", "host.invalid/owner/name.git", "name", "name.git"]
)
def test_an_archive_folder_of_repositories(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    mirrors = parse_mirrors([f"={folder}"])
    assert mirrors.repository(URL) == URL, "what it does not hold comes from upstream"
    make_repository(folder / place, {"x": "1"})
    assert mirrors.repository(URL) == str(folder / place)
    assert mirrors.repository(f"{URL}2") == f"{URL}2"


def test_bare_repositories_and_files_below_a_prefix(tmp_path: Path) -> None:
    make_repository(tmp_path / "made", {"x": "1"})
    folder = tmp_path / "archive"
    folder.mkdir()
    run_git(folder, "clone", "-q", "--bare", str(tmp_path / "made"), "name.git")
    (folder / "a b.tgz").write_bytes(b"x")
    mirrors = parse_mirrors([f"https://host.invalid/owner/={folder.as_uri()}"])
    assert mirrors.repository(URL) == str(folder / "name.git")
    assert mirrors.file("https://host.invalid/owner/v1/a%20b.tgz?raw=1") == (folder / "a b.tgz").as_uri()
    assert mirrors.file("https://else.invalid/a%20b.tgz") == "https://else.invalid/a%20b.tgz"


@pytest.mark.parametrize(
    "url", ["https://h/../../etc/passwd", "https://h/%2e%2e/secret", "https://h/..%2fsecret"]
)
def test_no_way_out_of_the_folder(tmp_path: Path, url: str) -> None:
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "archive"
    folder.mkdir()
    assert parse_mirrors([f"https://h/={folder}"]).file(url) == url


def test_a_commit_and_its_submodule_come_from_the_folder(home: Home, tmp_path: Path) -> None:
    """And are kept under upstream's address: a later run needs no mirror."""
    archive = tmp_path / "archive"
    inner = make_repository(archive / "inner", {"x": "inner"})
    main = make_repository(archive / "name", {"x": "1"})
    (archive / "name" / ".gitmodules").write_text(
        '[submodule "i"]\n\tpath = third/inner\n\turl = https://host.invalid/owner/inner.git\n'
    )
    run_git(archive / "name", "add", ".gitmodules")
    run_git(archive / "name", "update-index", "--add", "--cacheinfo", f"160000,{inner},third/inner")
    run_git(archive / "name", "commit", "-q", "-m", "sub")
    commit = run_git(archive / "name", "rev-parse", "HEAD")
    assert commit != main
    (archive / "inner").rename(archive / "inner.git")
    mirrors = parse_mirrors([f"={archive}"])
    parts = fetch_git(URL, commit, "any", home=home, mirrors=mirrors)
    assert [(part.path, part.commit) for part in parts] == [("", commit), ("third/inner", inner)]
    assert parts[0].mirror == mirror_of(URL, home)
    assert fetch_git(URL, commit, {"third/inner": inner}, home=home, offline=True) == parts


def test_a_folder_is_no_network(home: Home, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    commit = make_repository(archive / "name", {"x": "1"})
    with pytest.raises(OfflineError):
        fetch_commit(URL, commit, home=home, offline=True)
    assert fetch_commit(URL, commit, home=home, offline=True, mirrors=parse_mirrors([f"={archive}"])).is_dir()


def test_a_mirror_that_does_not_have_it_is_not_passed_over(home: Home) -> None:
    """An address that somebody named is meant: upstream may be out of reach, or out of bounds."""
    mirrors = parse_mirrors(["https://host.invalid/=http://127.0.0.1:9/"])
    with pytest.raises(SourceError, match=r"127\.0\.0\.1"):
        fetch_commit(URL, "a" * 40, home=home, mirrors=mirrors)


def test_indexes(tmp_path: Path) -> None:
    config = IndexConfig(
        index_urls=("https://pypi.example/simple", "https://b.example/s"), find_links=("/w",)
    )
    mirrors = parse_mirrors(["https://pypi.example/=https://proxy.example/pypi/", f"={tmp_path}"])
    assert mirrors.index(config) == IndexConfig(
        index_urls=("https://proxy.example/pypi/simple", "https://b.example/s"),
        find_links=(str(tmp_path), "/w"),
    )
    assert NO_MIRRORS.index(config) == config


def test_wheels_and_sdists_from_a_folder(home: Home, disk_index: DiskIndex, tmp_path: Path) -> None:
    disk_index.list("other")
    archive = tmp_path / "archive"
    wheel = make_wheel(archive, "demo")
    sdist = archive / "demo-1.0.tar.gz"
    sdist.write_bytes(b"an sdist")
    mirrors = parse_mirrors([f"={archive}"])
    with pytest.raises(SourceError):
        fetch_wheels([locked(wheel)], home=home, mirrors=NO_MIRRORS)
    assert fetch_wheels([locked(wheel)], home=home, mirrors=mirrors)[locked(wheel).sha256].is_file()
    assert fetch_file(locked(sdist), home=home, mirrors=mirrors).read_bytes() == b"an sdist"
    url = "https://host.invalid/releases/demo-1.0.tar.gz"
    assert fetch_file(locked(sdist), home=home, mirrors=Mirrors(mirrors.all), url=url).is_file()
