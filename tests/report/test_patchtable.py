"""What `patch check` found, as people see it on terminals of 80 and 120 columns."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from orchestrator.errors import OfflineError
from orchestrator.report.patchtable import patch_heading, patch_summary, patch_table
from orchestrator.source.patch import Judged, Moved
from orchestrator.source.patch_check import Checked, Row

if TYPE_CHECKING:
    from rich.console import RenderableType

REASON = (
    "does not apply: CMakeLists.txt, hunk 1: expected '  set(ARCHS 8.0 9.0 10.0 11.0 12.0)' at line 153, "
    "found '  set(ARCHS 8.0 9.0 10.0 11.0 12.0 13.0)'"
)
MOVED = (
    Moved("CMakeLists.txt", 1, 30),
    Moved("CMakeLists.txt", 2, 30),
    Moved("CMakeLists.txt", 3, -2),
    Moved("setup.py", 1, 1),
)
MAIN = Checked(
    "vllm",
    "main",
    "v0.34.0, commit 0123456789ab",
    (
        Row("0001-first", Judged("0001-first", "conflict", REASON, where="patches/0001-first.patch:12")),
        Row("0002-second", Judged("0002-second", "applies", moved=MOVED, where="patches/0002-second.patch")),
        Row("0003-third", Judged("0003-third", "out-of-versions", "its `when` does not hold", where="p")),
    ),
)
ERROR = OfflineError("the network is not allowed", where="https://example.org/x", hint="run it with one")
AWAY = Checked(
    "vllm", "inner", "commit cdcdcdcdcdcd", (Row("0004-fourth", None, "unverified-at-pin"),), ERROR
)


def shown(what: RenderableType, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False, markup=False).print(what)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_state_name_and_where_it_differs(width: int) -> None:
    lines = shown(patch_table(MAIN), width)
    assert lines[0] == "  conflict          0001-first"
    assert all(
        line.startswith((" " * 20, "  conflict  ", "  applies  ", "  out-of-versions  ")) for line in lines
    )
    words = " ".join(" ".join(lines).split())
    assert " ".join(REASON.split()) in words
    assert lines.count(" " * 20 + "patches/0001-first.patch:12") == 1
    assert "patches/0002-second.patch" not in words, "where it applies nobody asks for the file"
    told = ["CMakeLists.txt: hunks 1, 2 moved by +30 lines", "CMakeLists.txt: hunk 3 moved by -2 lines"]
    at = lines.index("  applies           0002-second")
    assert [line.strip() for line in lines[at + 1 : at + 4]] == [*told, "setup.py: hunk 1 moved by +1 lines"]
    assert lines[at + 5 :] == [" " * 20 + "its `when` does not hold"]
    assert max(map(len, lines)) <= width


def test_a_source_that_could_not_be_had() -> None:
    assert patch_heading(AWAY) == "vllm, source inner: commit cdcdcdcdcdcd"
    assert shown(patch_table(AWAY), 80) == ["  not judged        0004-fourth", " " * 20 + "unverified-at-pin"]
    assert patch_summary((MAIN, AWAY)).splitlines() == [
        "4 patches: 1 applies, 1 conflict, 1 not judged, 1 out-of-versions",
        "missing: vllm, source inner: the network is not allowed (https://example.org/x)",
        "  hint: run it with one",
    ]


def test_nothing_to_judge() -> None:
    assert patch_summary(()) == "no patch to judge"
