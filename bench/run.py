"""All benchmarks: `python bench/run.py [QUICKSTART_HOME QUICKSTART_DIST]`, with sparkbuild installed.

The quickstart's no-op is measured when a state folder and a dist folder of a finished quickstart are
named. Limits are those that the project set itself, in CPU seconds on two common cores.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import SPARKBUILD, cpu_seconds, report
from synthetic import many_recipes, trivial_projects

RUNS = 5
RECIPES = 1000
PROJECTS = 30


def main(arguments: list[str]) -> int:
    """Run all, print a line each, and return 1 if any limit is broken."""
    print(f"{'CPU seconds':44} {'min':>7} {'median':>7} {'max':>7}")
    kept = [report("sparkbuild --version", [_cpu("--version") for _ in range(RUNS)], 0.15)]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        big, trivial = root / "big", root / "trivial"
        big.mkdir()
        trivial.mkdir()
        many_recipes(big, RECIPES)
        home = {"SPARKBUILD_HOME": str(root / "home")}
        plan = ("--recipes", str(big), "plan", "all", "--stack", "big", "--arch", "12.1a", "--json")
        _cpu(*plan, env=home)
        figures = [_cpu(*plan, env=home) for _ in range(RUNS)]
        kept.append(report(f"plan of {RECIPES:,} synthetic recipes", figures, 1.0))
        trivial_projects(trivial, PROJECTS)
        build = (
            "--recipes",
            str(trivial),
            "all",
            "--stack",
            "trivial",
            "--arch",
            "12.1a",
            "--dist",
            f"{root}/dist",
        )
        figures = [_cpu(*build, env={"SPARKBUILD_HOME": f"{root}/cold-{run}"}) / PROJECTS for run in range(3)]
        kept.append(report(f"{PROJECTS} pure-Python recipes cold, each", figures, 0.35))
        figures = [_cpu(*build, env={"SPARKBUILD_HOME": f"{root}/cold-0"}) for _ in range(RUNS)]
        kept.append(report(f"{PROJECTS} recipes, nothing to do", figures, 0.5))
    if arguments:
        state, dist = arguments
        again = ("all", "--stack", "quickstart", "--arch", "12.1a", "--dist", dist)
        figures = [_cpu(*again, env={"SPARKBUILD_HOME": state}) for _ in range(RUNS)]
        kept.append(report("quickstart, nothing to do", figures, 0.5))
    return 0 if all(kept) else 1


def _cpu(*arguments: str, env: dict[str, str] | None = None) -> float:
    return cpu_seconds([*SPARKBUILD, *arguments], env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
