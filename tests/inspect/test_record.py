"""RECORD against the files of a wheel."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

import pytest
from wheelmaker import contents

from orchestrator.inspect.record import check_record
from orchestrator.inspect.zipped import WheelFile

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "pkg-1.0.dist-info"
FILES = contents("pkg", "1.0", {"pkg/__init__.py": "x = 1\n", "pkg/ä, b.txt": "two\n"})
RECORD = FILES[f"{FOLDER}/RECORD"].replace("pkg/ä, b.txt", '"pkg/ä, b.txt"')


def told(
    folder: Path, *, record: str = RECORD, extra: dict[str, str] | None = None, drop: str = ""
) -> list[str]:
    """Return the texts of the findings about a wheel of these files."""
    path = folder / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in ({**FILES, **(extra or {})}).items():
            if name != drop:
                archive.writestr(name, text)
    with WheelFile(path) as wheel:
        found = check_record(wheel, FOLDER, record)
    assert all((finding.level, finding.code) == ("error", "record-mismatch") for finding in found)
    return [finding.text.removeprefix("RECORD ") for finding in found]


def test_a_right_record(tmp_path: Path) -> None:
    assert told(tmp_path) == []
    assert told(tmp_path, record=RECORD.replace("\n", "\r\n")) == []


def test_signatures_need_no_line(tmp_path: Path) -> None:
    assert told(tmp_path, extra={f"{FOLDER}/RECORD.jws": "{}", f"{FOLDER}/RECORD.p7s": ""}) == []
    assert told(tmp_path, extra={"pkg/RECORD.jws": "{}"}) == ["does not list: pkg/RECORD.jws"]


def test_changed_bytes(tmp_path: Path) -> None:
    assert told(tmp_path, extra={"pkg/__init__.py": "x = 2\n"}) == ["has another hash of: pkg/__init__.py"]
    assert told(tmp_path, extra={"pkg/__init__.py": "x = 22\n"}) == ["has another size of: pkg/__init__.py"]


def test_files_more_and_less(tmp_path: Path) -> None:
    extra = {f"pkg/{name}.py": "" for name in "abcde"}
    assert told(tmp_path, extra=extra) == ["does not list: pkg/a.py, pkg/b.py, pkg/c.py and 2 more"]
    assert told(tmp_path, drop="pkg/__init__.py") == ["lists files that are not there: pkg/__init__.py"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("pkg/__init__.py,,", "has no hash of: pkg/__init__.py"),
        ("pkg/__init__.py,md5=abc,6", "has no hash but md5 of: pkg/__init__.py"),
        ("pkg/__init__.py,shake_128=abc,6", "has no hash but shake_128 of: pkg/__init__.py"),
    ],
)
def test_lines_that_prove_nothing(tmp_path: Path, line: str, reason: str) -> None:
    rows = [line if row.startswith("pkg/__init__.py") else row for row in RECORD.splitlines()]
    assert told(tmp_path, record="\n".join(rows)) == [reason]


@pytest.mark.parametrize("row", ["a,b", "a,b,c,d", "x,sha256=y,many", ",,", "x,nohash,3", '"open'])
def test_broken_lines_are_told_and_break_nothing(tmp_path: Path, row: str) -> None:
    found = told(tmp_path, record=f"{RECORD}{row}\n")
    assert len(found) == 1
    assert found[0].startswith("cannot be read to its end: ")


def test_names_twice(tmp_path: Path) -> None:
    assert told(tmp_path, record=RECORD + RECORD.splitlines()[0]) == ["lists twice: pkg/__init__.py"]


def test_other_strong_hashes_and_padding_are_right(tmp_path: Path) -> None:
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"x = 1\n").digest()).decode()
    rows = [
        f"pkg/__init__.py,sha512={digest},6" if row.startswith("pkg/__init__.py") else row
        for row in RECORD.splitlines()
    ]
    assert told(tmp_path, record="\n".join(rows)) == []


def test_a_damaged_member_is_no_match(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    path.write_bytes(path.read_bytes().replace(b"x = 1\n", b"x = 7\n"))
    with WheelFile(path) as wheel:
        (finding,) = check_record(wheel, FOLDER, RECORD)
    assert finding.text == "RECORD cannot be compared with damaged files: pkg/__init__.py"
