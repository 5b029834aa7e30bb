"""Which interpreter is meant, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from venvs import Venv

from orchestrator.errors import SpecError
from orchestrator.inspect.environment import Environment, environment_of, find_python


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    return Venv.make(tmp_path_factory.mktemp("env") / "venv")


def test_an_environment_is_named_in_several_ways(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python(str(venv.root)) == venv.python
    assert find_python(str(venv.root / "bin/python")) == venv.root / "bin/python"
    monkeypatch.setenv("HOME", str(venv.root.parent))
    assert find_python("~/venv") == venv.python
    assert find_python("~/venv/bin/python3") == venv.python
    monkeypatch.chdir(venv.root)
    assert find_python("bin/python3") == venv.python
    monkeypatch.setenv("PATH", str(venv.root / "bin"))
    assert find_python("python3") == venv.python


def test_the_active_environment_comes_before_path(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert find_python(None) == other / "python"
    monkeypatch.setenv("VIRTUAL_ENV", str(venv.root))
    assert find_python(None) == venv.python


@pytest.mark.parametrize("named", ["/not/there", "no-such-python", "folder", "plain"])
def test_what_is_no_environment(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    with pytest.raises(SpecError) as caught:
        find_python(named)
    assert (caught.value.exit_code, caught.value.where) == (3, named)


def test_nothing_is_guessed_when_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    with pytest.raises(SpecError, match="on PATH"):
        find_python(None)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    with pytest.raises(SpecError, match="no such interpreter"):
        find_python(None)


def test_a_virtual_environment_says_where_it_imports_from(venv: Venv, tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    (layer / "torch" / "lib").mkdir(parents=True)
    (venv.site / "layer.pth").write_text(f"{layer}\n{tmp_path / 'gone'}\n{layer}\n")
    found = environment_of(venv.python)
    (venv.site / "layer.pth").unlink()
    assert found.version == sys.version.split()[0]
    assert found.roots == (venv.site, layer)
    assert found.torch == layer
    assert environment_of(venv.python).torch is None


def test_what_the_user_set_or_where_they_stand_changes_nothing(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert environment_of(venv.python).roots == (venv.site,)


def test_system_packages_are_seen_where_python_sees_them(tmp_path: Path) -> None:
    root = tmp_path / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", root], check=True
    )
    found = environment_of(find_python(str(root)))
    assert found.roots[0] == Venv(root).site
    base = environment_of(Path(os.path.realpath(sys.executable)))
    assert {*map(os.path.realpath, base.roots)} & {*map(os.path.realpath, found.roots)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#!/bin/sh\necho 'fatal: broken' >&2; exit 3\n", "fatal: broken"),
        ("#!/bin/sh\nexit 0\n", "it ended with 0"),
        ("#!/not/there\n", "cannot be asked"),
        ("no program", "cannot be asked|no Python"),
    ],
)
def test_what_is_no_python(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text(text)
    path.chmod(0o755)
    with pytest.raises(SpecError, match=told) as caught:
        environment_of(path)
    assert caught.value.where == str(path)


def test_a_python_that_talks_while_it_starts_is_understood(venv: Venv, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\necho hello\necho sparkbuild: warned >&2\nexec {venv.python} "$@"\n')
    path.chmod(0o755)
    assert environment_of(path) == Environment(path, sys.version.split()[0], (venv.site,))
