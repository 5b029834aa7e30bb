"""What a plan is thought to take on this machine: reads its memory, CPUs and disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.plan.forecast import Forecast, Machine
    from orchestrator.plan.steps import Plan
    from orchestrator.store.home import Home


def this_machine(home: Home) -> Machine:
    """Return what builds may use here: CPUs, memory less the gate's reserve, disk where the state lies."""
    from orchestrator.jobs.memory import cpu_count, read_memory, reserve
    from orchestrator.plan.forecast import Machine
    from orchestrator.store.atomic import free_bytes

    return Machine(cpu_count(), max(0, read_memory().total - reserve()), free_bytes(home.root))


def foreseen(plan: Plan, home: Home) -> Forecast | None:
    """Return what the steps that build take on this machine; None when nothing is built."""
    if not plan.builds:
        return None
    from orchestrator.plan.forecast import forecast

    return forecast(plan, this_machine(home))
