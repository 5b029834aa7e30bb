"""Archives, well-behaved and hostile: whole or not at all."""

from __future__ import annotations

import errno
import io
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_help import tree_of

from orchestrator.errors import ArchiveRefusedError, NoSpaceError, SourceError
from orchestrator.source import archive as archive_module
from orchestrator.source.archive import unpack
from orchestrator.source.archive_judge import Entry, Limits, judge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = 1_600_000_000
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=target)


def make_tar(path: Path, *entries: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]  # a mode that varies
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return path


def make_zip(path: Path, entries: Sequence[tuple[str, bytes, int]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name, (2020, 9, 13, 12, 26, 40))
            info.external_attr = mode << 16
            made.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def refuse(path: Path, match: str, **options: Limits) -> None:
    """Expect a refusal that leaves nothing behind."""
    dest = path.parent / "out" / "dest"
    with pytest.raises(ArchiveRefusedError, match=match) as caught:
        unpack(path, dest, **options)
    assert caught.value.exit_code == 5
    assert str(path) in str(caught.value)
    assert not dest.parent.exists() or list(dest.parent.iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_sdist_loses_its_top_folder(tmp_path: Path, mode: str) -> None:
    made = make_tar(
        tmp_path / "a",
        entry("p-1.0", type=tarfile.DIRTYPE),
        entry("p-1.0/setup.py", b"x", mode=0o640),
        entry("p-1.0/deep/er/run.sh", b"#!", mode=0o777),
        link("p-1.0/deep/link", "../setup.py"),
        link("p-1.0/hard", "p-1.0/setup.py", tarfile.LNKTYPE),
        entry("p-1.0/empty", type=tarfile.DIRTYPE),
        mode=mode,
    )
    unpack(made, tmp_path / "to" / "dest")
    dest = tmp_path / "to" / "dest"
    assert tree_of(dest) == {
        "setup.py": "x",
        "deep/er/run.sh": "#!",
        "deep/link": "-> ../setup.py",
        "hard": "x",
    }
    assert (dest / "empty").is_dir()
    assert stat.S_IMODE((dest / "setup.py").stat().st_mode) == 0o644
    assert stat.S_IMODE((dest / "deep/er/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE(dest.stat().st_mode) == 0o755
    assert (dest / "setup.py").stat().st_mtime == 1_600_000_000
    assert [path.name for path in dest.parent.iterdir()] == ["dest"]


def test_a_tar_of_zstandard(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = make_tar(tmp_path / "a.tar", entry("p/x", b"y"), mode="w")
    (tmp_path / "a.tar.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    unpack(tmp_path / "a.tar.zst", tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"x": "y"}


def test_a_zip(tmp_path: Path) -> None:
    made = make_zip(
        tmp_path / "a.zip",
        [
            ("p/", b"", stat.S_IFDIR | 0o755),
            ("p/x", b"y", 0),
            ("p/run", b"z", stat.S_IFREG | 0o755),
            ("p/l", b"x", stat.S_IFLNK | 0o777),
        ],
    )
    unpack(made, tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"x": "y", "run": "z", "l": "-> x"}
    assert stat.S_IMODE((tmp_path / "dest/run").stat().st_mode) == 0o755
    assert (tmp_path / "dest/x").stat().st_mtime == 1_600_000_000


def test_two_tops_or_a_lone_file_keep_their_names(tmp_path: Path) -> None:
    unpack(make_tar(tmp_path / "a", entry("a/x", b"1"), entry("b/x", b"2")), tmp_path / "two")
    assert tree_of(tmp_path / "two") == {"a/x": "1", "b/x": "2"}
    unpack(make_tar(tmp_path / "b", entry("./lone", b"1")), tmp_path / "one")
    assert tree_of(tmp_path / "one") == {"lone": "1"}
    unpack(make_tar(tmp_path / "c"), tmp_path / "none")
    assert tree_of(tmp_path / "none") == {}


def test_a_file_that_stands_there_twice_is_the_later_one(tmp_path: Path) -> None:
    unpack(make_tar(tmp_path / "a", entry("x", b"1"), entry("y"), entry("x", b"22")), tmp_path / "dest")
    assert tree_of(tmp_path / "dest") == {"x": "22", "y": ""}


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ([entry("/etc/x")], "absolute"),
        ([entry("p/../../x")], "leads out|outside"),
        ([entry("..")], "leads out|outside"),
        ([link("p/..", "x")], "leads out|outside"),
        ([entry("x"), link(".", "x")], "stand for the whole tree"),
        ([link("p/l", "/etc/passwd"), entry("p/x")], "leads? out|absolute"),
        ([link("p/l", "../x"), entry("p/x")], "leads out"),
        ([link("l", "a/../../x"), entry("x")], "outside|leads out"),
        ([link("up/deep/l", "../.."), link("t", "up/deep/l/.."), entry("x")], "leads out"),
        ([link("a", "b"), link("b", "a"), entry("x")], "circle"),
        ([link("l", "."), entry("l/x"), entry("y")], "through the link"),
        ([entry("a/x"), link("a", "b"), entry("y")], "twice"),
        ([link("a", "b"), entry("a"), entry("b")], "twice"),
        ([entry("a"), entry("a/b"), entry("y")], "below a file"),
        ([link("h", "/etc/passwd", tarfile.LNKTYPE), entry("y")], "absolute|outside"),
        ([link("h", "../x", tarfile.LNKTYPE), entry("y")], "leads out|outside"),
        ([link("h", "later", tarfile.LNKTYPE), entry("later")], "no earlier file"),
        ([entry("d", type=tarfile.CHRTYPE), entry("y")], "no file, folder or link|special"),
        ([entry("d", type=tarfile.BLKTYPE), entry("y")], "no file, folder or link|special"),
        ([entry("d", type=tarfile.FIFOTYPE), entry("y")], "no file, folder or link|special"),
    ],
)
def test_what_reaches_outside_is_refused_before_anything_is_written(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]], match: str
) -> None:
    refuse(make_tar(tmp_path / "evil", entry("p/first", b"x"), *entries), match)


@pytest.mark.parametrize(
    ("name", "data", "mode", "match"),
    [
        ("../x", b"", 0, "leads out"),
        ("/x", b"", 0, "absolute"),
        ("l", b"/etc", stat.S_IFLNK | 0o777, "leads out"),
        ("l", b"x" * 5000, stat.S_IFLNK | 0o777, "bytes long"),
        ("f", b"", stat.S_IFIFO | 0o644, "no file, folder or link"),
    ],
)
def test_a_hostile_zip(tmp_path: Path, name: str, data: bytes, mode: int, match: str) -> None:
    refuse(make_zip(tmp_path / "evil", [("ok", b"x", 0), (name, data, mode)]), match)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    small = Limits(ratio=20, floor=100_000)
    bomb = make_tar(tmp_path / "bomb", entry("x", b"\0" * 5_000_000))
    refuse(bomb, "would become more than", limits=small)
    unpack(bomb, tmp_path / "fine")
    refuse(bomb, "would become more than", limits=Limits(cap=4_000_000))
    many = make_tar(tmp_path / "many", *(entry(f"x{n}") for n in range(30)))
    refuse(many, "more than 29 entries", limits=Limits(files=29))


def test_a_zip_whose_header_lies_about_its_size(tmp_path: Path) -> None:
    made = make_zip(tmp_path / "liar", [("x", b"\0" * 5_000_000, 0)])
    data = made.read_bytes().replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    made.write_bytes(data)
    refuse(made, "cannot be read|becomes more", limits=Limits(ratio=1, floor=1000))


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    info, data = entry("x", b"")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.map": "0,0", "GNU.sparse.size": "99999999999"}
    with tarfile.open(tmp_path / "a", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(data))
    refuse(tmp_path / "a", "sparse|cannot be read|would become")


def test_damaged_and_empty_and_no_archives(tmp_path: Path) -> None:
    whole = make_tar(tmp_path / "whole", entry("p/x", bytes(range(256)) * 400)).read_bytes()
    for name, data in {
        "cut": whole[: len(whole) // 2],
        "text": b"<html>not found</html>" * 100,
        "empty": b"",
        "zip": b"PK\x03\x04 and no more",
    }.items():
        (tmp_path / name).write_bytes(data)
        refuse(tmp_path / name, "cannot be read")


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    made = make_tar(tmp_path / "a", entry("x"))
    (tmp_path / "dest").symlink_to("nowhere")
    with pytest.raises(SourceError, match="exists already"):
        unpack(made, tmp_path / "dest")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_tar(tmp_path / "a", entry("x", b"1"), entry("y", b"2"))

    def full(*args: object, **kwargs: object) -> int:
        del args, kwargs
        raise OSError(errno.ENOSPC, "No space left on device")

    # No test may fill this machine's disk; .ci runs the whole program on a small one.
    monkeypatch.setattr(archive_module, "_write_file", full)
    with pytest.raises(NoSpaceError):
        unpack(made, tmp_path / "to" / "dest")
    assert list((tmp_path / "to").iterdir()) == []


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "c"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["file", "dir", "symlink"]), NAMES), max_size=6))
@settings(max_examples=150, deadline=None)
def test_whatever_is_allowed_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str, str]]
) -> None:
    """Judged entries, written for real, resolve below the root, by the kernel's own account."""
    told = [
        Entry(name=name, kind=kind, target=target if kind == "symlink" else "")  # type: ignore[arg-type]  # sampled
        for name, kind, target in entries
    ]
    try:
        allowed = judge(told)
    except ArchiveRefusedError:
        return
    root = tmp_path_factory.mktemp("inside").resolve()
    for one in allowed:
        path = root.joinpath(*one.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if one.kind == "symlink":
            path.symlink_to(one.target)
        elif one.kind == "dir":
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(b"")
    for path in root.rglob("*"):
        assert path.resolve().is_relative_to(root)
