"""The Python that builds."""

from __future__ import annotations

import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import MachineError, ToolMissingError
from orchestrator.toolchain.python import check_python, check_python_headers, libc_version, python_abi

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", [(2, 7), (3, 10)])
def test_too_old(version: tuple[int, int]) -> None:
    with pytest.raises(MachineError, match=rf"Python {version[0]}\.{version[1]} is too old, 3\.11") as caught:
        check_python(version)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("version", [None, (3, 11), (3, 14), (4, 0)])
def test_new_enough(version: tuple[int, int] | None) -> None:
    check_python(version)


def test_headers_are_found_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "Python.h").write_text("")
    assert check_python_headers(tmp_path) == tmp_path


def test_missing_headers_say_which_package(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match=r"Python\.h") as caught:
        check_python_headers(tmp_path)
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}-dev" in str(caught.value.hint)


def test_the_abi_is_in_the_names_of_extensions() -> None:
    assert python_abi() in sysconfig.get_config_var("EXT_SUFFIX")


def test_the_libc_has_a_version() -> None:
    name, _, version = libc_version().partition(" ")
    assert name == "glibc"
    assert version.startswith("2.")
