"""Constraints, other sources and unresolved commits of a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import RecipeError
from orchestrator.model.reader import load_stack
from orchestrator.model.stack import Commit, OtherSource, Stack, Unresolved

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789" * 4
GOOD = f"""\
schema: sparkbuild.stack/1
name: small
summary: Small
platforms: [linux-x86_64]
pythons: ["3.12"]
constraints: ["cuda-toolkit[nvcc,crt]==13.0.3", "cuda-python>=13,<14"]
components:
  vec:
    version: "1.0"
    published: true
    sources: {{main: {{git: "https://example.org/vec", submodules: false}}, extra: {{sdist: extra}}}}
    commits: {{main: {COMMIT}, kernels: unresolved v3.5.1}}
"""


def stack(tmp_path: Path, text: str) -> Stack:
    path = tmp_path / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return load_stack(path)


def test_what_is_read(tmp_path: Path) -> None:
    found = stack(tmp_path, GOOD)
    assert found.constraints == ("cuda-toolkit[nvcc,crt]==13.0.3", "cuda-python>=13,<14")
    vec = found.components["vec"]
    assert vec.published
    assert vec.sources["main"] == OtherSource(git="https://example.org/vec", submodules=False)
    assert vec.commit("main") == Commit(COMMIT)
    assert vec.commit("kernels") == Unresolved("v3.5.1")
    assert vec.commit("other") is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("cuda-python>=13,<14", "cuda-python>=x", "constraints[1]: found 'cuda-python>=x'"),
        ("cuda-python>=13,<14", "a @ https://x/a.whl", "an address"),
        ("cuda-python>=13,<14", "cuda-toolkit[nvcc,crt]==13.0.3", "a second time"),
        ("unresolved v3.5.1", "unresolved", "found 'unresolved', expected a full commit id"),
        ("unresolved v3.5.1", '"unresolved "', "or `unresolved TAG`"),
        ("unresolved v3.5.1", "unresolved -v", "components.vec.commits.kernels"),
        ("unresolved v3.5.1", "unresolved v3 5", "components.vec.commits.kernels"),
        ("unresolved v3.5.1", "v3.5.1", "40 lower-case hex digits"),
        ("{sdist: extra}", "{}", "components.vec.sources.extra: found none of them"),
        ("{sdist: extra}", "{sdist: extra, git: g}", "found sdist and git, expected exactly one of"),
        ("{sdist: extra}", "{local: .}", "sources.extra.local: found an unknown field"),
        ("{sdist: extra}", "{sdist: extra, submodules: false}", "submodules without `git`"),
        ("{sdist: extra}", "{archive: x.tgz}", "an address such as"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(RecipeError) as caught:
        stack(tmp_path, GOOD.replace(old, new))
    assert told in caught.value.message
