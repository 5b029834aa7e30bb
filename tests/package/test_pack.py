"""Wheels packed from files: what they hold and say, that tools accept them, and that their bytes repeat."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING

import pytest
from installer.sources import WheelFile

from orchestrator.errors import BuildFailedError
from orchestrator.model.recipe import PackedWheel
from orchestrator.package.pack import Parcel, pack_wheel

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_700_000_000
VERSION = "1.0.post1+cu130.sm121a"

KERNELS = PackedWheel(
    distribution="Some.Kernels-{sm}",
    summary="Kernels of a test",
    license="Apache-2.0",
    tag="cp310-abi3-{platform}",
    python=">=3.10",
    files={"{out}/built/**/*.so": "some_kernels_{sm}/lib", "{src}/LICENSE*": "{info}/licenses"},
    texts={"some_kernels_{sm}/__init__.py": "provider.py"},
    entry_points={
        "some.kernels": {"{sm}": "some_kernels_{sm}:get"},
        "console_scripts": {"b": "x:b", "a": "x:a"},
    },
    requires=("base=={version}", "other-{sm}>=2; python_version >= '3.10'"),
)


def parcel(folder: Path, *, sm: str = "sm121a") -> Parcel:
    """Lay what a build might leave, and return what is packed."""
    for path, mode in (
        ("out/built/norm/norm.so", 0o755),
        ("out/built/a/b/deep.so", 0o600),
        ("src/LICENSE", 0o644),
    ):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
        file.chmod(mode)
    (folder / "out/built/norm/norm.o").write_text("no library")
    (folder / "provider.py").write_text("def get():\n    return __name__\n")
    return Parcel(
        version=VERSION,
        sm=sm,
        platform="linux_aarch64",
        roots={"out": folder / "out", "src": folder / "src"},
        texts={"provider.py": folder / "provider.py"},
    )


def packed(folder: Path, wheel: PackedWheel = KERNELS, *, sm: str = "sm121a") -> Path:
    into = folder / "wheels"
    into.mkdir(parents=True, exist_ok=True)
    return pack_wheel(wheel, parcel(folder, sm=sm), epoch=EPOCH, into=into)


def test_files_texts_and_metadata_lie_where_the_recipe_says(tmp_path: Path) -> None:
    wheel = packed(tmp_path)
    assert wheel.name == f"some_kernels_sm121a-{VERSION}-cp310-abi3-linux_aarch64.whl"
    info = f"some_kernels_sm121a-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.namelist() == [
            "some_kernels_sm121a/__init__.py",
            "some_kernels_sm121a/lib/a/b/deep.so",
            "some_kernels_sm121a/lib/norm/norm.so",
            f"{info}/METADATA",
            f"{info}/WHEEL",
            f"{info}/entry_points.txt",
            f"{info}/licenses/LICENSE",
            f"{info}/RECORD",
        ]
        assert {item.date_time for item in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        modes = {item.filename: item.external_attr >> 16 & 0o777 for item in archive.infolist()}
        assert modes["some_kernels_sm121a/lib/norm/norm.so"] == 0o755
        assert modes["some_kernels_sm121a/lib/a/b/deep.so"] == 0o644
        metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
        assert (metadata["Name"], metadata["Version"]) == ("Some.Kernels-sm121a", VERSION)
        assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
        assert metadata.get_all("Requires-Dist") == [
            f"base=={VERSION}",
            "other-sm121a>=2; python_version >= '3.10'",
        ]
        assert (
            "Root-Is-Purelib: false\nTag: cp310-abi3-linux_aarch64\n"
            in archive.read(f"{info}/WHEEL").decode()
        )
        assert archive.read(f"{info}/entry_points.txt").decode() == (
            "[console_scripts]\na = x:a\nb = x:b\n\n[some.kernels]\nsm121a = some_kernels_sm121a:get\n"
        )


def test_its_record_is_right(tmp_path: Path) -> None:
    with WheelFile.open(packed(tmp_path)) as source:
        source.validate_record()


def test_pip_installs_it_and_its_entry_point_is_found(tmp_path: Path) -> None:
    pure = PackedWheel(
        distribution="some-kernels-{sm}",
        summary="s",
        texts={"some_kernels_{sm}.py": "provider.py"},
        entry_points={"some.kernels": {"{sm}": "some_kernels_{sm}:get"}},
    )
    wheel = packed(tmp_path, pure, sm="sm90a_sm121a")
    site = tmp_path / "site"
    install = ["install", "-q", "--no-index", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    code = (
        "from importlib.metadata import entry_points, version\n"
        "(entry,) = entry_points(group='some.kernels')\n"
        "print(entry.name, entry.load()(), version('some-kernels-sm90a-sm121a'))\n"
    )
    told = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert told.split() == ["sm90a_sm121a", "some_kernels_sm90a_sm121a", VERSION]


def test_bytes_follow_from_content_alone(tmp_path: Path) -> None:
    one = packed(tmp_path / "one")
    two = packed(tmp_path / "two")
    assert one.read_bytes() == two.read_bytes()
    (tmp_path / "two/out/built/norm/norm.so").chmod(0o700)
    os.utime(tmp_path / "two/out/built/norm/norm.so", (1, 1))
    again = pack_wheel(KERNELS, parcel(tmp_path / "two"), epoch=EPOCH, into=tmp_path)
    assert again.read_bytes() == one.read_bytes()


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    wheel = PackedWheel(distribution="k", summary="s", files={"{out}/built/*.ptx": "k"})
    with pytest.raises(BuildFailedError, match=r"nothing that matches \{out\}/built/\*\.ptx"):
        packed(tmp_path, wheel)


def test_a_link_is_not_packed(tmp_path: Path) -> None:
    made = parcel(tmp_path)
    (tmp_path / "out/built/norm/passwd.so").symlink_to("/etc/passwd")
    with zipfile.ZipFile(pack_wheel(KERNELS, made, epoch=EPOCH, into=tmp_path)) as archive:
        assert not any("passwd" in name for name in archive.namelist())


def test_two_files_of_one_place_are_refused(tmp_path: Path) -> None:
    files = {"{out}/built/norm/norm.so": "lib"}
    wheel = PackedWheel(distribution="k", summary="s", files=files, texts={"lib/norm.so": "provider.py"})
    with pytest.raises(BuildFailedError, match=r"lib/norm\.so of k-.* comes from"):
        packed(tmp_path, wheel)


def test_a_wheel_that_is_there_already_is_refused(tmp_path: Path) -> None:
    packed(tmp_path)
    with pytest.raises(BuildFailedError, match="packed twice"):
        packed(tmp_path)
