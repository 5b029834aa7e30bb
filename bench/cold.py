"""The quickstart, cold: `python bench/cold.py`. Downloads 3 GB and compiles for minutes.

Prints the whole run's wall time, and the CPU seconds that are ours: all of the run's, unpacking, hashing and
pip included, less what the build's own commands took.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import SPARKBUILD, report

WALL_LIMIT_S = 20 * 60.0
CPU_LIMIT_S = 60.0


def main() -> int:
    """Run it in a fresh state folder, print two lines, and return 1 if a limit is broken."""
    with tempfile.TemporaryDirectory() as name:
        state = Path(name) / "home"
        command = [
            *SPARKBUILD,
            "all",
            "--stack",
            "quickstart",
            "--arch",
            "12.1a",
            "--dist",
            f"{name}/dist",
            "--json",
        ]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            command, check=True, env=os.environ | {"SPARKBUILD_HOME": str(state)}, stdout=subprocess.PIPE
        )
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        for folder, _, _ in os.walk(state):
            Path(folder).chmod(0o755)  # layers are read-only
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    commands = sum(row["cpu_s"] or 0.0 for row in json.loads(done.stdout)["rows"])
    kept = [
        report("quickstart cold, wall seconds", [wall], WALL_LIMIT_S),
        report("quickstart cold, our own CPU seconds", [whole - commands], CPU_LIMIT_S),
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
