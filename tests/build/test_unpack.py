"""One wheel into one tree: where things go, and what is refused."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING

import pytest
import wheelhouse

from orchestrator.build.unpack import BLOCK, read_inventory, unpack_wheel
from orchestrator.errors import ArchiveRefusedError, InterruptedRunError, StoreError

if TYPE_CHECKING:
    from pathlib import Path


def unpack(wheel: Path, destination: Path) -> Path:
    unpack_wheel(read_inventory(wheel), destination, threading.Event())
    return destination


def test_each_part_of_a_wheel_goes_to_its_place(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(
        tmp_path,
        "some-tool",
        {
            "some_tool/__init__.py": "x = 1\n",
            "some_tool/tool": (b"\x7fELF", wheelhouse.EXECUTABLE),
            "some_tool-1.0.data/purelib/pure.py": "",
            "some_tool-1.0.data/platlib/native.so": b"so",
            "some_tool-1.0.data/scripts/run": "#!python\n",
            "some_tool-1.0.data/data/share/man/run.1": "man",
            "some_tool-1.0.data/headers/some.h": "int x;",
        },
    )
    tree = unpack(wheel, tmp_path / "trees" / "a")
    found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert found == {
        "site/some_tool/__init__.py",
        "site/some_tool/tool",
        "site/pure.py",
        "site/native.so",
        "site/some_tool-1.0.dist-info/METADATA",
        "site/some_tool-1.0.dist-info/WHEEL",
        "site/some_tool-1.0.dist-info/RECORD",
        "scripts/run",
        "data/share/man/run.1",
        "headers/some.h",
    }
    assert (tree / "site/some_tool/__init__.py").read_text() == "x = 1\n"


def test_a_tree_is_read_only_and_keeps_what_is_executable(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(
        tmp_path, "a", {"a/tool": (b"1", wheelhouse.EXECUTABLE), "a/text": "2", "a-1.0.data/scripts/s": "3"}
    )
    tree = unpack(wheel, tmp_path / "trees" / "a")
    modes = {
        name: stat.S_IMODE((tree / name).stat().st_mode)
        for name in ("site/a/tool", "site/a/text", "scripts/s", "site", "site/a")
    }
    assert not any(mode & 0o222 for mode in modes.values())
    assert {name for name, mode in modes.items() if mode & 0o100} == {
        "site/a/tool",
        "scripts/s",
        "site",
        "site/a",
    }
    assert stat.S_IMODE(tree.stat().st_mode) & 0o200, "gc must be able to rename it"


@pytest.mark.parametrize(
    ("member", "mode", "words"),
    [
        ("../evil.py", wheelhouse.PLAIN, "outside"),
        ("a/../../evil.py", wheelhouse.PLAIN, "outside"),
        ("/etc/evil", wheelhouse.PLAIN, "outside"),
        ("a\\..\\evil", wheelhouse.PLAIN, "outside"),
        ("a//b.py", wheelhouse.PLAIN, "outside"),
        ("a-1.0.data/scripts/../../evil", wheelhouse.PLAIN, "outside"),
        ("a/link", stat.S_IFLNK | 0o777, "no links"),
        ("a/fifo", stat.S_IFIFO | 0o644, "no links"),
        ("a-1.0.data/elsewhere/x", wheelhouse.PLAIN, "no known place"),
        ("a-1.0.data/scripts", wheelhouse.PLAIN, "no known place"),
    ],
)
def test_a_wheel_that_reaches_out_is_refused_untouched(
    tmp_path: Path, member: str, mode: int, words: str
) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/__init__.py": "", member: (b"/etc/passwd", mode)})
    with pytest.raises(ArchiveRefusedError, match=words) as caught:
        unpack(wheel, tmp_path / "trees" / "a")
    assert caught.value.exit_code == 5
    assert caught.value.where == str(wheel)
    assert not (tmp_path / "trees").exists()
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_path_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "1"})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("a/x", "2")
    with pytest.raises(ArchiveRefusedError, match="a/x is there twice"):
        read_inventory(wheel)


def test_the_same_place_by_two_names_is_refused(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "1", "a-1.0.data/purelib/a/x": "2"})
    with pytest.raises(ArchiveRefusedError, match="twice"):
        read_inventory(wheel)


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "1", "a/x/y": "2"})
    with pytest.raises(ArchiveRefusedError, match="a/x is a file and a folder"):
        read_inventory(wheel)


def test_a_bomb_is_refused_by_its_list_alone(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a-1.0.dist-info/RECORD", "")
        with archive.open("a/zeros", "w", force_zip64=True) as sink:
            for _ in range(40):
                sink.write(bytes(1 << 20))
    # The list claims far more than is there, as a hostile one would.
    size = (40 << 20).to_bytes(4, "little")
    data = wheel.read_bytes()
    assert size in data
    wheel.write_bytes(data.replace(size, (0xFFFFFF00).to_bytes(4, "little")))
    with pytest.raises(ArchiveRefusedError, match="times its size"):
        read_inventory(wheel)


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "1"}, dist_info=False)
    with pytest.raises(ArchiveRefusedError, match=r"one \.dist-info folder, this one 0"):
        read_inventory(wheel)
    wheel.write_bytes(b"no zip at all")
    with pytest.raises(ArchiveRefusedError, match="damaged"):
        read_inventory(wheel)
    with pytest.raises(StoreError):
        read_inventory(tmp_path / "missing.whl")


def test_a_damaged_wheel_leaves_nothing(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "text " * 1000})
    data = bytearray(wheel.read_bytes())
    data[60] ^= 0xFF
    wheel.write_bytes(data)
    with pytest.raises(ArchiveRefusedError, match="damaged"):
        unpack(wheel, tmp_path / "trees" / "a")
    assert list((tmp_path / "trees").iterdir()) == []


def test_it_stops_when_told_and_leaves_nothing(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "text"})
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedRunError):
        unpack_wheel(read_inventory(wheel), tmp_path / "trees" / "a", stop)
    assert list((tmp_path / "trees").iterdir()) == []


def test_a_tree_that_is_there_stays(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "new"})
    (tmp_path / "trees/a/site").mkdir(parents=True)
    (tmp_path / "trees/a/site/old").write_text("old")
    tree = unpack(wheel, tmp_path / "trees" / "a")
    assert [path.name for path in (tree / "site").iterdir()] == ["old"]
    assert [path.name for path in (tmp_path / "trees").iterdir()] == ["a"]


def test_the_size_on_disk_counts_whole_blocks(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "a", {"a/x": "1", "a/y": b"z" * (BLOCK + 1), "a/empty": ""})
    rest = 3 * BLOCK  # METADATA, WHEEL, RECORD
    assert read_inventory(wheel).disk_bytes == BLOCK + 2 * BLOCK + rest


def test_python_imports_from_a_tree(tmp_path: Path) -> None:
    _, wheel = wheelhouse.make_wheel(tmp_path, "mod-a", {"mod_a.py": "value = 42\n"})
    tree = unpack(wheel, tmp_path / "trees" / "a")
    code = "import mod_a, importlib.metadata as m; print(mod_a.value, m.version('mod-a'))"
    out = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={"PYTHONPATH": str(tree / "site")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert out.stdout == "42 1.0\n"
