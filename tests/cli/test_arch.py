"""`sparkbuild arch`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.arch import command
from orchestrator.errors import ArchError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_json() -> None:
    result = run("12.1a", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["schema"], report["input"], report["normal"]) == ("sparkbuild.arch/1", "12.1a", "12.1a")
    assert report["notes"] == []


def test_several_arguments_are_one_list() -> None:
    both = json.loads(run("12.0", "12.1a", "--json").stdout)
    assert both["normal"] == "12.0;12.1a"
    assert both["entries"] == json.loads(run("12.1a,12.0", "--json").stdout)["entries"]


def test_device_changes_the_notes() -> None:
    assert json.loads(run("12.0f", "--json").stdout)["notes"][0]["code"] == "not-in-torch-extension"
    notes = json.loads(run("12.0f", "--device", "12.1", "--json").stdout)["notes"]
    assert notes[0]["code"] == "compatible"


@pytest.mark.parametrize(
    "arguments",
    [(), ("",), ("Blackwell",), ("12.1(2.0)",), ("12.0a", "--device", "12.1"), ("12.1a", "--device", "GB10")],
)
@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_an_error_prints_nothing(arguments: tuple[str, ...], json_: tuple[str, ...]) -> None:
    result = run(*arguments, *json_)
    assert isinstance(result.exception, ArchError)
    assert result.exception.exit_code == 2
    assert result.exception.hint
    assert result.stdout == ""


def test_text_fits_and_can_be_copied() -> None:
    result = run("8.0 9.0 12.0+PTX 12.1a", "--device", "12.1")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "8.0;9.0;12.0+PTX;12.1a"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.stdout
    assert "    TORCH_CUDA_ARCH_LIST='8.0;9.0;12.0+PTX;12.1a'" in lines
    assert "    -gencode=arch=compute_121a,code=sm_121a" in lines
    assert "    (cannot be said)" in lines
    assert any(line.startswith("  warning: 8.0 does not run on 12.1") for line in lines)


def test_text_of_a_clean_request_has_no_remarks() -> None:
    lines = run("12.1a").stdout.splitlines()
    assert lines[:4] == ["12.1a", "", "  12.1a  sm_121a, runs on 12.1", ""]
    assert lines[4] == "  nvcc"
    assert "    FLASH_ATTN_CUDA_ARCHS=''" in lines


def test_help_says_what_a_list_is() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "--device CC" in result.stdout


def test_the_command_imports_no_heavy_library() -> None:
    code = (
        "import sys; from orchestrator.cli.arch import command; command(['12.1a'], standalone_mode=False);"
        "sys.exit(' '.join({'rich', 'yaml', 'packaging', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""
    assert done.stdout.startswith("12.1a\n")
