"""`sparkbuild patch check` from end to end: which stack, which recipes, where, and how it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from purestack import PureStack
from source_help import commit_files, make_repository, run_git

from orchestrator.cli.main import run
from orchestrator.model.lock import LockedSource

if TYPE_CHECKING:
    from pathlib import Path

PATCH = "Why: test\n\n--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-{old}\n+{new}\n"


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def states(self) -> dict[str, Any]:
        return {f"{row['recipe']}/{row['patch']}": row["state"] for row in json.loads(self.out)["patches"]}


class Patched(PureStack):
    """`near` is a local project; `far` is a repository with tags v1.0 and v2.0; `plain` has no patches."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root)
        self._capsys = capsys
        self.upstream = root / "upstream"
        commit = make_repository(self.upstream, {"setup.py": "one\n"})
        run_git(self.upstream, "tag", "v1.0")
        commit_files(self.upstream, {"setup.py": "two\n"})
        run_git(self.upstream, "tag", "v2.0")
        for name in ("near", "far", "plain"):
            self.project(name)
        (self.recipes / "projects" / "near" / "setup.py").write_text("one\n")
        self.patch("near", "0001-near", old="one", new="1")
        self.patch("far", "0001-far", old="one", new="1")
        recipe = self.recipes / "far.yaml"
        recipe.write_text(
            recipe.read_text().replace("local: projects/far", f"git: '{self.upstream.as_uri()}'")
        )
        self.sources["far"] = {"main": LockedSource(commit=commit)}

    def patch(self, recipe: str, name: str, *, old: str, new: str) -> None:
        """Give a recipe its one patch."""
        file = self.recipes / "patches" / recipe / f"{name}.patch"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PATCH.format(old=old, new=new))
        path = self.recipes / f"{recipe}.yaml"
        kept = "".join(line for line in path.read_text().splitlines(keepends=True) if "patches:" not in line)
        path.write_text(f"{kept}patches: [{name}]\n")

    def check(self, *arguments: str) -> Said:
        """Run the command."""
        self.write()
        options = ["--recipes", str(self.recipes), "patch", "check", "--stack", "pure"]
        code = run([*options, *arguments])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)


@pytest.fixture
def patched(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Patched:
    monkeypatch.setenv("SPARKBUILD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Patched(tmp_path, capsys)


def test_all_of_a_stack_at_their_pins(patched: Patched) -> None:
    said = patched.check("--json")
    assert said.code == 0, said.err
    assert said.states == {"near/0001-near": "applies", "far/0001-far": "applies"}
    assert patched.check("all", "--json", "--offline").out == said.out, "the commit is in the store"
    told = patched.check("all")
    assert "far, source main: commit " in told.out
    assert "  applies           0001-far" in told.out
    assert "unverified-at-pin (commit " in told.out
    assert told.out.splitlines()[-1] == "2 patches: 2 applies"


def test_a_conflict_ends_with_1_and_the_others_are_judged(patched: Patched) -> None:
    patched.patch("near", "0001-near", old="zero", new="1")
    said = patched.check()
    assert said.code == 1
    assert "  conflict          0001-near" in said.out
    assert "expected 'zero' at line 1, found 'one'" in said.out
    assert "  applies           0001-far" in said.out
    assert patched.check("far").code == 0


def test_a_reference_or_a_folder(patched: Patched) -> None:
    assert patched.check("far", "--at", "v2.0", "--json").states == {"far/0001-far": "conflict"}
    assert patched.check("far", "--at", "main=v1.0", "--json").states == {"far/0001-far": "applies"}
    run_git(patched.upstream, "checkout", "-q", "v1.0")
    for folder in ("upstream", "./upstream", str(patched.upstream)):
        said = patched.check("far", "--at", folder, "--json")
        assert json.loads(said.out)["patches"][0]["at"] == f"folder {patched.upstream}"
        assert said.code == 0
    next((patched.recipes / "stacks").glob("*.lock")).unlink()
    options = ["--recipes", str(patched.recipes), "patch", "check", "--stack", "pure", "far"]
    assert run([*options, "--at", "upstream"]) == 0, "elsewhere than at the pin no lock is needed"
    assert run(options) == 2


def test_a_source_that_cannot_be_had_ends_with_5_and_a_conflict_is_told_all_the_same(
    patched: Patched,
) -> None:
    patched.patch("near", "0001-near", old="zero", new="1")
    patched.sources["far"] = {"main": LockedSource(commit="ab" * 20)}
    said = patched.check("--json")
    assert said.code == 5
    assert said.states == {"near/0001-near": "conflict", "far/0001-far": None}
    (missing,) = json.loads(said.out)["missing"]
    assert (missing["recipe"], missing["source"], missing["code"]) == ("far", "main", "source")
    assert "missing: far, source main: " in patched.check().out


def test_a_component_that_is_taken_as_published(patched: Patched) -> None:
    patched.write()
    stack = patched.recipes / "stacks" / "pure.yaml"
    text = stack.read_text().replace(
        '"far": {"version": "1.0"}', '"far": {"version": "1.0", "prebuilt": true}'
    )
    stack.write_text(text)
    options = ["--recipes", str(patched.recipes), "patch", "check", "--stack", "pure"]
    assert run([*options, "far"]) == 2
    assert run([*options, "far", "--at", "v1.0"]) == 0
    assert run([*options, "far", "--at", "v2.0"]) == 1


def test_an_arch_leaves_out_what_is_not_for_it(patched: Patched) -> None:
    path = patched.recipes / "near.yaml"
    path.write_text(path.read_text() + 'applies: ["9.0a"]\n')
    path = patched.recipes / "far.yaml"
    text = path.read_text().replace("[0001-far]", "[{name: 0001-far, when: {arch: 9.0a}}]")
    path.write_text(text)
    assert patched.check("--json").states == {"near/0001-near": "applies", "far/0001-far": "applies"}
    said = patched.check("--json", "--arch", "12.1a")
    assert said.states == {"far/0001-far": "out-of-versions"}
    assert "near cannot be built for 12.1a" in said.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--at", "v1.0"), "--at is a state of one recipe's source, and 2 recipes have patches"),
        (("plain", "--at", "v1.0"), "and no recipe has patches"),
        (("far", "--at", "./nowhere"), "there is no folder nowhere"),
        (("far", "--at", "v1.0", "--at", "main=v2.0"), "names source main twice"),
        (("far", "--at", " "), "--at is empty"),
        (("near", "--at", "v1.0"), "source main of near has no repository"),
        (("fra",), "did you mean far?"),
        (("far", "--arch", "nonsense"), "nonsense"),
    ],
)
def test_mistakes(patched: Patched, arguments: tuple[str, ...], told: str) -> None:
    said = patched.check(*arguments)
    assert said.code == 2
    assert told in said.err


def test_a_recipe_without_patches(patched: Patched) -> None:
    said = patched.check("plain")
    assert (said.code, said.out) == (0, "no patch to judge\n")
    assert "plain has no patches" in said.err
