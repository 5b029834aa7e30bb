"""What a SPEC can be."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from devicefiles import EXPECTED, FOLDER, data
from wheelhouse import make_wheel

from orchestrator.audit.question import Question
from orchestrator.errors import SpecError
from orchestrator.inspect.specs import audit_spec
from orchestrator.model.arch import Device

if TYPE_CHECKING:
    from pathlib import Path

SPARK = Device(12, 1)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "empty.so").touch()
    (tmp_path / "readme.txt").write_text("nothing")
    shutil.copy(FOLDER / "native.so", tmp_path / "pkg")
    shutil.copy(FOLDER / "121a.cubin", tmp_path / "pkg")
    (tmp_path / "pkg/link.so").symlink_to("native.so")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe.so")
    report = audit_spec(str(tmp_path), Question(devices=(SPARK,)))
    assert [module.path for module in report.devices[0].modules] == ["pkg/native.so"]
    assert dict(report.bare_cubins) == {"sm_121a": 1}
    assert report.verdict == "pass"


@pytest.mark.parametrize("name", ["native.so", "plain.o", "mixed.a", "size.fatbin"])
def test_a_file(name: str) -> None:
    report = audit_spec(str(FOLDER / name), Question(devices=(SPARK,)))
    assert report.spec == str(FOLDER / name)
    assert report.devices[0].modules[0].counts.exact == EXPECTED[name]["containers"]["exact"]
    assert report.verdict == "pass"


def test_a_cubin() -> None:
    assert audit_spec(str(FOLDER / "121.cubin"), Question(devices=(SPARK,))).verdict == "pass"
    assert audit_spec(str(FOLDER / "120a.cubin"), Question(devices=(SPARK,))).verdict == "fail"


def test_a_file_that_only_looks_like_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data("native.so"))
    with pytest.raises(SpecError, match="no complete zip"):
        audit_spec(str(path), Question(devices=(SPARK,)))


@pytest.mark.parametrize(
    ("spec", "hint"),
    [("vllm==0.33.0", "pip download"), ("torch[x]==2.14.1", "pip download"), ("gone.whl", "name the wheel")],
)
def test_what_is_not_there(spec: str, hint: str) -> None:
    with pytest.raises(SpecError, match="no such file") as caught:
        audit_spec(spec, Question(devices=(SPARK,)))
    assert caught.value.where == spec
    assert hint in str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_fails(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "native.so", tmp_path)
    (tmp_path / "closed").mkdir(mode=0)
    report = audit_spec(str(tmp_path), Question(devices=(SPARK,)))
    assert [finding.code for finding in report.devices[0].findings] == ["unreadable"]
    assert report.verdict == "fail"


def test_what_cannot_hold_device_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("a.py", "pipe"):
        with pytest.raises(SpecError):
            audit_spec(str(tmp_path / name), Question(devices=(SPARK,)))


def test_wheels_in_a_folder_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    make_wheel(tmp_path / "dist", "good", {"good/_C.so": data("native.so")})
    make_wheel(tmp_path / "dist", "wrong", {"wrong/_C.so": data("wrong.so")})
    report = audit_spec(str(tmp_path), Question(devices=(SPARK,)))
    assert report.verdict == "fail"
    verdicts = {module.path: module.verdict for module in report.devices[0].modules}
    assert verdicts["dist/good-1.0-py3-none-any.whl/good/_C.so"] == "native"
    assert verdicts["dist/wrong-1.0-py3-none-any.whl/wrong/_C.so"] == "jit"


def test_a_folder_in_which_nothing_could_be_read_does_not_pass(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        audit_spec(str(tmp_path), Question(devices=(SPARK,)))
    (tmp_path / "torn-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert audit_spec(str(tmp_path), Question(devices=(SPARK,))).verdict == "fail"
