"""Hours, memory and disk of a run to come."""

from __future__ import annotations

import pytest

from orchestrator.model.lock import LockedComponent
from orchestrator.plan.forecast import Forecast, forecast, work_of
from orchestrator.plan.schedule import UNKNOWN_SECONDS, Limits, Work
from orchestrator.plan.steps import UNSEEN, Estimate, KeyedStep, Step


def step(estimate: Estimate) -> Step:
    keyed = KeyedStep("vllm", "1", "vllm", "build", LockedComponent(version="1"), needs=("pytorch",))
    return Step(keyed, "build", "not built yet", estimate)


def test_a_step_seen_before_has_its_own_figures() -> None:
    work = work_of(step(Estimate(4000.0, 7, 9)), cpus=10, memory=5)
    assert work == Work("vllm", ("pytorch",), 400.0, 10, 7)


@pytest.mark.parametrize("seconds", [UNKNOWN_SECONDS, 3600.0])
def test_a_step_never_seen_has_those_it_is_given(seconds: float) -> None:
    work = work_of(step(UNSEEN), cpus=10, memory=5, seconds=seconds)
    assert work == Work("vllm", ("pytorch",), seconds, 10, 5)


def test_a_run_takes_its_schedule_its_largest_moment_and_all_its_disk() -> None:
    works = {
        "a": Work("a", (), 10, 1, 4),
        "b": Work("b", (), 20, 1, 3),
        "c": Work("c", ("a",), 10, 1, 2),
        "d": Work("d", ("b", "c"), 5, 1, 6),
    }
    assert forecast(works, Limits(2, 100), {"a": 5, "d": 7, "toolkit": 1}) == Forecast(25, 7, 13)
    assert forecast(works, Limits(1, 100), {}) == Forecast(45, 6, 0)


def test_a_step_larger_than_the_machine_shows() -> None:
    works = {"huge": Work("huge", (), 10, 1, 99), "small": Work("small", (), 10, 1, 1)}
    assert forecast(works, Limits(4, 50), {}) == Forecast(20, 99, 0)


def test_nothing_takes_nothing() -> None:
    assert forecast({}, Limits(1, 0), {}) == Forecast(0, 0, 0)
