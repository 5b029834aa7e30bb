"""What units cost last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.jobs.history import Cost, History, last_build
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


def asked(one: History, root: Path, *sources: str, took: int = 0, images: tuple[str, ...] = ()) -> None:
    """Ask for units, and compile them if they take something; the compiler cache has the others."""
    for source in sources:
        it = unit(root, source)
        one.expected(it, images)
        if took:
            one.learn(it, images, Cost(took, 1.0))


def memories(path: Path) -> tuple[list[int], bool]:
    compiled = last_build(path / "units/vllm.json")
    return sorted(cost.memory for cost in compiled.costs), compiled.whole


def test_units_of_an_unfinished_build_are_a_part_and_each_source_counts_once(tmp_path: Path) -> None:
    assert memories(tmp_path) == ([], False)
    one = history(tmp_path, tmp_path)
    asked(one, tmp_path, "a.cu", "b.cu", took=1, images=("sm_90a",))
    asked(one, tmp_path, "a.cu", took=3, images=("sm_121a",))
    one.save()
    assert memories(tmp_path) == ([1, 3], False)


def test_only_units_of_the_newest_finished_build_count(tmp_path: Path) -> None:
    for sources, took in ((("a.cu", "old.cu"), 1), (("a.cu", "new.cu"), 2)):
        one = history(tmp_path, tmp_path)
        asked(one, tmp_path, *sources, took=took)
        one.finish()
        one.save()
        one.save()  # the broker's last one comes on top
    assert memories(tmp_path) == ([2, 2], True)
    failed = history(tmp_path, tmp_path)
    asked(failed, tmp_path, "a.cu", "newer.cu", took=5)
    failed.save()
    assert memories(tmp_path) == ([2, 5], True), "as many as before, with what is known now"


def test_what_the_compiler_cache_has_counts_too(tmp_path: Path) -> None:
    nothing = history(tmp_path, tmp_path)
    asked(nothing, tmp_path, "never-compiled-here.cu")
    nothing.finish()
    nothing.save()
    assert not list(tmp_path.iterdir())
    for took, sources in ((7, ("a.cu", "b.cu")), (0, ("a.cu", "never-compiled-here.cu"))):
        one = history(tmp_path, tmp_path)
        asked(one, tmp_path, *sources, took=took)
        one.finish()
        one.save()
    assert memories(tmp_path) == ([7], True)


def test_a_build_that_goes_on_has_the_units_of_all_its_attempts(tmp_path: Path) -> None:
    def attempt(build: str) -> History:
        return History(tmp_path / "units/vllm.json", root=tmp_path, default=DEFAULT, build=build)

    other, first, second = attempt("k0"), attempt("k1"), attempt("k1")
    asked(other, tmp_path, "other.cu", took=1)
    other.save()
    asked(first, tmp_path, "a.cu", took=2)
    first.save()
    second = attempt("k1")
    asked(second, tmp_path, "b.cu", took=3)
    second.finish()
    second.save()
    second.save()
    assert memories(tmp_path) == ([2, 3], True)


def test_files_of_older_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "units/vllm.json"
    path.parent.mkdir()
    path.write_text('{"a.cu nvcc sm_90a": [7, 1.5], "a.cu nvcc sm_121a": [8, 2.5], "b b.cpp g++ ": [1, 0.5]}')
    assert memories(tmp_path) == ([1, 8], False)
