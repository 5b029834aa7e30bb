"""Each way in which a command can replace torch is seen."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from wheelmaker import make_layer

from orchestrator.build.torchcheck import Snapshot, check, take
from orchestrator.errors import StoreError, TorchReplacedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"torch/__init__.py": "import error\n", "torch/lib/libtorch.so": "x" * 1000, "torchgen/a.py": ""}


class Place:
    """An environment's own folder, and a layer with torch."""

    def __init__(self, folder: Path) -> None:
        self.own = folder / "env" / "site-packages"
        self.own.mkdir(parents=True)
        self.layer = make_layer(folder / "layer", "torch", "2.14.1", FILES)
        self.site = self.layer / "site"
        self.info = self.site / "torch-2.14.1.dist-info"

    def take(self, version: str = "2.14.1") -> Snapshot:
        return take([self.own, self.site], "Torch", version=version)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_untouched_one_passes(place: Place) -> None:
    before = place.take()
    (place.own / "other").mkdir()
    (place.own / "torchvision-0.1.dist-info").mkdir()
    (place.own / "torchvision").mkdir()
    check(before)
    assert before.name == "torch"
    assert before.dist_info == place.info


def add_second(place: Place) -> None:
    make_layer(place.own.parent, "torch", "2.13.0", {"torch/__init__.py": ""})
    shutil.copytree(place.own.parent / "site", place.own, dirs_exist_ok=True)


def same_version_again(place: Place) -> None:
    shutil.copytree(place.site, place.own, dirs_exist_ok=True)


def only_metadata(place: Place) -> None:
    (place.own / "Torch-2.14.1.dist-info").mkdir()
    (place.own / "Torch-2.14.1.dist-info" / "RECORD").write_text("")


def an_egg_link(place: Place) -> None:
    (place.own / "torch.egg-link").write_text("/somewhere")


def a_shadow(place: Place) -> None:
    (place.own / "torchgen").mkdir()


def upgrade_in_place(place: Place) -> None:
    shutil.rmtree(place.info)
    make_layer(place.layer, "torch", "2.15.0", FILES)


def second_in_the_layer(place: Place) -> None:
    shutil.copytree(place.info, place.site / "torch-2.15.0.dist-info")


def removed(place: Place) -> None:
    shutil.rmtree(place.info)


def record_written(place: Place) -> None:
    with (place.info / "RECORD").open("a") as file:
        file.write("torch/__init__.py,,\n")


def record_gone(place: Place) -> None:
    (place.info / "RECORD").unlink()


def file_gone(place: Place) -> None:
    (place.site / "torch" / "lib" / "libtorch.so").unlink()


def file_shorter(place: Place) -> None:
    (place.site / "torch" / "lib" / "libtorch.so").write_text("x")


def same_size_other_bytes(place: Place) -> None:
    file = place.site / "torch" / "lib" / "libtorch.so"
    file.write_text("y" * 1000)
    os.utime(file, (1, 1))


@pytest.mark.parametrize(
    ("meddle", "found"),
    [
        (add_second, "2.13.0"),
        (same_version_again, "site-packages"),
        (only_metadata, "site-packages"),
        (an_egg_link, "torch.egg-link"),
        (a_shadow, "torchgen"),
        (upgrade_in_place, "2.15.0"),
        (second_in_the_layer, "torch-2.15.0.dist-info"),
        (removed, "no dist-info"),
        (record_written, "RECORD with sha256"),
        (record_gone, "no RECORD"),
        (file_gone, "libtorch.so is missing"),
        (file_shorter, "1 bytes"),
        (same_size_other_bytes, "was written"),
    ],
)
def test_meddling_is_seen(place: Place, meddle: Callable[[Place], None], found: str) -> None:
    before = place.take()
    meddle(place)
    with pytest.raises(TorchReplacedError, match=r"2\.14\.1|RECORD") as caught:
        check(before)
    assert found in str(caught.value)
    assert caught.value.exit_code == 1
    assert caught.value.hint


def test_the_locked_version_must_be_there(place: Place) -> None:
    with pytest.raises(TorchReplacedError, match=r"expected Torch 2\.14\.0, found torch 2\.14\.1"):
        place.take("2.14.0")
    assert place.take("2.14.1.0").version == "2.14.1"


def test_nothing_there_at_all(tmp_path: Path) -> None:
    with pytest.raises(TorchReplacedError, match="no dist-info"):
        take([tmp_path, tmp_path / "missing"], "torch", version="1")


def test_a_damaged_layer_is_not_blamed_on_a_command(place: Place) -> None:
    file_shorter(place)
    with pytest.raises(StoreError, match="its RECORD says 1000"):
        place.take()


def test_two_from_the_start(place: Place) -> None:
    second_in_the_layer(place)
    with pytest.raises(TorchReplacedError, match="alone"):
        place.take()


def test_entries_that_lie_elsewhere_are_passed_over(place: Place) -> None:
    with (place.info / "RECORD").open("a") as file:
        file.write("../../../bin/torchrun,,5\ntorch-2.14.1.data/scripts/x,,7\n")
    check(place.take())
