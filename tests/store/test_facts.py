"""Facts hold as long as a file looks the same; the cache can be lost at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from store_help import start

from orchestrator.store.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.store.home import Home


class Counting:
    """A computation that counts how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, path: Path) -> str:
        self.runs += 1
        return path.read_text()


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "nvcc"
    path.write_text("one")
    return path


def test_computed_once_across_instances(home: Home, tool: Path) -> None:
    compute = Counting()
    assert [Facts(home.facts).get_or(tool, "text", compute) for _ in range(3)] == ["one"] * 3
    assert compute.runs == 1
    Facts(home.facts).get_or(tool, "other", compute)
    assert compute.runs == 2
    Facts(home.facts).get_or(tool, "text", compute)
    assert compute.runs == 2


def _longer(tool: Path) -> None:
    tool.write_text("longer")


def _same_size_and_time(tool: Path) -> None:
    seen = tool.stat()
    tool.write_text("two")
    os.utime(tool, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _another_inode(tool: Path) -> None:
    seen = tool.stat()
    tool.with_name("new").write_text("new")
    tool.with_name("new").rename(tool)
    os.utime(tool, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize("change", [_longer, _same_size_and_time, _another_inode])
def test_a_changed_file_is_computed_again(home: Home, tool: Path, change: Callable[[Path], None]) -> None:
    facts = Facts(home.facts)
    facts.get_or(tool, "text", Counting())
    facts.get_or(tool, "other", Counting())
    change(tool)
    assert facts.get_or(tool, "text", Counting()) == tool.read_text()
    assert Facts(home.facts).get_or(tool, "other", Counting()) == tool.read_text()


def test_links_are_followed(home: Home, tool: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tool)
    facts = Facts(home.facts)
    assert facts.get_or(link, "text", Counting()) == "one"
    (tmp_path / "other").write_text("other")
    link.unlink()
    link.symlink_to(tmp_path / "other")
    assert facts.get_or(link, "text", Counting()) == "other"


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"schema": "sparkbuild.facts/9", "files": {}}']
)
def test_a_damaged_cache_is_ignored_and_rewritten(home: Home, tool: Path, damage: bytes) -> None:
    home.root.mkdir()
    home.facts.write_bytes(damage)
    assert Facts(home.facts).get_or(tool, "text", Counting()) == "one"
    compute = Counting()
    Facts(home.facts).get_or(tool, "text", compute)
    assert compute.runs == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_folder_in_place_of_the_cache(home: Home, tool: Path, make: Callable[[Path], None]) -> None:
    home.root.mkdir()
    make(home.facts)
    assert Facts(home.facts).get_or(tool, "text", Counting()) == "one"
    assert home.facts.is_dir() or Facts(home.facts).get_or(tool, "text", Path.read_text) == "one"


def test_an_unwritable_cache_costs_only_time(unwritable: Path, tool: Path) -> None:
    compute = Counting()
    facts = Facts(unwritable / "facts.json")
    assert [facts.get_or(tool, kind, compute) for kind in ("a", "b", "a", "b")] == ["one"] * 4
    assert compute.runs == 2


def test_a_file_that_changes_meanwhile_is_not_remembered(home: Home, tool: Path) -> None:
    def compute(path: Path) -> str:
        before = path.read_text()
        path.write_text("changed meanwhile")
        return before

    facts = Facts(home.facts)
    assert facts.get_or(tool, "text", compute) == "one"
    assert facts.get_or(tool, "text", Counting()) == "changed meanwhile"


def test_errors_pass_and_are_not_remembered(home: Home, tool: Path) -> None:
    def fail(path: Path) -> str:
        raise ValueError(path.name)

    facts = Facts(home.facts)
    with pytest.raises(ValueError, match="nvcc"):
        facts.get_or(tool, "text", fail)
    assert facts.get_or(tool, "text", Counting()) == "one"
    with pytest.raises(FileNotFoundError):
        facts.get_or(tool.with_name("missing"), "text", Counting())


def test_facts_of_files_that_are_gone_are_dropped(home: Home, tool: Path, tmp_path: Path) -> None:
    facts = Facts(home.facts)
    facts.get_or(tool, "text", Counting())
    tool.unlink()
    (tmp_path / "other").write_text("x")
    facts.get_or(tmp_path / "other", "text", Counting())
    assert list(msgspec.json.decode(home.facts.read_bytes())["files"]) == [str(tmp_path / "other")]


def test_processes_at_once_never_corrupt_it(home: Home, tmp_path: Path) -> None:
    files = [tmp_path / f"file{number}" for number in range(3)]
    for file in files:
        file.write_text("x")
    children = [start("remember", home, *map(str, files)) for _ in range(2)]
    for child in children:
        assert child.communicate(timeout=30)[0] == "ready\ndone\n"
    known = msgspec.json.decode(home.facts.read_bytes())["files"]
    assert known
    for place, entry in known.items():
        assert set(entry["facts"].values()) == {Path(place).name}
