"""A run of its own with a broker, to be killed or stopped: `python jobs_worker.py FOLDER SLOTS`.

Prints the broker's address, and then each unit that has ended, until its input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.jobs.broker import Broker
from orchestrator.jobs.history import Cost, History
from orchestrator.jobs.turns import StepJobs

if TYPE_CHECKING:
    from orchestrator.jobs.units import Record


def say(*words: str) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def tell(record: Record) -> None:
    """Print what became of a unit."""
    say(record.unit.name, record.how)


def main() -> None:
    """Run the broker."""
    folder = Path(sys.argv[1])
    history = History(folder / "units.json", root=folder, default=Cost(1_000_000, 1.0))
    step = StepJobs("step", history, listen=tell)
    with Broker(slots=int(sys.argv[2]), reserve=0) as broker:
        broker.open(step)
        say(broker.address)
        sys.stdin.read()


if __name__ == "__main__":
    main()
