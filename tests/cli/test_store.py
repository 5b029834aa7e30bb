"""`sparkbuild store`: tables for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from store_help import KEY, age, draft, put, write_wheel

from orchestrator.cli.store import command
from orchestrator.errors import StoreError
from orchestrator.store.artifacts import Store
from orchestrator.store.home import Home
from orchestrator.store.manifest import Audit

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "cd" * 32


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SPARKBUILD_HOME", str(tmp_path / "home"))
    home = Home(tmp_path / "home")
    home.claim()
    return Store(home)


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def tamper(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["list"], "nothing is stored yet"),
        (["verify"], "nothing to verify"),
        (["gc"], "nothing to collect"),
        (["gc", "--dry-run", "--unused-for", "0"], "nothing to collect"),
    ],
)
def test_nothing_to_do_is_said(store: Store, words: list[str], text: str) -> None:
    result = run(*words)
    assert (result.exit_code, text in result.output) == (0, True)
    assert str(store.home.root) in result.output


def test_list(store: Store, tmp_path: Path) -> None:
    long = draft(name="causal-conv1d", audit=Audit(key="k", verdict="pass", coverage="3 of 3"))
    store.put(KEY, [write_wheel(tmp_path)], long)
    store.reject(OTHER, [write_wheel(tmp_path)], draft(name="vllm"))
    (put(store, tmp_path, "ef" * 32).folder / "manifest.json").write_bytes(b"{")
    result = run("list")
    assert result.exit_code == 0
    for word in (
        "causal-conv1d",
        "abababababab",
        "58.6 KiB",
        "0m",
        "pass",
        "vllm",
        "rejected",
        "broken",
        "verify",
    ):
        assert word in result.output
    assert max(len(line) for line in result.output.splitlines() if "causal" in line) <= 80


def test_list_json(store: Store, tmp_path: Path) -> None:
    audit = Audit(key="k", verdict="pass", coverage="3 of 3")
    store.put(KEY, [write_wheel(tmp_path)], draft(audit=audit))
    (put(store, tmp_path, OTHER).folder / "manifest.json").unlink()
    said = json.loads(run("list", "--json").output)
    assert said["schema"] == "sparkbuild.store-list/1"
    good, bad = said["artifacts"]
    assert (good["key"], good["name"], good["verdict"], good["bytes"]) == (KEY, "x", "pass", 60_000)
    assert good["files"][0]["name"] == "x-1.0-py3-none-any.whl"
    assert (bad["key"], bad["verdict"]) == (OTHER, "broken")
    assert "missing" in bad["problem"]


def test_verify_exits_1_and_says_what_was_done(store: Store, tmp_path: Path) -> None:
    put(store, tmp_path, OTHER)
    assert run("verify").exit_code == 0
    tamper(put(store, tmp_path).paths[0])
    kept = run("verify", "--keep")
    assert kept.exit_code == 1
    assert "left where it is" in kept.output
    assert "without --keep" in kept.output
    moved = run("verify", "--json")
    assert moved.exit_code == 1
    said = json.loads(moved.output)
    assert (said["ok"], said["bad"][0]["name"]) == (1, KEY)
    assert said["bad"][0]["moved_to"].startswith(str(store.home.quarantine))
    clean = run("verify")
    assert (clean.exit_code, "1 intact" in clean.output, "0 bad" in clean.output) == (0, True, True)


def test_gc(store: Store, tmp_path: Path) -> None:
    age(put(store, tmp_path).folder, days=15)
    assert "nothing to collect" in run("gc").output
    foretold = run("gc", "--unused-for", "2w", "--dry-run")
    assert "would remove 1 thing" in foretold.output
    assert store.home.artifacts.joinpath(KEY).exists()
    said = json.loads(run("gc", "--unused-for", "336h", "--json").output)
    assert said["items"][0]["why"] == "not used for 15 days"
    assert said["bytes"] > 60_000
    assert not store.home.artifacts.joinpath(KEY).exists()


@pytest.mark.parametrize("text", ["", "d", "30", "-1d", "1.5h", "1y", "٣d", "9999999d", "soon"])
def test_durations_that_are_none(store: Store, text: str) -> None:
    result = run("gc", "--unused-for", text)
    assert result.exit_code == 2
    assert "30d, 12h, 90m, 2w or 0" in result.output
    assert [path.name for path in store.home.root.iterdir()] == ["CACHEDIR.TAG"]


@pytest.mark.parametrize("text", ["0", "0d", "99999w", " 12H "])
def test_durations_that_are_some(store: Store, text: str) -> None:
    assert run("gc", "--unused-for", text, "--dry-run").exit_code == 0
    assert [path.name for path in store.home.root.iterdir()] == ["CACHEDIR.TAG"]


@pytest.mark.parametrize("words", [["list"], ["verify"], ["gc"]])
@pytest.mark.parametrize("name", ["artifacts", "locks", "work"])
def test_a_file_in_place_of_a_folder_is_told(store: Store, words: list[str], name: str) -> None:
    (store.home.root / name).touch()
    error = run(*words).exception
    assert isinstance(error, StoreError)
    assert error.exit_code == 4
    assert str(store.home.root / name) in str(error)
    assert "move" in (error.hint or "")


def test_things_of_others_are_noted_and_stay(store: Store, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    (photos / "album").mkdir(parents=True)
    (photos / "album" / "photo.jpg").touch()
    (photos / "odd\x1b[31m\nname").mkdir()
    store.home.artifacts.symlink_to(photos)
    for words in (["list"], ["verify"], ["gc", "--unused-for", "0"]):
        result = run(*words)
        assert result.exit_code == 0
        assert ("album: not part of the store" in result.output) == (words[0] != "gc")
        assert "\x1b" not in result.output
        assert ("odd?[31m?name: not part" in result.output) == (words[0] != "gc")
        assert (photos / "album" / "photo.jpg").exists()
