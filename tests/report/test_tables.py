"""The plan and the table at the end, as people see them on terminals of 80 and 120 columns."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.console import Console
from samples import KERNELS, STACK, locked_file, plan_inputs, with_locked, with_recipe

from orchestrator.build.probed import Probed
from orchestrator.model.recipe import BuildEstimate
from orchestrator.model.stack import with_prebuilt
from orchestrator.plan.forecast import Forecast
from orchestrator.plan.planner import decide, keyed_steps
from orchestrator.report.tables import (
    Row,
    forecast_lines,
    plan_heading,
    plan_table,
    prebuilt_lines,
    print_lines,
    probe_table,
    run_table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

GIB = 2**30
ROWS = (
    Row("pytorch", "2.14.1", "prebuilt"),
    Row("causal-conv1d", "1.7.0", "built", 296.4, 664.0, 3_100_000_000, "sm_121a 3/3", wheels=("x.whl",)),
    Row("flashmla", "1.0.0", "not-applicable", note="made for 9.0a only; instead: Triton MLA"),
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


@pytest.mark.parametrize("width", [80, 120])
def test_each_row_of_a_probe_is_one_line(width: int) -> None:
    rows = (
        Probed(
            component="flash-attn",
            version="2.8.3.post2",
            result="passes",
            unit="src/flash_fwd_hdim128_bf16_sm80.cu",
            images=("sm_121a",),
            cpu_s=156.0,
            peak_bytes=4 * GIB,
            coverage="sm_121a 1/1",
        ),
        Probed(component="causal-conv1d", version="1.7.0", result="not-applicable"),
    )
    first, *lines = shown(probe_table(rows), width)
    assert first.split() == ["component", "version", "asked", "for", "CPU", "peak", "result"]
    assert [line.split("  ")[0] for line in lines] == ["flash-attn", "causal-conv1d"]
    assert lines[0].endswith("sm_121a    2 min 36 s  4.0 GiB  passes: sm_121a 1/1")


@pytest.mark.parametrize("terminal", [True, False])
def test_where_a_person_reads_lines_are_divided_between_words(*, terminal: bool) -> None:
    text = "note    flashmla: made for 9.0a only\nstate   /a/path-that/is-longer/than-a/line-is"
    stream = io.StringIO()
    print_lines(Console(file=stream, width=24, force_terminal=terminal, highlight=False), text, indent=8)
    expected = [
        "note    flashmla: made",
        "        for 9.0a only",
        "state",
        "        /a/path-that/is-longer/than-a/line-is",
    ]
    assert stream.getvalue().splitlines() == (expected if terminal else text.splitlines())


def test_what_a_prebuilt_saves_and_costs() -> None:
    lock = with_locked("kernels", prebuilt=locked_file("kernels")).lock
    assert KERNELS.build is not None
    for estimate, told in (
        (BuildEstimate(cpu=4 * 3600), "saves 4 h 00 min of CPU time, by its recipe's figure"),
        (BuildEstimate(), "how long its build would take, nobody knows"),
    ):
        build = msgspec.structs.replace(KERNELS.build, estimate=estimate)
        recipes = with_recipe(msgspec.structs.replace(KERNELS, build=build)).recipes
        stack = with_prebuilt(STACK, ("kernels",))
        inputs = plan_inputs(stack=stack, lock=lock, recipes=recipes, prebuilt=("kernels",))
        steps = keyed_steps(inputs, ())
        plan = decide(inputs, steps, {}, {})
        assert plan.step("kernels").why == "taken as published, as --prebuilt says"
        assert plan.step("pytorch").why == "the stack takes it as published"
        (line,) = prebuilt_lines(plan).splitlines()
        assert line == (
            f"prebuilt  kernels: {told}; coverage of 12.1 unknown until it is audited: "
            "sparkbuild audit kernels==1.0 --arch '12.1a'"
        )
        audited = decide(inputs, steps, {}, {}, audits={"kernels": "3 exact of 3 units on 12.1"})
        assert prebuilt_lines(audited).endswith("; its audit found 3 exact of 3 units on 12.1")
        shown = next(step for step in audited.to_json()["steps"] if step["name"] == "kernels")
        assert shown["published"]["coverage"] == "3 exact of 3 units on 12.1"
        assert shown["published"]["saves"] == {
            "cpu_s": estimate.cpu,
            "basis": "recipe" if estimate.cpu else "nothing",
        }
    assert prebuilt_lines(decide(plan_inputs(), keyed_steps(plan_inputs(), ()), {}, {})) == ""


def test_a_row_s_json_says_null_for_what_was_not_measured() -> None:
    row = ROWS[0].to_json()
    assert (row["wall_s"], row["peak_bytes"], row["coverage"], row["wheels"]) == (None, None, None, [])


def test_a_forecast_is_one_line_when_all_is_known() -> None:
    told = forecast_lines(Forecast(20, 22_230.0, 92 << 30, 45 << 30))
    assert told == "forecast  about 6 h 10 min on 20 CPUs, up to 92.0 GiB of memory, 45.0 GiB of disk"


def test_it_says_what_it_does_not_know() -> None:
    told = forecast_lines(
        Forecast(
            1,
            29.6,
            GIB,
            None,
            guessed=("vllm", "qutlass"),
            unfinished=("flashmla",),
            unknown=tuple(f"part-{number}" for number in range(7)),
            warnings=("the disk is small",),
        )
    )
    assert told.splitlines() == [
        "forecast  about 30 s on 1 CPU, up to 1.0 GiB of memory",
        (
            "          vllm, qutlass: never built here, by their recipes' figures; "
            "flashmla: never finished here, so at least what was compiled; "
            "part-0, part-1, part-2, part-3, part-4 and 2 more: how long, nobody knows"
        ),
        "warning   the disk is small",
    ]
    one = forecast_lines(Forecast(20, None, GIB, None, guessed=("vllm",)))
    assert one.splitlines()[0] == "forecast  up to 1.0 GiB of memory"
    assert one.endswith("vllm: never built here, by its recipe's figure")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (61.0, "1 min"), (3590.0, "1 h 00 min"), (3600 * 30, "30 h 00 min")]
)
def test_hours_are_told_roughly(seconds: float, words: str) -> None:
    assert f"about {words} on 2 CPUs" in forecast_lines(Forecast(2, seconds, GIB, None))


@pytest.mark.parametrize("width", [80, 120])
def test_a_patch_that_nobody_has_judged_at_the_pin_is_told_with_the_why(width: int) -> None:
    inputs = plan_inputs(
        patch_seen_at=lambda _recipe, patch: ("0.9",) if patch == "0002-second" else ("1.0",)
    )
    words = " ".join(
        " ".join(shown(plan_table(decide(inputs, keyed_steps(inputs, ()), {}, {})), width)).split()
    )
    assert "unverified-at-pin (version 1.0):" in words
    assert "0002-second" in words
    assert "0001-first" not in words
