"""A wheel made ready to be served: local version, RECORD, times."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import BuildFailedError
from orchestrator.package.rewrite import finish_wheel, local_version

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_700_000_000


def make_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in members.items():
            info = zipfile.ZipInfo(member, (2031, 5, 6, 7, 8, 10))
            info.external_attr = (0o755 if member.endswith(".so") else 0o644) << 16
            wheel.writestr(info, data)
    return path


def demo(folder: Path, *, version: str = "1.0", metadata: bytes | None = None) -> Path:
    info = f"demo_pkg-{version}.dist-info"
    text = metadata or b"Metadata-Version: 2.4\nName: demo-pkg\nVersion: %s\n\nVersion: in the body\n" % (
        version.encode()
    )
    return make_wheel(
        folder,
        f"demo_pkg-{version}-cp311-cp311-linux_x86_64.whl",
        {
            "demo_pkg/__init__.py": b"answer = 42\n",
            "demo_pkg/_C.so": b"\x7fELF" + b"x" * 100,
            f"demo_pkg-{version}.data/scripts/demo": b"#!python\n",
            f"{info}/METADATA": text,
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
            f"{info}/RECORD": b"stale\n",
        },
    )


def finished(tmp_path: Path, wheel: Path, local: str | None = "cu130.sm121a") -> Path:
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    return finish_wheel(wheel, local=local, epoch=EPOCH, out=out)


def test_name_folders_and_metadata_carry_the_local_version(tmp_path: Path) -> None:
    new = finished(tmp_path, demo(tmp_path))
    assert new.name == "demo_pkg-1.0+cu130.sm121a-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(new) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
        assert tops == {
            "demo_pkg",
            "demo_pkg-1.0+cu130.sm121a.dist-info",
            "demo_pkg-1.0+cu130.sm121a.data",
        }
        metadata = wheel.read("demo_pkg-1.0+cu130.sm121a.dist-info/METADATA")
    assert b"\nVersion: 1.0+cu130.sm121a\n" in metadata
    assert metadata.endswith(b"\n\nVersion: in the body\n")


def test_record_names_every_member_with_its_hash_and_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(finished(tmp_path, demo(tmp_path))) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
        assert set(rows) == set(wheel.namelist())
        for name, (digest, size) in rows.items():
            if name == record:
                assert (digest, size) == ("", "")
                continue
            data = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(data)))


def test_the_same_content_gives_the_same_bytes_whenever_it_was_built(tmp_path: Path) -> None:
    first = finished(tmp_path, demo(tmp_path)).read_bytes()
    other = tmp_path / "later"
    other.mkdir()
    assert finished(other, demo(other)).read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as wheel:
        assert {item.date_time for item in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        modes = {item.filename: item.external_attr >> 16 & 0o777 for item in wheel.infolist()}
    assert modes["demo_pkg/_C.so"] == 0o755


def test_plain_pip_installs_it(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        "demo_pkg-2.0-py3-none-any.whl",
        {
            "demo_pkg.py": b"answer = 42\n",
            "demo_pkg-2.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo-pkg\nVersion: 2.0\n",
            "demo_pkg-2.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "demo_pkg-2.0.dist-info/RECORD": b"",
        },
    )
    target = tmp_path / "site"
    new = finished(tmp_path, wheel, "cu130")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, new],
        check=True,
    )
    assert (target / "demo_pkg-2.0+cu130.dist-info" / "METADATA").exists()


def test_an_existing_local_version_is_replaced_and_none_keeps_it(tmp_path: Path) -> None:
    wheel = demo(tmp_path, version="0.33.0+cu131")
    assert finished(tmp_path, wheel).name.startswith("demo_pkg-0.33.0+cu130.sm121a-")
    assert finished(tmp_path, wheel, None).name.startswith("demo_pkg-0.33.0+cu131-")


def test_what_is_no_wheel_is_a_failed_build(tmp_path: Path) -> None:
    torn = demo(tmp_path)
    torn.write_bytes(torn.read_bytes()[:-40])
    with pytest.raises(BuildFailedError, match="no readable zip"):
        finished(tmp_path, torn)
    with pytest.raises(BuildFailedError, match="no wheel's name"):
        finished(tmp_path, make_wheel(tmp_path, "demo.whl", {}))
    with pytest.raises(BuildFailedError, match="0 dist-info folders"):
        finished(tmp_path, make_wheel(tmp_path, "a-1.0-py3-none-any.whl", {"a.py": b""}))
    with pytest.raises(BuildFailedError, match="0 Version lines"):
        finished(tmp_path, demo(tmp_path, metadata=b"Name: demo\n\nbody\n"))


@pytest.mark.parametrize(
    ("toolkit", "torch", "arches", "expected"),
    [
        ("13.0.88", "2.14.1+cu130", ("sm_121a",), "cu130.torch2141.sm121a"),
        ("13.0.88", None, ("sm_120f", "sm_121a"), "cu130.sm120f.sm121a"),
        (None, "2.14.1", ("sm_121a",), None),
        ("13.0.88", "2.14.1", (), None),
    ],
)
def test_local_version(
    toolkit: str | None, torch: str | None, arches: tuple[str, ...], expected: str | None
) -> None:
    assert local_version(toolkit=toolkit, torch=torch, arches=arches) == expected
