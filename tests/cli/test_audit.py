"""`sparkbuild audit`."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from devicefiles import FOLDER

from orchestrator.cli.audit import command
from orchestrator.errors import ArchError, AuditFailedError, SparkbuildError, SpecError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FOLDER / "native.so", "pkg/native.so")
        archive.write(FOLDER / "magic.so", "pkg/host.so")
    return str(path)


def failed(result: Result) -> SparkbuildError:
    assert isinstance(result.exception, SparkbuildError)
    assert result.exception.hint
    return result.exception


def test_a_wheel_that_serves(wheel: str) -> None:
    result = run(wheel, "--arch", "12.1a")
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert shown[0] == f"PASS  {wheel}"
    assert shown[1].strip() == "machine code for 12.1 in 2 of 2 containers (2 exact)"
    assert "  native       2      0     0     0      2  pkg/native.so" in shown
    assert shown[-1] == "  1 more module holds no device code"


def test_json(wheel: str) -> None:
    result = run(wheel, "--arch", "12.1a", "--json")
    report = json.loads(result.stdout)
    assert (report["schema"], report["device"]) == ("sparkbuild.audit/1", "12.1")
    assert report["specs"][0]["verdict"] == "pass"
    assert [module["path"] for module in report["specs"][0]["modules"]] == ["pkg/native.so", "pkg/host.so"]


def test_a_wheel_that_does_not_serve(wheel: str) -> None:
    result = run(wheel, "--arch", "10.0f")
    assert isinstance(failed(result), AuditFailedError)
    assert failed(result).exit_code == 3
    assert "error: none of 2 containers has SASS for 10.0" in result.stdout


def test_json_is_printed_before_it_fails(wheel: str) -> None:
    result = run(wheel, "--arch", "10.0", "--json")
    assert json.loads(result.stdout)["specs"][0]["verdict"] == "fail"
    assert failed(result).exit_code == 3


def test_several_devices(wheel: str) -> None:
    found = json.loads(run(wheel, "--arch", "9.0a;12.1a", "--json").stdout)["specs"][0]["devices"]
    assert {cc: device["modules"][0]["verdict"] for cc, device in found.items()} == {
        "9.0": "native",
        "12.1": "native",
    }


def test_the_device_decides() -> None:
    family = str(FOLDER / "family.so")
    assert run(family, "--arch", "12.0f").exit_code == 0
    assert run(family, "--arch", "12.0f", "--device", "12.1").exit_code == 0
    assert run(family, "--device", "12.1").exit_code == 0
    assert isinstance(failed(run(family, "--arch", "12.0a", "--device", "12.1")), ArchError)


def test_one_that_cannot_be_read_does_not_hide_the_others(wheel: str) -> None:
    result = run(wheel, "gone.whl", "--arch", "12.1a")
    assert isinstance(failed(result), SpecError)
    assert f"PASS  {wheel}" in result.stdout
    assert "FAIL  gone.whl\n      there is no such file" in result.stdout
    result = run("gone.whl", wheel, "--arch", "12.1a", "--json")
    assert [spec["verdict"] for spec in json.loads(result.stdout)["specs"]] == ["fail", "pass"]


def test_several_faults_are_one_error(wheel: str) -> None:
    result = run(wheel, "gone.whl", "also.whl", "--arch", "12.1a")
    assert isinstance(failed(result), AuditFailedError)
    assert "2 of 3" in str(result.exception)


def test_a_single_one_that_cannot_be_read_is_told_once() -> None:
    result = run("gone.whl", "--arch", "12.1a")
    assert isinstance(failed(result), SpecError)
    assert result.stdout == ""


def test_arguments_that_cannot_be_meant(wheel: str) -> None:
    assert isinstance(failed(run(wheel)), UsageError)
    assert isinstance(failed(run("--arch", "12.1a")), UsageError)
    assert failed(run(wheel, "--arch", "12.1b")).exit_code == 2
    assert failed(run(wheel, "--device", "12.1a")).exit_code == 2
