"""What a SPEC can be."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from devicefiles import EXPECTED, FOLDER, data
from venvs import Venv
from wheelhouse import make_wheel

from orchestrator.audit.question import Question
from orchestrator.errors import SpecError
from orchestrator.inspect.specs import audit_environment, audit_spec
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
    [
        ("gone.whl", "name the wheel"),
        ("./vllm==0.33.0", "name the wheel"),
        ("vllm", "write vllm==VERSION"),
        ("x" * 5000, "==VERSION"),
    ],
)
def test_what_is_not_there(spec: str, hint: str) -> None:
    with pytest.raises(SpecError, match="no such file") as caught:
        audit_spec(spec, Question(devices=(SPARK,)))
    assert caught.value.where == spec
    assert hint in str(caught.value.hint)


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FOLDER / "native.so", "vllm==0.33.0")
    report = audit_spec("vllm==0.33.0", Question(devices=(SPARK,)))
    assert [module.path for module in report.devices[0].modules] == ["vllm==0.33.0"]


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


def test_an_environment_has_a_report_for_each_distribution(tmp_path: Path) -> None:
    venv = Venv.make(tmp_path / "venv")
    venv.install("good", {"good/_C.so": data("native.so"), "good/plain.py": ""}, version="2.0")
    venv.install("wrong", {"wrong/_C.so": data("wrong.so")})
    venv.install("pure", {"pure.py": "", "pure/not-really.so": "text"})
    (venv.site / "stray.cubin").write_bytes(data("121a.cubin"))
    reports = {
        report.spec: report for report in audit_environment(str(venv.root), Question(devices=(SPARK,)))
    }
    assert {spec: report.verdict for spec, report in reports.items()} == {
        "good 2.0": "pass",
        "wrong 1.0": "fail",
        "(no distribution)": "pass",
    }
    assert [module.path for module in reports["good 2.0"].devices[0].modules] == ["good/_C.so"]
    assert dict(reports["(no distribution)"].bare_cubins) == {"sm_121a": 1}


def test_an_environment_without_binaries_is_not_passed(tmp_path: Path) -> None:
    venv = Venv.make(tmp_path / "venv")
    venv.install("pure", {"pure.py": ""})
    with pytest.raises(SpecError, match="nothing that is installed there") as caught:
        audit_environment(str(venv.python), Question(devices=(SPARK,)))
    assert caught.value.where == str(venv.python)


def test_links_out_of_a_folder_are_read_and_links_inside_it_are_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "here.so").write_bytes(data("native.so"))
    (folder / "again.so").symlink_to("here.so")
    (tmp_path / "elsewhere.so").write_bytes(data("wrong.so"))
    (folder / "out.so").symlink_to(tmp_path / "elsewhere.so")
    report = audit_spec(str(folder), Question(devices=(SPARK,)))
    assert [module.path for module in report.devices[0].modules] == ["here.so", "out.so"]
    assert report.verdict == "fail"
