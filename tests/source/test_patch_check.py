"""Patches of a recipe on real sdists, repositories and folders: at the pin, and where somebody points."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from source_help import DiskIndex, commit_files, locked, make_repository, run_git, tree_of

from orchestrator.errors import LockError, UsageError
from orchestrator.model.lock import LockedComponent, LockedSource
from orchestrator.model.recipe import PatchRef, Recipe, Source, When
from orchestrator.report.events import silent
from orchestrator.source.mirrors import Mirror, Mirrors
from orchestrator.source.patch_check import Checked, Subject, check
from orchestrator.source.patch_format import Patch, parse_patch
from orchestrator.source.patch_state import Access
from orchestrator.store.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from orchestrator.store.home import Home

SETUP = "one\ntwo\nthree\n"


def patch(name: str, old: str, new: str, *, file: str = "setup.py", seen: str = "none") -> Patch:
    header = f"Why: test\nSeen-at: {seen}\n\n--- a/{file}\n+++ b/{file}\n"
    return parse_patch(name, f"{header}@@ -2 +2 @@\n-{old}\n+{new}\n".encode())


def recipe(source: Source, *patches: PatchRef, homepage: str | None = None, **others: Source) -> Recipe:
    return Recipe(
        schema="sparkbuild.recipe/1",
        name="vec",
        summary="s",
        homepage=homepage,
        sources={"main": source, **others},
        patches=patches or (PatchRef(name="0001-two"),),
    )


class Bench:
    """Judges patches of a recipe."""

    def __init__(self, home: Home, lease: Lease, folder: Path) -> None:
        self.home, self.lease, self.folder = home, lease, folder
        self.patches = [patch("0001-two", "two", "2")]

    def __call__(
        self,
        of: Recipe,
        *,
        locked: Mapping[str, LockedSource] | None = None,
        at: Mapping[str, Path | str] | None = None,
        arches: tuple[str, ...] | None = None,
        offline: bool = False,
        mirrors: Mirrors | None = None,
    ) -> tuple[Checked, ...]:
        component = None if locked is None else LockedComponent(version="1.0", sources=dict(locked))
        subject = Subject(
            recipe=of,
            version="1.0",
            folder=self.folder,
            patches={each.name: each for each in self.patches},
            locked=component,
            arches=arches,
            at=at or {},
        )
        access = Access(
            home=self.home, lease=self.lease, emit=silent, offline=offline, mirrors=mirrors or Mirrors()
        )
        return check(subject, access)


@pytest.fixture
def bench(home: Home, tmp_path: Path) -> Iterator[Bench]:
    home.claim()
    with Lease(home) as lease:
        yield Bench(home, lease, tmp_path)


class Upstream:
    """A repository: v1.0 is SETUP, v2.0 has a line before it, v3.0 lacks `two`, v4.0 has the patch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, folder.as_uri()
        self.commits = {}
        texts = {"v1.0": SETUP, "v2.0": "zero\n" + SETUP, "v3.0": "one\nthree\n", "v4.0": "one\n2\nthree\n"}
        make_repository(folder, {})
        for tag, text in texts.items():
            self.commits[tag] = commit_files(folder, {"setup.py": text})
            run_git(folder, "tag", "-a", "-m", "x", tag)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def states(found: tuple[Checked, ...]) -> list[str | None]:
    return [row.state for each in found for row in each.rows]


def test_an_sdist_at_its_pin(bench: Bench, disk_index: DiskIndex, tmp_path: Path) -> None:
    folder = tmp_path / "vec-1.0"
    folder.mkdir()
    (folder / "setup.py").write_text(SETUP)
    file = tmp_path / "vec-1.0.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        tar.add(folder, "vec-1.0")
    disk_index.list("vec", file)
    pin = {"main": LockedSource(file=locked(file))}
    bench.patches = [
        patch("0001-two", "two", "2", seen="0.9, 1.0"),
        patch("0002-on-it", "2", "II", seen="0.9"),
    ]
    of = recipe(Source(sdist="vec"), PatchRef(name="0001-two"), PatchRef(name="0002-on-it"))
    (found,) = bench(of, locked=pin)
    assert (found.at, found.error, states((found,))) == ("version 1.0", None, ["applies", "applies"])
    unverified = [None, "unverified-at-pin (version 1.0): seen at 0.9 only"]
    assert [row.unverified for row in found.rows] == unverified
    file.unlink()
    (again,) = bench(of, locked=pin, offline=True)
    assert states((again,)) == ["applies", "applies"], "what was fetched once is taken from the store"


def test_a_repository_at_its_pin(bench: Bench, upstream: Upstream) -> None:
    commit = upstream.commits["v2.0"]
    bench.patches = [patch("0001-two", "two", "2", seen=commit)]
    of = recipe(Source(git=upstream.url))
    (found,) = bench(of, locked={"main": LockedSource(commit=commit)})
    assert found.at == f"commit {commit[:12]}"
    (row,) = found.rows
    assert (row.state, row.unverified) == ("applies", None)
    assert row.to_json()["moved"] == [{"file": "setup.py", "hunk": 1, "lines": 1}]
    for tag, unverified in (("v2.0", None), ("v1.0", f"({str_pin(upstream, 'v1.0')})")):
        (found,) = bench(of, locked={"main": LockedSource(commit="unresolved", tag=tag)})
        assert (found.at, states((found,))) == (str_pin(upstream, tag), ["applies"])
        told = found.rows[0].unverified
        assert told is None if unverified is None else unverified in str(told)


def str_pin(upstream: Upstream, tag: str) -> str:
    return f"commit {upstream.commits[tag][:12]}"


@pytest.mark.parametrize(
    ("ref", "state"),
    [
        ("v1.0", "applies"),
        ("v2.0", "applies"),
        ("v3.0", "conflict"),
        ("v4.0", "already-upstream"),
        ("main", "already-upstream"),
    ],
)
@pytest.mark.parametrize("kind", ["git", "sdist"])
def test_a_reference(bench: Bench, upstream: Upstream, ref: str, state: str, kind: str) -> None:
    """An sdist's repository is what the recipe names as its homepage."""
    source = Source(git=upstream.url) if kind == "git" else Source(sdist="vec")
    (found,) = bench(recipe(source, homepage=upstream.url), at={"main": ref})
    commit = upstream.commits.get(ref, upstream.commits["v4.0"])
    assert (found.at, states((found,))) == (f"{ref}, commit {commit[:12]}", [state])
    (row,) = found.rows
    assert row.unverified is None, "that is about the pin"
    if state == "conflict":
        assert row.judged is not None
        assert "setup.py, hunk 1: expected 'two' at line 2, found 'three'" in row.judged.reason
        assert row.judged.where == "0001-two:6"
    assert bench(recipe(source, homepage=upstream.url), at={"main": commit})[0].at == f"commit {commit[:12]}"


def test_a_folder_is_read_and_left_as_it_is(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "setup.py").write_text(SETUP)
    of = recipe(Source(git="https://host.invalid/vec"))
    (found,) = bench(of, at={"main": folder}, offline=True)
    assert (found.at, states((found,))) == (f"folder {folder}", ["applies"])
    assert tree_of(folder) == {"setup.py": SETUP}
    (local,) = bench(recipe(Source(local="checkout")))
    assert (local.at, states((local,)), local.rows[0].unverified) == (f"folder {folder}", ["applies"], None)
    (gone,) = bench(recipe(Source(local="nowhere")))
    assert (states((gone,)), gone.error is not None) == ([None], True)


def test_another_source_is_judged_by_itself(bench: Bench, upstream: Upstream, tmp_path: Path) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    (folder / "setup.py").write_text(SETUP)
    bench.patches.append(patch("0002-inner", "two", "2"))
    of = recipe(
        Source(local="main"),
        PatchRef(name="0002-inner", source="inner"),
        PatchRef(name="0001-two"),
        inner=Source(git=upstream.url),
    )
    pin = {"inner": LockedSource(commit=upstream.commits["v3.0"])}
    main, inner = bench(of, locked=pin)
    assert [(main.source, *states((main,))), (inner.source, *states((inner,)))] == [
        ("main", "applies"),
        ("inner", "conflict"),
    ]
    assert states(bench(of, locked=pin, at={"inner": "v1.0"})) == ["applies", "applies"]


def test_what_cannot_be_had_is_told_and_the_rest_is_judged(
    bench: Bench, upstream: Upstream, tmp_path: Path
) -> None:
    away = "https://host.invalid/upstream"
    bench.patches += [patch("0002-inner", "two", "2"), patch("0003-left-out", "two", "2")]
    of = recipe(
        Source(git=away),
        PatchRef(name="0001-two"),
        PatchRef(name="0003-left-out", when=When(version=">=2")),
        PatchRef(name="0002-inner", source="inner"),
        inner=Source(git=upstream.url),
    )
    pin = {name: LockedSource(commit=upstream.commits["v1.0"]) for name in ("main", "inner")}
    main, inner = bench(of, locked=pin, offline=True)
    assert (states((main,)), states((inner,))) == ([None, "out-of-versions"], ["applies"])
    assert main.rows[0].unverified == f"unverified-at-pin ({main.at}): nobody has seen it"
    told = main.rows[0].to_json()
    assert (told["state"], told["reason"], told["where"], told["moved"]) == (None, None, None, [])
    assert (main.missing() or {})["code"] == "offline"
    assert inner.missing() is None
    mirrors = Mirrors((Mirror("https://host.invalid/", str(tmp_path)),))
    assert states(bench(of, locked=pin, offline=True, mirrors=mirrors))[0] == "applies"
    (unknown, _) = bench(of, locked=pin, at={"main": "v9.0"}, mirrors=mirrors)
    assert "no tag or branch v9.0" in str(unknown.error)


@pytest.mark.parametrize(
    ("when", "at", "arches", "state"),
    [
        (When(version=">=1"), None, None, "applies"),
        (When(version=">=2"), None, None, "out-of-versions"),
        (When(version=">=2"), "v2.0", None, "applies"),
        (When(version="<2"), "v2.0", None, "out-of-versions"),
        (When(version="<2"), "main", None, "already-upstream"),
        (When(arch=("9.0a",)), None, None, "applies"),
        (When(arch=("9.0a",)), None, ("12.1a",), "out-of-versions"),
        (When(platform="linux-aarch64"), None, None, "applies"),
        (When(source="sdist"), None, None, "out-of-versions"),
    ],
)
def test_conditions(
    bench: Bench,
    upstream: Upstream,
    when: When,
    at: str | None,
    arches: tuple[str, ...] | None,
    state: str,
) -> None:
    of = recipe(Source(git=upstream.url), PatchRef(name="0001-two", when=when))
    pin = {"main": LockedSource(commit=upstream.commits["v1.0"])}
    (found,) = bench(of, locked=pin, at={"main": at} if at else {}, arches=arches)
    assert states((found,)) == [state]
    judged = found.rows[0].judged
    assert judged is not None
    assert ("its `when` does not hold for" in judged.reason) == (state == "out-of-versions")


def test_a_source_of_which_no_patch_is_applied_is_not_fetched(bench: Bench) -> None:
    of = recipe(Source(git="https://host.invalid/x", when=When(version="<1")))
    (found,) = bench(of, locked={"main": LockedSource(commit="ab" * 20)})
    assert (states((found,)), found.error) == (["out-of-versions"], None)
    assert list(bench.home.git.glob("*")) == []


def test_submodules_are_fetched_only_when_a_patch_reaches_into_one(
    bench: Bench, upstream: Upstream, tmp_path: Path
) -> None:
    top = tmp_path / "top"
    make_repository(top, {"setup.py": SETUP})
    run_git(top, "submodule", "add", "-q", upstream.url, "third/vec")
    commit = commit_files(top, {})
    pin = {"main": LockedSource(commit=commit)}
    assert states(bench(recipe(Source(git=top.as_uri())), locked=pin)) == ["applies"]
    assert len(list(bench.home.git.glob("*.git"))) == 1
    bench.patches = [patch("0001-two", "2", "II", file="third/vec/setup.py")]
    assert states(bench(recipe(Source(git=top.as_uri(), submodules=False)), locked=pin)) == ["conflict"]
    assert states(bench(recipe(Source(git=top.as_uri())), locked=pin)) == ["applies"]
    assert states(bench(recipe(Source(git=top.as_uri())), at={"main": "main"})) == ["applies"]


def test_mistakes(bench: Bench) -> None:
    with pytest.raises(UsageError, match="source main of vec has no repository"):
        bench(recipe(Source(sdist="vec")), at={"main": "v1.0"})
    of = recipe(Source(local="x"), PatchRef(name="0001-two", source="inner"), inner=Source(sdist="y"))
    with pytest.raises(UsageError, match="source inner of vec has no repository"):
        bench(of, at={"inner": "v1.0"})
    with pytest.raises(LockError, match="the lock has nothing for source vec/main"):
        bench(recipe(Source(sdist="vec")), locked={})
