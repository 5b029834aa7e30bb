"""Tags looked up in real repositories, and what a lock holds of a git source when one does not answer."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from source_help import commit_files, make_repository, run_git

from orchestrator.errors import MismatchError, OfflineError, SourceError
from orchestrator.model.lock import LockedSource
from orchestrator.model.recipe import Source
from orchestrator.model.stack import Component
from orchestrator.report.events import Event, Note, silent
from orchestrator.source.mirrors import Mirror, Mirrors
from orchestrator.source.refs import UnreachableError, lock_git, ref_commit, tag_commit

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home


class Upstream:
    """A repository with a submodule, a plain tag `light` and an annotated one, `v1.0`."""

    def __init__(self, root: Path) -> None:
        self.inner = make_repository(root / "inner", {"x": "inner"})
        self.folder = root / "main"
        make_repository(self.folder, {"x": "1"})
        run_git(self.folder, "submodule", "add", "-q", "../inner", "third/inner")
        self.commit = commit_files(self.folder, {"x": "2"})
        run_git(self.folder, "tag", "-a", "-m", "release", "v1.0")
        run_git(self.folder, "tag", "light")
        self.later = commit_files(self.folder, {"x": "3"})
        self.url = self.folder.as_uri()

    def locked(
        self, home: Home, commit: str, *, former: LockedSource | None = None, heard: list[Event] | None = None
    ) -> LockedSource:
        component = Component(version="1.0", commits={"main": commit})
        emit = silent if heard is None else heard.append
        return lock_git("vec", "main", Source(git=self.url), component, home=home, former=former, emit=emit)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def test_an_annotated_tag_is_peeled(upstream: Upstream) -> None:
    assert tag_commit(upstream.url, "v1.0") == upstream.commit
    assert run_git(upstream.folder, "rev-parse", "v1.0") != upstream.commit, "the tag is an object of its own"
    assert tag_commit(upstream.url, "light") == upstream.commit


@pytest.mark.parametrize("name", ["v1", "main", "v*", "heads/main", "light^{}"])
def test_what_is_no_tag(upstream: Upstream, name: str) -> None:
    with pytest.raises(SourceError, match="has no tag") as caught:
        tag_commit(upstream.url, name)
    assert not isinstance(caught.value, UnreachableError)
    assert caught.value.exit_code == 5


def test_references_that_somebody_may_name(upstream: Upstream) -> None:
    for name in ("v1.0", "light", "refs/tags/v1.0", upstream.commit):
        assert ref_commit(upstream.url, name) == upstream.commit
    for name in ("main", "HEAD", "refs/heads/main"):
        assert ref_commit(upstream.url, name) == upstream.later
    run_git(upstream.folder, "branch", "light", upstream.later)
    assert ref_commit(upstream.url, "light") == upstream.commit, "a tag goes before a branch"
    for name in ("ma", "v*", upstream.commit[:12], "tags/v1.0", "-x"):
        with pytest.raises(SourceError, match=r"has no tag or branch") as caught:
            ref_commit(upstream.url, name)
        assert caught.value.exit_code == 5


def test_references_without_network(upstream: Upstream) -> None:
    with pytest.raises(OfflineError, match="which commit main is"):
        ref_commit("https://host.invalid/x", "main", offline=True)
    assert ref_commit("https://host.invalid/x", upstream.commit, offline=True) == upstream.commit
    assert ref_commit(upstream.url, "main", offline=True) == upstream.later, "a folder needs none"


def test_without_network(upstream: Upstream) -> None:
    with pytest.raises(OfflineError, match="tag v1 is not known"):
        tag_commit("https://host.invalid/x", "v1", offline=True)
    assert tag_commit(upstream.url, "v1.0", offline=True) == upstream.commit, "a folder needs none"
    mirrors = Mirrors((Mirror("https://host.invalid/", str(upstream.folder.parent)),))
    assert tag_commit("https://host.invalid/main", "v1.0", offline=True, mirrors=mirrors) == upstream.commit


def test_one_that_does_not_answer(tmp_path: Path) -> None:
    for place in (str(tmp_path / "gone"), "http://127.0.0.1:9/x"):
        with pytest.raises(UnreachableError, match="does not answer"):
            tag_commit(place, "v1")
    with pytest.raises(SourceError, match="is no address"):
        tag_commit("--upload-pack=x", "v1")


def test_a_lock_holds_what_was_read(upstream: Upstream, home: Home) -> None:
    wanted = LockedSource(commit=upstream.commit, tag="v1.0", submodules={"third/inner": upstream.inner})
    assert upstream.locked(home, "unresolved v1.0") == wanted
    plain = LockedSource(commit=upstream.later, submodules={"third/inner": upstream.inner})
    assert upstream.locked(home, upstream.later) == plain


def test_nothing_is_guessed_where_nobody_answers(upstream: Upstream, home: Home) -> None:
    shutil.rmtree(upstream.folder)
    heard: list[Event] = []
    assert upstream.locked(home, "unresolved v1.0", heard=heard) == LockedSource(
        commit="unresolved", tag="v1.0"
    )
    assert upstream.locked(home, upstream.commit, heard=heard) == LockedSource(commit=upstream.commit)
    notes = [event.text for event in heard if isinstance(event, Note)]
    assert [note.partition(":")[2].partition(":")[0].strip() for note in notes] == [
        "source main stays unresolved",
        "submodules of source main are not listed",
    ]


def test_an_earlier_reading_stays(upstream: Upstream, home: Home) -> None:
    read = upstream.locked(home, "unresolved v1.0")
    listed = upstream.locked(home, upstream.later)
    shutil.rmtree(upstream.folder)
    shutil.rmtree(home.git)
    assert upstream.locked(home, "unresolved v1.0", former=read) == read
    assert upstream.locked(home, "unresolved light", former=read).unresolved, "another tag, another reading"
    assert upstream.locked(home, upstream.later, former=listed) == listed
    assert upstream.locked(home, upstream.commit, former=listed).submodules is None


def test_one_that_answers_must_have_it(upstream: Upstream, home: Home) -> None:
    with pytest.raises(SourceError, match="has no commit"):
        upstream.locked(home, "a" * 40)
    with pytest.raises(SourceError, match="has no tag"):
        upstream.locked(home, "unresolved v9")
    tag = run_git(upstream.folder, "rev-parse", "v1.0")
    with pytest.raises(MismatchError, match="is a tag"):
        upstream.locked(home, tag)
