"""A whole run of a recipe that packs a wheel besides the one that its backend builds."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from purestack import PureStack

if TYPE_CHECKING:
    from pathlib import Path

BUILD = {
    "commands": [["{python}", "-c", "open(r'{out}/extra.txt', 'w').write('made by a command')"]],
    "wheels": [
        {
            "distribution": "base-extra",
            "summary": "s",
            "files": {"{out}/*.txt": "base_extra", "{src}/backend.py": "base_extra/from"},
            "texts": {"base_extra/__init__.py": "extra.py"},
            "requires": ["base=={version}"],
        }
    ],
}


@pytest.fixture
def pure(tmp_path: Path) -> PureStack:
    made = PureStack(tmp_path)
    made.project("base", build=json.dumps(BUILD))
    (made.recipes / "base").mkdir()
    (made.recipes / "base/extra.py").write_text("answer = 42\n")
    return made


def test_it_is_served_beside_the_built_one(pure: PureStack) -> None:
    ran = pure.run()
    assert ran.actions == {"base": "built"}, ran.err
    assert sorted(path.name for path in pure.dist.glob("*.whl")) == [
        "base-1.0-py3-none-any.whl",
        "base_extra-1.0-py3-none-any.whl",
    ]
    with zipfile.ZipFile(pure.dist / "base_extra-1.0-py3-none-any.whl") as wheel:
        assert wheel.read("base_extra/extra.txt") == b"made by a command"
        assert wheel.read("base_extra/__init__.py") == b"answer = 42\n"
        assert "base_extra/from/backend.py" in wheel.namelist()
        assert b"Requires-Dist: base==1.0\n" in wheel.read("base_extra-1.0.dist-info/METADATA")
    assert (pure.dist / "simple/base-extra").is_dir()
    assert pure.run().actions == {"base": "reuse"}


def test_a_step_may_yield_nothing_but_what_is_packed(pure: PureStack) -> None:
    pure.project("base", build=json.dumps(BUILD | {"backend": "commands"}))
    ran = pure.run()
    assert ran.actions == {"base": "built"}, ran.err
    assert [path.name for path in pure.dist.glob("*.whl")] == ["base_extra-1.0-py3-none-any.whl"]


def test_another_text_builds_again(pure: PureStack) -> None:
    assert pure.run().actions == {"base": "built"}
    (pure.recipes / "base/extra.py").write_text("answer = 43\n")
    assert pure.run().actions == {"base": "built"}
    with zipfile.ZipFile(pure.dist / "base_extra-1.0-py3-none-any.whl") as wheel:
        assert wheel.read("base_extra/__init__.py") == b"answer = 43\n"


def test_a_text_that_is_not_there_is_told_before_anything_runs(pure: PureStack) -> None:
    (pure.recipes / "base/extra.py").unlink()
    ran = pure.run()
    assert ran.code == 2
    assert "no file extra.py in" in ran.err


def test_what_was_not_built_fails_the_step(pure: PureStack) -> None:
    pure.project("base", build=json.dumps(BUILD | {"commands": []}))
    ran = pure.run()
    assert (ran.code, ran.actions) == (1, {"base": "failed"})
    assert "nothing that matches {out}/*.txt" in ran.err
