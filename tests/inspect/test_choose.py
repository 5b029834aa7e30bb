"""Which of an index's files an audit takes."""

from __future__ import annotations

import pytest

from orchestrator.errors import SpecError
from orchestrator.inspect.choose import choose_wheel
from orchestrator.inspect.indexed import IndexName
from orchestrator.source.index import IndexLink

SPARK = "manylinux_2_28_aarch64"


def offered(*files: str, yanked: bool = False, requires: str | None = None) -> list[IndexLink]:
    """Return links as an index has them; a name without a suffix is that of a wheel."""
    return [
        IndexLink(f"file:///{file}", file, file.split("-")[1].removesuffix(".tar.gz"), None, yanked, requires)
        for file in (file if file.endswith(".gz") else f"{file}.whl" for file in files)
    ]


def chosen(
    links: list[IndexLink], version: str = "1.0", platform: str | None = SPARK, python: str | None = "3.12"
) -> str:
    return choose_wheel(links, IndexName("p", version), platform=platform, python=python).file.removesuffix(
        ".whl"
    )


@pytest.mark.parametrize(
    "files",
    [
        ("p-1.0-cp312-cp312-manylinux_2_28_aarch64", "p-1.0-cp38-abi3-manylinux_2_28_aarch64"),
        ("p-1.0-cp312-cp312-manylinux_2_17_aarch64", "p-1.0-cp312-cp312-manylinux_2_34_aarch64"),
        ("p-1.0-cp312-cp312-manylinux2014_aarch64", "p-1.0-cp312-cp312-manylinux_2_28_x86_64"),
        ("p-1.0-cp38-abi3-manylinux_2_28_aarch64", "p-1.0-py3-none-manylinux_2_28_aarch64"),
        ("p-1.0-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64", "p-1.0-py3-none-any"),
        ("p-1.0-py3-none-any", "p-1.0-cp311-cp311-manylinux_2_28_aarch64"),
        ("p-1.0-2-py3-none-any", "p-1.0-1-py3-none-any"),
        ("p-1.0-cp312-cp312-linux_aarch64", "p-1.0-cp312-cp312-musllinux_1_2_aarch64"),
    ],
)
def test_the_best_is_chosen_wherever_it_stands(files: tuple[str, str]) -> None:
    assert chosen(offered(*files)) == files[0]
    assert chosen(offered(*reversed(files), "p-2.0-py3-none-any", "p-1.0.tar.gz")) == files[0]


def test_versions_are_compared_as_versions() -> None:
    assert chosen(offered("p-1.0.0-py3-none-any")) == "p-1.0.0-py3-none-any"
    assert chosen(offered("p-1.0rc1-py3-none-any"), "1.0rc1") == "p-1.0rc1-py3-none-any"
    both = offered("p-1.0-py3-none-any", "p-1.0+cu130-cp312-cp312-manylinux_2_28_aarch64")
    assert chosen(both) == "p-1.0+cu130-cp312-cp312-manylinux_2_28_aarch64"
    assert chosen(both, platform="x86_64") == "p-1.0-py3-none-any"
    assert chosen(both, "1.0+cu130").startswith("p-1.0+cu130")
    with pytest.raises(SpecError, match=r"no version 1\.0\+cu126 of p"):
        chosen(both, "1.0+cu126")


def test_what_was_taken_back_comes_last() -> None:
    exact, pure = "p-1.0-cp312-cp312-manylinux_2_28_aarch64", "p-1.0-py3-none-any"
    assert chosen([*offered(exact, yanked=True), *offered(pure)]) == pure
    assert chosen(offered(exact, pure, yanked=True)) == exact


@pytest.mark.parametrize("requires", [None, ">=3.10", ">=3.12.3", "<=3.12", "<3.13,>=3.9", "not readable"])
def test_a_python_that_is_served(requires: str | None) -> None:
    assert chosen(offered("p-1.0-py3-none-any", requires=requires)) == "p-1.0-py3-none-any"


def test_a_python_that_is_not_served() -> None:
    with pytest.raises(SpecError, match=r"does not serve Python 3\.12, but <3\.12") as caught:
        chosen(offered("p-1.0-py3-none-any", requires="<3.12"))
    assert "--python" in str(caught.value.hint)
    with pytest.raises(SpecError, match=r"no wheel of it is for Python 3\.12: .*cp39-cp39") as caught:
        chosen(offered(*(f"p-1.0-cp3{minor}-cp3{minor}-{SPARK}" for minor in (9, 10, 11))))
    assert caught.value.hint == "name one of these: --python 3.11"


def test_only_sources() -> None:
    with pytest.raises(SpecError, match="only its source") as caught:
        chosen(offered("p-1.0.tar.gz", "p-2.0-py3-none-any"))
    assert (caught.value.exit_code, caught.value.where) == (3, "p==1.0")


def test_no_such_platform_names_those_that_there_are() -> None:
    links = offered(
        *(f"p-1.0-{tag}-manylinux_2_28_x86_64" for tag in ("cp311-cp311", "cp312-cp312")),
        *("p-1.0-py3-none-manylinux2014_aarch64.manylinux_2_34_aarch64", "p-1.0-cp312-cp312-win_amd64"),
    )
    with pytest.raises(SpecError) as caught:
        chosen(links, platform="musllinux_1_2_aarch64")
    assert caught.value.message == (
        "no wheel of it is for --platform musllinux_1_2_aarch64: "
        "there are manylinux_2_28_x86_64, manylinux_2_34_aarch64, win_amd64"
    )
    assert caught.value.hint == "name one of these: --platform manylinux_2_28_x86_64"
    assert chosen(links, platform="manylinux_2_28_x86_64").endswith("cp312-manylinux_2_28_x86_64")
    with pytest.raises(SpecError, match="this machine") as caught:
        chosen(offered("p-1.0-cp312-cp312-win_amd64"), platform=None)
    assert "for Linux" in str(caught.value.hint)


def test_no_such_version_names_its_neighbours() -> None:
    versions = ("0.9", "1.0", "1.2", "1.10", "2.0", "3.0", "4.0rc1")
    with pytest.raises(SpecError) as caught:
        chosen(offered(*(f"p-{version}-py3-none-any" for version in versions)), "1.11")
    assert caught.value.message == "the index has no version 1.11 of p"
    assert caught.value.hint == "the nearest are 1.2, 1.10, 2.0, 3.0; the latest is 3.0"
    with pytest.raises(SpecError) as caught:
        chosen(offered("p-4.0rc1-py3-none-any"), "4.0")
    assert caught.value.hint == "the nearest are 4.0rc1; the latest is 4.0rc1"


def test_an_index_that_could_not_be_asked_is_told_when_nothing_is_found() -> None:
    name = IndexName("p", "9")
    with pytest.raises(SpecError, match=r"no version 9 of p; x cannot be asked"):
        choose_wheel(
            offered("p-1.0-py3-none-any"), name, platform=None, python=None, troubles=["x cannot be asked"]
        )
