"""Platforms and Pythons as they are asked for."""

from __future__ import annotations

import sys

import pytest
from packaging.tags import Tag, parse_tag, sys_tags

from orchestrator.errors import UsageError
from orchestrator.inspect.targets import platform_tags, python_version, supported_tags


def test_a_platform_takes_older_ones_best_first() -> None:
    tags = platform_tags("manylinux_2_28_aarch64")
    assert tags[:2] == ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64")
    assert tags[-3:] == ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64")
    old = platform_tags("manylinux2010_x86_64")
    assert old[:2] == ("manylinux_2_12_x86_64", "manylinux2010_x86_64")
    assert old[-2:] == ("manylinux1_x86_64", "linux_x86_64")
    assert platform_tags("musllinux_1_2_aarch64")[:3] == (
        *(f"musllinux_1_{minor}_aarch64" for minor in (2, 1, 0)),
    )


@pytest.mark.parametrize("word", ["linux-aarch64", "linux_aarch64", "aarch64", "arm64", "LINUX-ARM64"])
def test_a_machine_alone_takes_any_glibc(word: str) -> None:
    assert platform_tags(word) == platform_tags("aarch64")
    assert {"manylinux_2_39_aarch64", "manylinux2014_aarch64", "linux_aarch64"} <= {*platform_tags(word)}
    assert not any("x86_64" in tag or "musl" in tag for tag in platform_tags(word))


@pytest.mark.parametrize(
    "word",
    [
        "",
        "linux",
        "aarch46",
        "manylinux_2_28",
        "manylinux_2_28_riscv64",
        "win_amd64",
        "manylinux_3_1_aarch64",
    ],
)
def test_other_words_are_no_platform(word: str) -> None:
    with pytest.raises(UsageError, match="no platform") as caught:
        platform_tags(word)
    assert "manylinux_2_28_aarch64" in str(caught.value.hint)


def test_pythons() -> None:
    assert python_version("3.12") == (3, 12)
    assert python_version(None) == sys.version_info[:2]
    for word in ("3", "2.7", "3.x", "cp312", ""):
        with pytest.raises(UsageError, match="no Python version"):
            python_version(word)


def test_tags_of_a_python_in_pips_order() -> None:
    tags = supported_tags("manylinux_2_28_aarch64", "3.12")
    order = [
        *("cp312-cp312-manylinux_2_28_aarch64", "cp312-cp312-manylinux2014_aarch64"),
        *("cp312-abi3-manylinux_2_28_aarch64", "cp312-none-manylinux_2_17_aarch64"),
        *("cp38-abi3-manylinux_2_28_aarch64", "py3-none-manylinux_2_28_aarch64", "py3-none-any"),
    ]
    places = [tags.index(tag) for word in order for tag in parse_tag(word)]
    assert places == sorted(places)
    assert not {Tag("cp313", "cp313", "manylinux_2_28_aarch64"), Tag("cp313", "abi3", "linux_aarch64")} & {
        *tags
    }


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="tags are those of CPython")
def test_nothing_said_means_this_machine_and_python() -> None:
    assert next(iter(sys_tags())) in supported_tags(None, None)
