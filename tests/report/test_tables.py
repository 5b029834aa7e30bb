"""The plan and the table at the end, as people see them on terminals of 80 and 120 columns."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from samples import plan_inputs

from orchestrator.plan.planner import decide, keyed_steps
from orchestrator.report.tables import Row, plan_heading, plan_table, run_table

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS = (
    Row("pytorch", "2.14.1", "prebuilt"),
    Row("causal-conv1d", "1.7.0", "built", 296.4, 664.0, 3_100_000_000, "sm_121a 3/3", wheels=("x.whl",)),
    Row("flashmla", "1.0.0", "not-applicable", note="12.1a is not among 9.0a; instead: Triton MLA"),
)


def shown(what: RenderableType, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(what)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_of_a_run_is_cut_off(width: int) -> None:
    lines = shown(run_table(ROWS), width)
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    for row in ROWS:
        assert row.component in text
        assert row.action in text
    assert "4 min 56 s" in text
    assert "11 min 04 s" in text
    assert "2.9 GiB" in text
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_of_a_plan_is_cut_off(width: int) -> None:
    inputs = plan_inputs()
    plan = decide(inputs, keyed_steps(inputs, ()), {}, {})
    lines = shown(plan_table(plan), width)
    assert all(len(line) <= width for line in lines)
    assert "…" not in " ".join(lines)
    assert [line.split()[1] for line in lines[1:] if line[:1].isdigit()] == ["pure", "pytorch", "kernels"]
    assert plan_heading(plan, "CUDA 13.0.88").startswith(
        "stack demo, arch 12.1a, linux-x86_64, Python 3.12\n"
    )


def test_a_row_s_json_says_null_for_what_was_not_measured() -> None:
    row = ROWS[0].to_json()
    assert (row["wall_s"], row["peak_bytes"], row["coverage"], row["wheels"]) == (None, None, None, [])
