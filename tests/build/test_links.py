"""Links in a step's scratch folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.build.links import make_links
from orchestrator.errors import BuildFailedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    for file in ("lib/libnccl.so.2", "include/nccl.h"):
        (tmp_path / "layer" / file).parent.mkdir(parents=True)
        (tmp_path / "layer" / file).write_text(file)
    return tmp_path / "layer"


def test_files_and_folders_get_other_names(layer: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    links = {"nccl/lib/libnccl.so": f"{layer}/lib/libnccl.so.2", "nccl/include": f"{layer}/include"}
    make_links(links, work)
    assert (work / "nccl/lib/libnccl.so").read_text() == "lib/libnccl.so.2"
    assert (work / "nccl/include/nccl.h").is_file()
    assert (work / "nccl/lib/libnccl.so").is_symlink()


def test_a_former_runs_links_are_made_anew(layer: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    make_links({"a": f"{layer}/lib"}, work)
    make_links({"a": f"{layer}/include"}, work)
    assert (work / "a" / "nccl.h").is_file()


def test_a_target_that_is_not_there(layer: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildFailedError, match="link a of the recipe leads to nothing") as raised:
        make_links({"a": f"{layer}/lib/libnccl.so"}, tmp_path / "work")
    assert raised.value.where == f"{layer}/lib/libnccl.so"


def test_a_place_that_is_taken(layer: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("somebody's")
    with pytest.raises(BuildFailedError, match="no room"):
        make_links({"a": f"{layer}/lib"}, work)
    assert (work / "a").read_text() == "somebody's"
