"""What units cost last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.jobs.history import Cost, History
from orchestrator.jobs.units import Unit

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT = Cost(4 << 30, 60.0)


def history(path: Path, root: Path) -> History:
    return History(path / "units" / "vllm.json", root=root, default=DEFAULT)


def unit(folder: Path, source: str = "a.cu", compiler: str = "/cuda/bin/nvcc") -> Unit:
    return Unit(1, "vllm", str(folder), "compile", compiler, ("-c", source))


def test_a_unit_is_known_again_in_another_folder(tmp_path: Path) -> None:
    one = history(tmp_path, tmp_path / "one")
    one.learn(unit(tmp_path / "one/build", "../csrc/a.cu"), ("sm_121a",), Cost(7, 1.5))
    one.save()
    two = history(tmp_path, tmp_path / "two")
    assert two.expected(unit(tmp_path / "two", f"{tmp_path}/two/csrc/a.cu"), ("sm_121a",)) == Cost(7, 1.5)
    assert two.expected(unit(tmp_path / "two", "csrc/b.cu"), ("sm_121a",)) == DEFAULT
    assert two.expected(unit(tmp_path / "two", "csrc/a.cu"), ("sm_90a",)) == DEFAULT
    assert two.expected(unit(tmp_path / "two", "csrc/a.cu", "g++"), ("sm_121a",)) == DEFAULT


def test_the_most_counts_and_fades(tmp_path: Path) -> None:
    one, it = history(tmp_path, tmp_path), unit(tmp_path)
    for memory, expected in ((100, 100), (200, 200), (50, 150), (50, 112), (50, 84), (90, 90)):
        one.learn(it, (), Cost(memory, 1.0))
        assert one.expected(it, ()).memory == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"a": 1}',
        '{"a": []}',
        '{"a": ["x", "y"]}',
        '{"a": [1e999, 1]}',
        '{"a": {"0": 1}}',
        "\udcff",
    ],
)
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "units/vllm.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    one = history(tmp_path, tmp_path)
    assert not one.costs
    one.learn(unit(tmp_path), (), Cost(7, 1.0))
    one.save()
    assert history(tmp_path, tmp_path).costs == {"a.cu nvcc ": Cost(7, 1.0)}


def test_two_runs_at_once_keep_what_both_have_learned(tmp_path: Path) -> None:
    one, two = history(tmp_path, tmp_path), history(tmp_path, tmp_path)
    one.learn(unit(tmp_path, "a.cu"), (), Cost(1, 1.0))
    two.learn(unit(tmp_path, "b.cu"), (), Cost(2, 2.0))
    one.save()
    two.save()
    one.save()
    assert history(tmp_path, tmp_path).costs == {"a.cu nvcc ": Cost(1, 1.0), "b.cu nvcc ": Cost(2, 2.0)}


def test_nothing_learned_writes_nothing_and_a_full_disk_is_passed_over(tmp_path: Path) -> None:
    one = history(tmp_path, tmp_path)
    one.save()
    assert not list(tmp_path.iterdir())
    (tmp_path / "units").write_text("in the way")
    one.learn(unit(tmp_path), (), Cost(7, 1.0))
    one.save()
    assert (tmp_path / "units").read_text() == "in the way"


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    one, it = history(tmp_path, tmp_path), unit(tmp_path, "\udcff.cu")
    one.learn(it, (), Cost(7, 1.0))
    one.save()
    assert history(tmp_path, tmp_path).expected(it, ()) == Cost(7, 1.0)
