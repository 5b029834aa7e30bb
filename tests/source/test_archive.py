"""Archives, well-behaved and hostile: whole or not at all."""

from __future__ import annotations

import errno
import gzip
import io
import math
import stat
import tarfile
import tracemalloc
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


def pax(path: Path, **headers: str) -> Path:
    """Write a tarball of one file `p/x` with extended headers."""
    info, data = entry("p/x", b"y")
    info.pax_headers = headers
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("told", "found"), [("inf", None), ("nan", None), ("-1e30", None), ("1e30", 2**32 - 1), ("7.5", 7.5)]
)
def test_times_that_no_file_can_have(tmp_path: Path, told: str, found: float | None) -> None:
    unpack(pax(tmp_path / "a", mtime=told), tmp_path / "dest")
    mtime = (tmp_path / "dest/x").stat().st_mtime
    assert math.isclose(mtime, found) if found is not None else mtime > 1_700_000_000


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (entry("p/" + "n" * 256), "a name of more than 255 bytes"),
        (entry("p/" + "é" * 128), "a name of more than 255 bytes"),
        (entry("p/" + "/".join(["d" * 250] * 17)), "more than 4095 bytes"),
        (link("p/l", "t/" * 2100), "a target of more than 4095 bytes"),
        (entry("p/" + "d/" * 201 + "x"), "more than 200 folders"),
        (entry("p/" + "d/" * 201, type=tarfile.DIRTYPE), "more than 200 folders"),
        (link("p/h", "d/" * 201 + "x", tarfile.LNKTYPE), "more than 200 folders"),
    ],
)
def test_names_that_no_file_can_have(tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], match: str) -> None:
    refuse(make_tar(tmp_path / "a", entry("p/first"), bad), match)


def test_a_path_that_only_its_place_makes_too_long(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 200)  # 4,015 bytes inside it are too long wherever tests run
    place.mkdir()
    made = make_tar(place / "a", entry("p/first"), entry("p/" + "/".join(["d" * 250] * 16)))
    refuse(made, "cannot be unpacked: File name too long")


def test_the_longest_names_that_files_can_have(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 199)
    unpack(
        make_tar(tmp_path / "a", entry(f"p/{'n' * 255}"), entry(f"p/{deep}"), link("p/l", "n" * 255)),
        tmp_path / "dest",
    )
    assert sorted(tree_of(tmp_path / "dest")) == sorted([deep, "l", "n" * 255])


def header(kind: bytes, size: int) -> bytes:
    """Return a header block that claims `size` bytes."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "kind",
    [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, b"X"],
)
def test_a_header_of_a_gigabyte_is_not_read(tmp_path: Path, kind: bytes) -> None:
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as made:
        made.write(header(kind, 1 << 30))
        for _ in range(32):
            made.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        refuse(tmp_path / "a.tar.gz", "a header of 1073741824 bytes")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_chain_of_headers_is_refused(tmp_path: Path) -> None:
    """Python reads a header's successor by recursion."""
    link_of_chain = header(tarfile.GNUTYPE_LONGNAME, 512) + b"n".ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes(link_of_chain * 2000 + bytes(1024))
    refuse(tmp_path / "a.tar", "more headers than")


def test_an_old_sparse_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(header(tarfile.GNUTYPE_SPARSE, 0) + bytes(1024))
    refuse(tmp_path / "a.tar", "sparse")


def patched_zip(path: Path, local: slice, central: slice, value: bytes) -> Path:
    """Make a zip of one file, then overwrite fields of its two headers (APPNOTE.TXT 4.3.7 and 4.3.12)."""
    data = bytearray(make_zip(path, [("x", b"y" * 100, 0)]).read_bytes())
    begin = data.index(b"PK\x01\x02")
    data[local] = value
    data[begin + central.start : begin + central.stop] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("local", "central", "value", "match"),
    [
        (slice(8, 10), slice(10, 12), b"\x63\0", "by method 99"),
        (slice(8, 10), slice(10, 12), b"\x01\0", "by method 1,"),
        (slice(6, 8), slice(8, 10), b"\x01\0", "encrypted"),
        (slice(6, 8), slice(8, 10), b"\x40\0", "cannot be read.*encryption"),
        (slice(6, 8), slice(8, 10), b"\x20\0", "cannot be read.*patched"),
        (slice(4, 6), slice(6, 8), b"\xff\0", "cannot be read.*version"),
    ],
)
def test_a_zip_that_cannot_be_read_here(
    tmp_path: Path, local: slice, central: slice, value: bytes, match: str
) -> None:
    refuse(patched_zip(tmp_path / "a.zip", local, central, value), match)


@pytest.mark.parametrize("date", [b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_a_zip_with_a_date_that_is_none(tmp_path: Path, date: bytes) -> None:
    made = patched_zip(tmp_path / "a.zip", slice(10, 14), slice(12, 16), date)
    unpack(made, tmp_path / "dest")
    assert (tmp_path / "dest/x").stat().st_mtime == 315_532_800


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
