"""The entry point: what start-up imports, finding commands, and errors turned into exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest

from orchestrator.cli import main
from orchestrator.errors import InterruptedRunError, SparkbuildError, UsageError
from orchestrator.model.catalog import COMMANDS as RESERVED

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("rich", "yaml", "packaging", "msgspec", "platformdirs", "unearth", "sh", "filelock", "email")


def imported(*arguments: str) -> set[str]:
    """Return which heavy packages a command line imports."""
    code = (
        "import sys\n"
        "from orchestrator.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        f"print('loaded', *(name for name in {HEAVY!r} if name in sys.modules))\n"
        "sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.splitlines()[-1].split()[1:])


def test_version_costs_no_heavy_import() -> None:
    assert imported("--version") <= {"email"}, "importlib.metadata brings email"


def test_help_lists_recipes_without_reading_any() -> None:
    assert not imported("--help") & {"rich", "yaml", "packaging", "msgspec", "unearth", "sh"}


def test_help_of_a_recipe_reads_no_yaml() -> None:
    assert not imported("causal-conv1d", "--help") & {"rich", "yaml", "packaging", "unearth", "sh"}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"sparkbuild {version('sparkbuild')}\n"


def test_every_command_can_be_loaded_and_its_name_is_reserved() -> None:
    context = click.Context(main.root)
    for name, (_, _, text) in main.COMMANDS.items():
        command = main.root.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert text.endswith(".")
    assert set(main.COMMANDS) <= RESERVED


def test_a_recipe_s_name_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["causal-conv1d", "--help"]) == 0
    assert "Build causal-conv1d and what it needs" in capsys.readouterr().out


def test_help_without_arguments_is_an_error_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 2
    assert "Usage: sparkbuild" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("odd", where="here", hint="do this"), 2, "error: here: odd\n  hint: do this\n"),
        (InterruptedRunError(15), 143, "error: stopped\n"),
        (SparkbuildError("failed"), 1, "error: failed\n"),
        (KeyError("nobody thought of it"), 70, "this is a mistake in sparkbuild"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_have_their_codes(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(arguments: object) -> int:
        del arguments
        raise error

    monkeypatch.setattr(main, "_invoke", fails)
    assert main.run([]) == code
    assert said in capsys.readouterr().err


def test_every_error_class_has_a_code_of_the_contract() -> None:
    classes = [SparkbuildError]
    for kind in classes:
        classes += kind.__subclasses__()
    codes = {kind.code: kind.exit_code for kind in classes}
    assert len(codes) == len(classes), "two classes share a code word"
    assert set(codes.values()) <= {1, 2, 3, 4, 5, 6, 70, 130}


def test_the_installed_package_finds_its_recipes_from_anywhere(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "plan", "no-such-recipe", "--arch", "12.1a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "causal-conv1d" in ran.stderr
