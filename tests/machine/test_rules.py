"""The table itself: no rule that nothing can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.machine.faults import CLASSES
from orchestrator.machine.loglines import STEMS, meets
from orchestrator.machine.rules_device import concerns
from orchestrator.machine.table import table
from orchestrator.model.arch import Device

if TYPE_CHECKING:
    from orchestrator.machine.rules import Rule


@pytest.mark.parametrize("rule", table(), ids=lambda rule: rule.pattern.pattern[:30])
def test_every_hint_is_found_by_a_stem(rule: Rule) -> None:
    assert all(rule.hints)
    assert [hint for hint in rule.hints if not any(meets(hint, stem) for stem in STEMS)] == []


def test_every_stem_is_needed() -> None:
    hints = [hint for rule in table() for hint in rule.hints]
    assert [stem for stem in STEMS if not any(meets(hint, stem) for hint in hints)] == []


def test_every_class_has_a_rule() -> None:
    assert {rule.fault for rule in table()} == set(CLASSES)


@pytest.mark.parametrize(
    ("name", "device", "matters"),
    [
        ("scaled_mm_c3x_120", "12.1", True),
        ("scaled_mm_c3x_sm90", "12.1", False),
        ("FP8_SM100", "10.3", True),
        ("NVFP4", "12.1", True),
        ("CUTLASS MLA", "12.1", False),
        ("CUTLASS MLA", "10.0", True),
        ("Machete kernels", "9.0", True),
        ("scaled_mm_c2x", "12.1", False),
    ],
)
def test_whether_a_kernel_matters_on_a_device(name: str, device: str, *, matters: bool) -> None:
    assert concerns(name, Device.parse(device)) is matters
