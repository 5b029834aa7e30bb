"""What is said when a toolkit cannot make an arch; the real nvcc is asked in test_real_toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import faketools
import pytest

from orchestrator.errors import ToolkitError
from orchestrator.store.facts import Facts
from orchestrator.toolchain.probe import check_assembles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.toolchain.compiler import Compiler


def check(
    root: Path, archs: Sequence[str], facts: Facts, compiler: Compiler, identity: str = "system-1"
) -> None:
    check_assembles(root, archs, identity=identity, facts=facts, compiler=compiler)


def test_an_answer_is_remembered_per_arch_and_toolkit(tmp_path: Path, compiler: Compiler) -> None:
    root = faketools.toolkit(tmp_path / "cuda")
    for archs, identity, count in (
        (["sm_121a"], "system-1", 1),
        (["sm_121a"], "system-1", 1),
        (["sm_121a", "compute_121"], "system-1", 2),
        (["sm_121a"], "system-2", 3),
        ([], "system-3", 3),
    ):
        check(root, archs, Facts(tmp_path / "facts.json"), compiler, identity)
        assert faketools.calls(root / "calls") == count


@pytest.mark.parametrize(
    ("arch", "hint"),
    [
        ("sm_121a", "needs CUDA 12.9 or newer"),
        ("compute_110f", "needs CUDA 13.0 or newer"),
        ("sm_70", "CUDA 13 dropped what is older than sm_75"),
        ("sm_777", "sparkbuild arch"),
    ],
)
def test_the_tools_own_words_and_what_to_do(
    tmp_path: Path, facts: Facts, compiler: Compiler, arch: str, hint: str
) -> None:
    words = "nvcc fatal   : Unsupported gpu architecture"
    root = faketools.toolkit(tmp_path / "cuda", assemble=f"echo a warning; echo '{words}' >&2; exit 1")
    with pytest.raises(ToolkitError, match=words) as caught:
        check(root, [arch], facts, compiler)
    assert caught.value.exit_code == 4
    assert arch in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_failure_is_not_remembered(tmp_path: Path, facts: Facts, compiler: Compiler) -> None:
    root = faketools.toolkit(tmp_path / "cuda", assemble="exit 7")
    with pytest.raises(ToolkitError, match="it ended with 7 and without a word"):
        check(root, ["sm_121a"], facts, compiler)
    faketools.toolkit(tmp_path / "other")
    faketools.script(root / "bin/nvcc", (tmp_path / "other/bin/nvcc").read_text())
    check(root, ["sm_121a"], facts, compiler)


def test_success_without_an_image_is_none(tmp_path: Path, facts: Facts, compiler: Compiler) -> None:
    root = faketools.toolkit(tmp_path / "cuda", assemble="exit 0")
    with pytest.raises(ToolkitError, match="cannot assemble sm_121a"):
        check(root, ["sm_121a"], facts, compiler)


def test_no_nvcc(tmp_path: Path, facts: Facts, compiler: Compiler) -> None:
    with pytest.raises(ToolkitError, match="nvcc cannot be read"):
        check(tmp_path, ["sm_121a"], facts, compiler)
