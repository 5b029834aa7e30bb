"""Wheels that are not what they say."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from wheelmaker import contents, make_wheel

from orchestrator.inspect.wheelchecks import check_archive, tags_of
from orchestrator.inspect.zipped import WheelFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.audit.findings import Finding

NAME = "pkg-1.0-py3-none-any.whl"
INFO = "pkg-1.0.dist-info"
GOOD = contents("pkg", "1.0", {"pkg/__init__.py": "x = 1\n"})


def written(path: Path, files: Mapping[str, str | bytes] = GOOD) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def checked(path: Path, machines: Mapping[str, int] | None = None, *, record: bool = False) -> list[Finding]:
    with WheelFile(path) as wheel:
        return check_archive(wheel, machines or {}, record=record)


def codes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings]


def test_a_sound_wheel_has_no_findings(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path, "pkg", "1.0", {"pkg/__init__.py": "x = 1\n"}, entry_points="[console_scripts]\n"
    )
    assert checked(path, record=True) == []


@pytest.mark.parametrize("name", ["pkg.whl", "pkg-1.0.whl", "pkg-x-py3-none-any.whl", "pkg-1.0-py3.whl"])
def test_names_that_are_no_wheel_names(tmp_path: Path, name: str) -> None:
    found = checked(written(tmp_path / name))
    assert codes(found) == [("error", "bad-name")]
    assert tags_of(name) == frozenset()


def test_other_archives_need_not_be_wheels(tmp_path: Path) -> None:
    assert checked(written(tmp_path / "kernels.zip", {"a.cubin": "x"})) == []
    assert checked(written(tmp_path / "artifact.zip"), record=True) == []


@pytest.mark.parametrize("name", ["METADATA", "WHEEL", "RECORD"])
def test_missing_metadata(tmp_path: Path, name: str) -> None:
    files = {path: text for path, text in GOOD.items() if not path.endswith(name)}
    found = checked(written(tmp_path / NAME, files))
    assert codes(found) == [("warning", "no-metadata")]
    assert f"{INFO}/{name}" in found[0].text


def test_no_dist_info_or_two(tmp_path: Path) -> None:
    found = checked(written(tmp_path / NAME, {"pkg/a.py": ""}))
    assert [finding.text for finding in found] == ["the wheel has no .dist-info folder"]
    found = checked(written(tmp_path / NAME, {**GOOD, "other-1.dist-info/METADATA": ""}))
    assert [finding.text for finding in found] == [
        "the wheel has 2 .dist-info folders: other-1.dist-info, pkg-1.0.dist-info"
    ]


def test_missing_metadata_are_an_error_before_a_wheel_is_stored(tmp_path: Path) -> None:
    path = written(tmp_path / NAME, {"pkg/__init__.py": ""})
    assert codes(checked(path, record=True)) == [("error", "no-metadata")]


@pytest.mark.parametrize("name", ["pkg-1.1-py3-none-any.whl", "other-1.0-py3-none-any.whl"])
def test_metadata_of_another_wheel(tmp_path: Path, name: str) -> None:
    found = checked(written(tmp_path / name))
    assert codes(found) == [("warning", "no-metadata")] * 2
    project, version, *_ = name.split("-")
    assert found[0].text == f"{INFO} is of pkg 1.0, the file name of {project} {version}"
    assert found[1].text.startswith("METADATA is of pkg 1.0")


@pytest.mark.parametrize("version", ["", "one"])
def test_metadata_without_a_version(tmp_path: Path, version: str) -> None:
    files = {**GOOD, f"{INFO}/METADATA": f"Name: pkg\nVersion: {version}\n\nVersion: 1.0\n"}
    assert codes(checked(written(tmp_path / NAME, files))) == [("warning", "no-metadata")]


def test_spellings_of_one_name_and_version_are_the_same(tmp_path: Path) -> None:
    files = {
        path.replace(INFO, "My.Pkg-1.0+CU13.dist-info"): text.replace("Name: pkg", "Name: my-pkg").replace(
            "Version: 1.0", "Version: 1.0.0+cu13"
        )
        for path, text in GOOD.items()
    }
    assert checked(written(tmp_path / "my_pkg-1.0+cu13-py3-none-any.whl", files)) == []


def test_metadata_that_is_damaged_or_no_text(tmp_path: Path) -> None:
    found = checked(written(tmp_path / NAME, {**GOOD, f"{INFO}/RECORD": b"\xff\xfe"}), record=True)
    assert [finding.text for finding in found] == [f"{INFO}/RECORD cannot be read: it is not UTF-8"]
    path = written(tmp_path / NAME)
    path.write_bytes(path.read_bytes().replace(b"Generator: test", b"Generator: best"))
    found = checked(path)
    assert [finding.text for finding in found] == [f"{INFO}/WHEEL cannot be read: its checksum is wrong"]


def test_tags_machines_and_record_are_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path / "pkg-1.0-cp310-abi3-linux_x86_64.whl", {**GOOD, "pkg/a.cpython-310.so": "new"})
    found = checked(path, {"pkg/a.cpython-310.so": 183}, record=True)
    assert codes(found) == [
        ("error", "wrong-machine"),
        ("warning", "wrong-python"),
        ("error", "tag-mismatch"),
        ("error", "record-mismatch"),
    ]
    assert ("error", "record-mismatch") not in codes(checked(path, {"pkg/a.cpython-310.so": 183}))


def test_what_should_not_lie_in_a_wheel_is_told_too(tmp_path: Path) -> None:
    found = checked(written(tmp_path / NAME, {**GOOD, "pkg/lib/libcuda.so.1": "x"}))
    assert codes(found) == [("error", "bundled-driver")]
