"""The table of rules: all of them, in the order in which they are tried."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.machine.rules import Rule


@cache
def table() -> tuple[Rule, ...]:
    """Return the rules, in order. Made when first asked for: compiling the patterns takes a while."""
    from orchestrator.machine import rules_device, rules_general, rules_machine, rules_source, rules_torch

    known = (*rules_source.RULES, *rules_machine.RULES, *rules_device.RULES, *rules_torch.RULES)
    return (*known, *rules_general.RULES)
