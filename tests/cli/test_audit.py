"""`sparkbuild audit`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from devicefiles import FOLDER

from orchestrator.cli.audit import command
from orchestrator.errors import ArchError, AuditFailedError, SparkbuildError, SpecError, UsageError


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
    assert shown[0].startswith("PASS  ")
    assert shown[0].endswith(" on 12.1")
    assert shown[1].strip() == "all 2 containers hold machine code that 12.1 loads (2 exact)"
    assert "  native      2      0   0    0     2  pkg/native.so" in shown
    assert "  1 more module holds no device code" in shown


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
    assert "2 none: only sm_90a and sm_121a" in result.stdout


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
    assert "PASS  " in result.stdout
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


def test_kernels_by_name(wheel: str) -> None:
    result = run(wheel, "--arch", "10.0", "-v")
    assert {"add", "scale"} <= {line.strip() for line in result.stdout.splitlines()}


def test_deep_sees_what_does_no_work(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(FOLDER / "hollow.so", "pkg/hollow.so")
    found = json.loads(run(str(path), "--arch", "12.1a", "--deep", "--json").stdout)["specs"][0]
    module = found["modules"][0]
    assert module["verdict"] == "native"
    assert any("guarded" in name for name in module["kernels"]["hollow"])
    shallow = json.loads(run(str(path), "--arch", "12.1a", "--json").stdout)["specs"][0]
    assert shallow["modules"][0]["kernels"] is None


def test_the_driver_decides_about_ptx() -> None:
    path = str(FOLDER / "ptx.90.fatbin")
    assert "1 jit" in run(path, "--arch", "12.1a", "--driver", "580").stdout
    result = run(path, "--arch", "12.1a", "--driver", "12.4")
    assert "needs a driver" in result.stdout
    assert "1 none" in result.stdout
    assert isinstance(failed(run(path, "--arch", "12.1a", "--driver", "new")), UsageError)


def test_against_an_older_one(wheel: str, tmp_path: Path) -> None:
    worse = tmp_path / "worse-1.0-py3-none-any.whl"
    with zipfile.ZipFile(worse, "w") as archive:
        archive.write(FOLDER / "wrong.so", "pkg/native.so")
    assert run(wheel, "--arch", "12.1a", "--against", wheel).exit_code == 0
    result = run(str(worse), "--arch", "12.1a", "--against", wheel, "--json")
    found = json.loads(result.stdout)["specs"][0]
    assert found["against"]["lost"]
    assert "coverage-lost" in {finding["code"] for finding in found["findings"]}
    assert failed(result).exit_code == 3
    assert isinstance(failed(run(wheel, wheel, "--arch", "12.1a", "--against", wheel)), UsageError)


def test_a_page(wheel: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(wheel, "--arch", "12.1a", "--html", str(page)).exit_code == 0
    text = page.read_text()
    assert "pkg/native.so" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert isinstance(failed(run(wheel, "--arch", "12.1a", "--html", str(tmp_path / "no" / "p"))), UsageError)


def test_a_recipes_policy(wheel: str, tmp_path: Path) -> None:
    named = tmp_path / "causal_conv1d-1.7.0-cp312-cp312-linux_aarch64.whl"
    named.write_bytes(Path(wheel).read_bytes())
    result = run(str(named), "--arch", "12.1a", "--recipe", "causal-conv1d", "--json")
    found = json.loads(result.stdout)["specs"][0]
    codes = {finding["code"] for finding in found["findings"]}
    codes |= {finding["code"] for module in found["modules"] for finding in module["findings"]}
    assert codes >= {"missing-module", "unlisted-module", "extra-arch"}
    assert failed(result).exit_code == 3
    assert isinstance(failed(run("x.so", "--arch", "12.1a", "--recipe", "causal-conv1d")), UsageError)
    assert isinstance(failed(run(wheel, "--arch", "12.1a", "--recipe", "nobody")), UsageError)


def test_an_environment() -> None:
    result = run("--env", sys.executable, "--arch", "12.1a", "--json")
    specs = json.loads(result.stdout)["specs"]
    assert any(spec["spec"].startswith("msgspec ") for spec in specs)
    assert isinstance(failed(run("--env", "/nowhere/python", "--arch", "12.1a")), SpecError)


def test_a_recipe_of_another_component(wheel: str) -> None:
    error = failed(run(wheel, "--arch", "12.1a", "--recipe", "causal-conv1d"))
    assert isinstance(error, UsageError)
    assert "pkg" in error.message


@pytest.mark.parametrize("option", ["--against", "--torch", "--platform", "--driver"])
def test_options_without_a_value(wheel: str, option: str) -> None:
    error = failed(run(wheel, "--arch", "12.1a", option, ""))
    assert isinstance(error, UsageError)
    assert option in error.message


def test_standard_error_may_be_closed(wheel: str) -> None:
    for arguments, code in (([wheel, "--arch", "12.1a"], 0), (["gone.whl", "--arch", "12.1a"], 3)):
        command = shlex.join([sys.executable, "-P", "-m", "orchestrator", "audit", *arguments])
        assert subprocess.run(["/bin/sh", "-c", f"{command} >/dev/null 2>&-"], check=False).returncode == code


def test_the_schema_fits_what_is_printed(wheel: str) -> None:
    shown = run("--json-schema")
    assert shown.exit_code == 0
    report = json.loads(run(wheel, "--arch", "12.1a", "--json").stdout)
    jsonschema.validate(report, json.loads(shown.stdout))
