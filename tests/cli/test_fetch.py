"""`sparkbuild fetch`: tags are read, what is missing is named; then a build needs no network."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from purestack import PureStack
from source_help import commit_files, locked, make_repository, make_wheel, run_git

from orchestrator.model.lock import LockedFile, LockedSource, lock_bytes
from orchestrator.model.platform import Target
from orchestrator.model.reader import load_lock

if TYPE_CHECKING:
    from pathlib import Path

OPEN = LockedSource(commit="unresolved", tag="v1")


@dataclass(frozen=True)
class Said:
    code: int
    report: dict[str, Any]
    err: str


class Tagged(PureStack):
    """`base` comes from a repository at a tag that the lock leaves open; `top` is built on it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.project("base")
        self.project("top", "base")
        self.upstream = root / "upstream" / "base"
        make_repository(self.upstream, {})
        shutil.copytree(self.recipes / "projects" / "base", self.upstream, dirs_exist_ok=True)
        self.commit = commit_files(self.upstream, {})
        run_git(self.upstream, "tag", "-a", "-m", "x", "v1")
        commit_files(self.upstream, {"backend.py": "raise SystemExit('a later commit')"})
        self.address(self.upstream.as_uri())
        self.sources["base"] = {"main": OPEN}
        self.runtime: tuple[LockedFile, ...] = ()

    def write(self) -> None:
        super().write()
        lock = msgspec.structs.replace(load_lock(self.shipped), run=self.runtime)
        self.shipped.write_bytes(lock_bytes(lock))

    def address(self, url: str) -> None:
        """Let the recipe name this address."""
        recipe = self.recipes / "base.yaml"
        text = recipe.read_text().splitlines(keepends=True)
        at = next(number for number, line in enumerate(text) if line.startswith("  main:"))
        text[at] = f"  main: {{git: '{url}'}}\n"
        recipe.write_text("".join(text))

    def say(self, *arguments: str) -> Said:
        """Run a command of which the report has no rows."""
        self.write()
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, json.loads(done.stdout or "{}"), done.stderr)

    @property
    def shipped(self) -> Path:
        """The stack's own lock."""
        return next((self.recipes / "stacks").glob("*.lock"))

    @property
    def own(self) -> Path:
        """The user's."""
        return self.home / "resolved" / f"pure.{Target.here().tag}.lock"


@pytest.fixture
def tagged(tmp_path: Path) -> Tagged:
    return Tagged(tmp_path)


def test_a_plan_has_no_key_until_fetch_has_read_the_tag(tagged: Tagged) -> None:
    steps = {step["name"]: step for step in tagged.say("plan", "all").report["steps"]}
    assert (steps["base"]["key"], steps["top"]["key"]) == (None, None)
    assert "sparkbuild lock --stack pure" in steps["base"]["why"]
    assert "sparkbuild lock --stack pure" in steps["top"]["why"]
    before = tagged.shipped.read_bytes()
    fetched = tagged.say("fetch", "all")
    assert fetched.code == 0, fetched.err
    assert (fetched.report["complete"], fetched.report["missing"]) == (["base", "top"], [])
    assert fetched.report["sources"][0] == {"recipe": "base", "source": "main", "digest": tagged.commit}
    assert tagged.shipped.read_bytes() == before, "the shipped lock is nobody's to change"
    seen = load_lock(tagged.own).components["base"].sources["main"]
    assert seen == LockedSource(commit=tagged.commit, tag="v1", submodules={})
    assert all(step["key"] for step in tagged.say("plan", "all").report["steps"])
    shutil.rmtree(tagged.upstream)
    assert tagged.run("all", "--offline").actions == {"base": "built", "top": "built"}


def test_a_build_reads_it_itself(tagged: Tagged) -> None:
    ran = tagged.run()
    assert ran.code == 0, ran.err
    assert ran.actions == {"base": "built", "top": "built"}
    assert f"tag v1 of source main is commit {tagged.commit}" in ran.err
    again = tagged.run()
    assert (again.code, again.actions) == (0, {"base": "reuse", "top": "reuse"})


def test_locked_refuses_what_the_lock_does_not_hold(tagged: Tagged) -> None:
    for command in ("plan", "fetch"):
        said = tagged.say(command, "all", "--locked")
        assert said.code == 2
        assert "base has no key: source main (tag v1) is unresolved" in said.err
    assert tagged.say("fetch", "all").code == 0
    assert tagged.say("plan", "all", "--locked").code == 2, "what this machine read is not the stack's lock"
    tagged.sources["base"] = {"main": LockedSource(commit=tagged.commit, tag="v1")}
    assert tagged.say("plan", "all", "--locked").code == 0


def test_offline_before_any_fetch(tagged: Tagged) -> None:
    tagged.address("https://host.invalid/owner/base")
    assert tagged.say("all", "--offline").code == 5
    said = tagged.say("fetch", "all", "--offline")
    assert said.code == 5
    assert "tag v1 is not known, and the network is not allowed" in str(said.report["missing"])
    assert not tagged.own.exists()


def test_what_cannot_be_had_is_named_and_the_rest_is_fetched(tagged: Tagged) -> None:
    tagged.project("other")
    tagged.address((tagged.root / "gone").as_uri())
    said = tagged.say("fetch", "all")
    assert said.code == 5
    assert said.report["complete"] == ["other"], "top is built on base"
    (missing,) = said.report["missing"]
    assert (missing["recipe"], missing["what"], missing["code"]) == ("base", "source main", "unreachable")
    assert [source["recipe"] for source in said.report["sources"]] == ["other", "top"]
    tagged.address(tagged.upstream.as_uri())
    assert tagged.say("fetch", "all").code == 0, "it goes on where it stopped"


def test_an_archive_folder_serves_tag_and_tree(tagged: Tagged) -> None:
    tagged.address("https://host.invalid/owner/base")
    mirror = ("--mirror", f"https://host.invalid/owner/={tagged.upstream.parent}")
    assert tagged.say("fetch", "all", *mirror, "--offline").code == 0, "a folder is no network"
    shutil.rmtree(tagged.upstream)
    ran = tagged.run("all", "--offline")
    assert (ran.code, ran.actions) == (0, {"base": "built", "top": "built"})


def test_the_runtime_closure_comes_when_it_is_asked_for(tagged: Tagged) -> None:
    wheel = make_wheel(tagged.root / "archive", "demo")
    tagged.runtime = (locked(wheel),)
    kept = tagged.home / "downloads" / locked(wheel).sha256 / wheel.name
    assert tagged.say("fetch", "base").report["wheels"] == {}
    assert not kept.exists()
    said = tagged.say("fetch", "base", "--runtime", "--mirror", f"={wheel.parent}")
    assert (said.code, said.report["wheels"]) == (0, {"runtime": [wheel.name]})
    assert kept.read_bytes() == wheel.read_bytes()


def test_a_damaged_or_stale_lock_of_the_user_is_not_believed(tagged: Tagged) -> None:
    assert tagged.say("fetch", "all").code == 0
    good = tagged.own.read_text()
    inputs = load_lock(tagged.own).inputs
    for bad in (good[:100], good.replace(inputs, inputs[::-1])):
        tagged.own.write_text(bad)
        assert tagged.say("plan", "all").report["steps"][0]["key"] is None
    assert tagged.say("fetch", "all").code == 0
    assert tagged.say("plan", "all").report["steps"][0]["key"]


def test_a_tag_that_upstream_does_not_have(tagged: Tagged) -> None:
    run_git(tagged.upstream, "tag", "-d", "v1")
    said = tagged.say("fetch", "base")
    assert said.code == 5
    assert "has no tag v1" in said.report["missing"][0]["message"]
    assert tagged.run().code == 5
