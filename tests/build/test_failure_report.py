"""What a failed command tells: the first cause, what to do, and a log that ends with both."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import BuildFailedError


def test_the_hint_is_the_advice_and_the_log_ends_with_the_extract(bench: Any) -> None:
    with pytest.raises(BuildFailedError) as caught:
        bench.shell("echo 'FAILED: [code=137] a.o'; echo Killed; echo 'ninja: build stopped'; exit 1")
    error = caught.value
    assert error.message.endswith("ended with exit code 1: Killed")
    assert "memory ran out" in (error.hint or "")
    lines = bench.log.read_text().splitlines()
    assert error.where == f"{bench.log}:{lines.index('Killed') + 1}"
    assert [line.partition(": ")[0] for line in lines[-4:]] == [
        "[sparkbuild] fault",
        "[sparkbuild] evidence",
        "[sparkbuild] advice",
        "[sparkbuild] retry",
    ]
    assert lines[-3] == "[sparkbuild] evidence: Killed"
    assert lines[-2] == f"[sparkbuild] advice: {error.hint}"


def test_an_exit_code_is_evidence_without_words(bench: Any) -> None:
    with pytest.raises(BuildFailedError, match="its last line: quiet") as caught:
        bench.shell("echo quiet; kill -9 $$")
    assert "memory ran out" in (caught.value.hint or "")
    assert "[sparkbuild] evidence: killed by SIGKILL" in bench.log.read_text().splitlines()


def test_the_extract_of_one_command_does_not_reach_the_next(bench: Any) -> None:
    with pytest.raises(BuildFailedError, match="Killed"):
        bench.shell("echo Killed; exit 1")
    with pytest.raises(BuildFailedError, match="error: other"):
        bench.shell("echo 'a.c:1:1: error: other'; exit 1")


def test_a_log_that_the_command_removed(bench: Any) -> None:
    with pytest.raises(BuildFailedError, match="ended with exit code 3"):
        bench.shell(f"rm {bench.log}; exit 3")
