"""What happens when several wheels are merged into one tree, and two own a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.build.merge import Merge, merge
from orchestrator.errors import LockError

if TYPE_CHECKING:
    from pathlib import Path

PKGUTIL = '"""Shared."""\n__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "merged").mkdir()
    return tmp_path


def tree(place: Path, name: str, files: dict[str, str]) -> tuple[str, Path]:
    root = place / name
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return f"{name} 1.0", root


def merged(place: Path, *trees: tuple[str, Path]) -> Merge:
    return merge(trees, place / "merged")


def test_files_are_links_to_one_copy(place: Path) -> None:
    a = tree(place, "a", {"site/a/x.py": "x", "scripts/run": "r"})
    b = tree(place, "b", {"site/b/y.py": "y", "data/share/z": "z"})
    result = merged(place, a, b)
    assert (place / "merged/site/a/x.py").samefile(place / "a/site/a/x.py")
    assert (place / "merged/data/share/z").read_text() == "z"
    assert (result.linked, result.copied) == (4, 0)


def test_a_namespace_is_shared(place: Path) -> None:
    a = tree(place, "a", {"site/nvidia/cu13/lib/liba.so": "a"})
    b = tree(place, "b", {"site/nvidia/cu13/lib/libb.so": "b"})
    merged(place, a, b)
    assert {path.name for path in (place / "merged/site/nvidia/cu13/lib").iterdir()} == {"liba.so", "libb.so"}


def test_equal_files_are_fine(place: Path) -> None:
    a = tree(place, "a", {"site/shared.h": "same"})
    b = tree(place, "b", {"site/shared.h": "same"})
    assert merged(place, a, b).stray == []


def test_a_file_of_two_wheels_names_both(place: Path) -> None:
    a = tree(place, "a", {"site/pkg/core.py": "1"})
    b = tree(place, "b", {"site/other.py": "1"})
    c = tree(place, "c", {"site/pkg/core.py": "2"})
    with pytest.raises(LockError, match=r"a 1\.0 and c 1\.0 both own pkg/core\.py") as caught:
        merged(place, a, b, c)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_against_a_folder_names_both(place: Path, *, file_first: bool) -> None:
    a = tree(place, "a", {"site/pkg": "1"} if file_first else {"site/pkg/x": "1"})
    b = tree(place, "b", {"site/pkg/x": "1"} if file_first else {"site/pkg": "1"})
    with pytest.raises(LockError, match=r"a 1\.0 and b 1\.0 both own pkg"):
        merged(place, a, b)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("namespace", ["", "# nothing\n", PKGUTIL])
def test_an_init_with_content_wins_over_an_empty_one(place: Path, order: int, namespace: str) -> None:
    a = tree(place, "a", {"site/pkg/__init__.py": namespace})
    b = tree(place, "b", {"site/pkg/__init__.py": "from pkg.core import run\n"})
    merged(place, *(a, b)[::order])
    assert (place / "merged/site/pkg/__init__.py").read_text() == "from pkg.core import run\n"


def test_two_inits_with_content_are_a_conflict(place: Path) -> None:
    a = tree(place, "a", {"site/cv2/__init__.py": "import gui\n"})
    b = tree(place, "b", {"site/cv2/__init__.py": "import headless\n"})
    with pytest.raises(LockError, match="cv2/__init__"):
        merged(place, a, b)


@pytest.mark.parametrize(
    "path", ["site/tests/test_a.py", "site/LICENSE", "site/README.md", "site/docs/conf.py"]
)
def test_what_nobody_imports_is_kept_once(place: Path, path: str) -> None:
    a = tree(place, "a", {path: "a"})
    b = tree(place, "b", {path: "b"})
    result = merged(place, a, b)
    assert result.stray == [path]
    assert (place / "merged" / path).read_text() == "a"


@pytest.mark.parametrize("path", ["site/pkg/LICENSE", "site/latest/x.py", "scripts/README"])
def test_the_same_names_elsewhere_are_no_strays(place: Path, path: str) -> None:
    with pytest.raises(LockError):
        merged(place, tree(place, "a", {path: "a"}), tree(place, "b", {path: "b"}))


def test_headers_lie_apart(place: Path) -> None:
    a = tree(place, "a", {"headers/x.h": "a"})
    b = tree(place, "b", {"headers/x.h": "b"})
    merged(place, a, b)
    assert (place / "merged/headers/b/x.h").read_text() == "b"
