"""Hours, memory and disk of a run to come."""

from __future__ import annotations

import time

import pytest

from orchestrator.model.lock import LockedComponent
from orchestrator.plan.forecast import Forecast, Machine, forecast, works_of
from orchestrator.plan.schedule import UNKNOWN_SECONDS, Work
from orchestrator.plan.steps import UNSEEN, Action, Estimate, KeyedStep, Plan, Step

SPARK = Machine(cpus=20, memory=100, disk=1000)


def step(name: str, estimate: Estimate, *needs: str, action: Action = "build") -> Step:
    keyed = KeyedStep(name, "1", name, "build", LockedComponent(version="1"), needs=needs)
    return Step(keyed, action, "for tests", estimate)


def plan(*steps: Step) -> Plan:
    return Plan("demo", "12.1a", "linux-aarch64, Python 3.12", steps)


def work(estimate: Estimate) -> Work:
    return works_of(plan(step("vllm", estimate)), cpus=20, memory=100)["vllm"]


def test_a_step_keeps_all_cpus_busy() -> None:
    steps = plan(step("vllm", Estimate(4000.0, 7), "torch"), step("torch", UNSEEN, action="reuse"))
    assert works_of(steps, cpus=20, memory=100) == {"vllm": Work("vllm", ("torch",), 200.0, 20, 7)}


def test_but_is_never_shorter_than_its_longest_unit() -> None:
    known = Estimate(4000.0, 7, longest_s=1000.0)
    assert (work(known).seconds, work(known).cpus) == (1000.0, 4)


@pytest.mark.parametrize("seconds", [UNKNOWN_SECONDS, 3600.0])
def test_a_step_of_which_nothing_is_known_takes_what_is_said(seconds: float) -> None:
    works = works_of(plan(step("vllm", UNSEEN)), cpus=20, memory=100, unknown_s=seconds)
    assert works == {"vllm": Work("vllm", (), seconds, 20, 0)}


def test_a_step_that_took_no_time_at_all_is_a_work() -> None:
    assert work(Estimate(0.0, 7)) == Work("vllm", (), 0.0, 1, 7)


@pytest.mark.parametrize(
    ("largest", "typical", "total", "held"),
    [
        (9, 3, 500, 60),  # as many as there are CPUs
        (9, 8, 500, 100),  # the gate keeps them within the machine's memory
        (9, 3, 20, 20),  # all of them together take no more
        (130, 3, 500, 130),  # one alone runs, whatever it takes
        (9, None, None, 9),  # nothing is compiled
        (4, 4, None, 80),  # never built: the recipe's memory_per_unit
    ],
)
def test_memory_is_that_of_the_units_that_run_at_a_time(
    largest: int, typical: int | None, total: int | None, held: int
) -> None:
    assert work(Estimate(100.0, largest, typical_bytes=typical, total_bytes=total)).memory == held


def test_a_run_takes_its_schedule_its_largest_moment_and_all_its_disk() -> None:
    steps = plan(
        step("a", Estimate(20.0, 30, 5, longest_s=20.0, basis="seen")),
        step("b", Estimate(10.0, 40, 7, longest_s=10.0, basis="seen")),
        step("c", Estimate(100.0, 50, basis="seen"), "a", "b"),
        step("torch", Estimate(disk_bytes=99), action="prebuilt"),
        step("d", Estimate(9999.0, 99, 99, basis="seen"), action="reuse"),
    )
    # a and b hold a CPU each at the same time; c has all of them afterwards
    assert forecast(steps, SPARK) == Forecast(20, 25.0, 70, 12)


def test_how_sure_it_is_is_told() -> None:
    found = forecast(
        plan(
            step("said", Estimate(200.0, 8, basis="recipe")),
            step("part", Estimate(100.0, 8, basis="unfinished"), "dark"),
            step("dark", Estimate(None, 90), "said"),
        ),
        SPARK,
    )
    assert found == Forecast(20, 15.0, 90, None, guessed=("said",), unfinished=("part",), unknown=("dark",))
    assert found.to_json() == {
        "cpus": 20,
        "wall_s": 15.0,
        "peak_bytes": 90,
        "disk_bytes": None,
        "guessed": ["said"],
        "unfinished": ["part"],
        "unknown": ["dark"],
        "notes": [],
    }


def test_of_nothing_nobody_knows_how_long() -> None:
    found = forecast(plan(step("dark", Estimate(None, 90, 3))), SPARK)
    assert found == Forecast(20, None, 90, 3, unknown=("dark",))


def test_nothing_to_build_has_no_forecast() -> None:
    assert forecast(plan(step("torch", Estimate(1.0, 2, 3), action="prebuilt")), SPARK) is None
    assert forecast(plan(), SPARK) is None


def test_what_the_machine_lacks_is_a_warning_with_what_to_do() -> None:
    found = forecast(plan(step("huge", Estimate(10.0, 101, 1001, basis="seen"))), SPARK)
    assert found is not None
    assert found.peak_bytes == 101
    memory, disk = found.warnings
    assert "huge is thought to take 101 B" in memory
    assert "add swap" in memory
    assert "1000 B of disk are free" in disk
    assert "`sparkbuild store gc`" in disk
    assert [note["level"] for note in found.to_json()["notes"]] == ["warning", "warning"]


def test_what_just_fits_is_none() -> None:
    fits = plan(step("large", Estimate(10.0, 100, 1000, basis="seen")))
    for machine in (SPARK, Machine(20, 100)):
        found = forecast(fits, machine)
        assert found is not None
        assert not found.warnings


@pytest.mark.parametrize("known", [True, False])
def test_a_thousand_steps_are_foreseen_at_once(known: bool) -> None:  # noqa: FBT001 - a parameter of tests
    names = [f"part-{number:03}" for number in range(1000)]
    estimate = Estimate(60.0, 2, 1, basis="seen") if known else Estimate(None, 2)
    steps = [step(name, estimate, *names[max(0, at - 2) : at]) for at, name in enumerate(names)]
    began = time.process_time()
    found = forecast(plan(*steps), SPARK)
    assert time.process_time() - began < 2
    assert found is not None
    assert found.wall_s == (pytest.approx(3000.0) if known else None)
