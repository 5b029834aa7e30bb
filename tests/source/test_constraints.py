"""Constraints of a stack: with extras, without, for another platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lock_help import Shelf

from orchestrator.errors import LockError, SourceError
from orchestrator.model.platform import Target
from orchestrator.source import constraints
from orchestrator.source.constraints import expanded

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home

ARM = Target("linux-aarch64", "3.12")
X86 = Target("linux-x86_64", "3.12")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "shelf")
    requires = [
        "base<9",
        "crt==13.0.*; extra == 'nvcc'",
        "nvcc==13.0.88; extra == 'nvcc' and platform_machine == 'aarch64'",
        "nvcc==13.0.86; extra == 'nvcc' and platform_machine != 'aarch64'",
        "blas>=3; extra == 'cu_blas'",
    ]
    shelf.wheel("kit", "13.0.1", requires=requires)
    shelf.wheel("kit", "13.5", requires=["nvcc==13.5; extra == 'nvcc'"])
    return shelf


def held(shelf: Shelf, home: Home, *texts: str, target: Target = ARM) -> tuple[str, ...]:
    return expanded(texts, target, config=shelf.config, home=home)


def test_without_extras_they_stay_as_they_are(shelf: Shelf, home: Home) -> None:
    assert held(shelf, home, "kit==13.*", "cuda-python>=13,<14") == ("kit==13.*", "cuda-python<14,>=13")
    assert held(shelf, home) == ()


def test_what_an_extra_pins_is_held(shelf: Shelf, home: Home) -> None:
    assert held(shelf, home, "kit[nvcc]==13.0.*") == ("kit==13.0.*", "crt==13.0.*", "nvcc==13.0.88")
    assert held(shelf, home, "kit[nvcc]==13.0.*", target=X86)[-1] == "nvcc==13.0.86"
    assert held(shelf, home, "kit[nvcc]") == ("kit", "nvcc==13.5"), "the newest that fits"
    both = held(shelf, home, "kit[nvcc,cu-blas]<13.2")
    assert both == ("kit<13.2", "blas>=3", "crt==13.0.*", "nvcc==13.0.88")


def test_one_for_another_platform(shelf: Shelf, home: Home) -> None:
    assert held(shelf, home, "kit[nvcc]==99; platform_machine == 'x86_64'") == ()


@pytest.mark.parametrize(
    ("text", "words"), [("kit[gone]==13.5", "no extra gone"), ("kit[nvcc]>14", "no wheel fits kit>14")]
)
def test_what_cannot_be_held(shelf: Shelf, home: Home, text: str, words: str) -> None:
    with pytest.raises(LockError, match=words):
        held(shelf, home, text)


def test_a_large_wheel_is_not_downloaded(shelf: Shelf, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "_LARGEST", 10)
    with pytest.raises(SourceError, match="too large"):
        held(shelf, home, "kit[nvcc]")
    assert not home.downloads.exists()
