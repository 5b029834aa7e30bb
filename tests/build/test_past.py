"""What is known of earlier builds: the units of a component, from the files that builds leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from orchestrator.build.past import units
from orchestrator.plan.estimate import UnitCosts
from orchestrator.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_units_are_summed_up_of_those_that_are_asked_for(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert units(home, ["vllm"]) == {}
    home.units.mkdir()
    rows = {"a.cu nvcc sm_121a": [5, 10.0, 1], "b.cu nvcc sm_121a": [7, 30.0, 1], "old.cu nvcc ": [9, 9.0, 0]}
    for name in ("vllm", "other"):
        (home.units / f"{name}.json").write_text(json.dumps(rows))
    (home.units / "broken.json").write_text("{")
    assert units(home, ["vllm", "broken", "missing"]) == {
        "vllm": UnitCosts(2, 40.0, 30.0, largest=7, typical=6, total=12, whole=True)
    }
    assert units(home, []) == {}
