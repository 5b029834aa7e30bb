"""One event of each kind, and the play of a small run that a test can start as a process."""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings

from orchestrator.report.choose import FORMATS, Renderer, renderer
from orchestrator.report.events import (
    Event,
    Note,
    Progress,
    RunStarted,
    StageFinished,
    StageStarted,
    StepEnded,
    StepStarted,
    UnitEnded,
    Usage,
)

STEPS = ("kernels", "attention", "quantize", "engine")
LINE = "[{0}/111] Building CUDA object \x1b[2J日本語/csrc/kernels/flash_fwd_hdim{0}_sm121.cu.o of many"

EVENTS: tuple[Event, ...] = (
    RunStarted("demo", "12.1a", STEPS, "/state/logs/run"),
    StepStarted("kernels", 111, 720.0),
    StageStarted("kernels", "build", "/state/logs/run/kernels.log"),
    UnitEnded("kernels", "csrc/a.cu", "hit", 12.3456, 2**30),
    Usage(18, 20, 41 * 2**30, 96 * 2**30),
    Progress("kernels", LINE.format(37)),
    Note("warning", "holds sm_80 as well", "kernels"),
    StageFinished("kernels", "build", 75.2),
    StepEnded("kernels", "failed", 192.0, "nvcc: 100% wrong\nsecond line"),
)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def play(emit: Renderer, *, until: threading.Event) -> None:
    """Emit what four steps in threads of their own emit; three of them go on until it is set."""
    emit(StageStarted("sources", "fetch"))
    emit(StageFinished("sources", "fetch", 0.1))
    emit(RunStarted("demo", "12.1a", STEPS, "/state/logs/run"))

    def step(name: str) -> None:
        emit(StepStarted(name, 111, 720.0))
        emit(StageStarted(name, "build", f"/state/logs/run/{name}.log"))
        for number in range(1, 38):
            emit(UnitEnded(name, f"csrc/{number}.cu", "hit" if number % 2 else "ran", 1.0, 2**30))
            emit(Progress(name, LINE.format(number)))
        emit(Usage(18, 20, 41 * 2**30, 96 * 2**30))
        if name == STEPS[0]:
            emit(StepEnded(name, "built", 192.0))
        until.wait()

    threads = [threading.Thread(target=step, args=(name,)) for name in STEPS]
    for thread in threads:
        thread.start()
    emit(Note("warning", "words of \x1b[2J many " + "x" * 90, "attention"))
    for thread in threads:
        thread.join()


def main() -> None:
    """Play a run on standard error, until a line comes on standard input, or a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log-format", choices=FORMATS, default="auto")
    parser.add_argument("--raise", action="store_true", dest="fails")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    print("before", flush=True)  # noqa: T201 (what a terminal shows already)
    emit = renderer(sys.stderr, args.log_format)
    over = threading.Event()
    try:
        if args.quick:
            emit(StageStarted("sources", "fetch"))
            emit(StageFinished("sources", "fetch", 0.0))
            return
        player = threading.Thread(target=play, args=(emit,), kwargs={"until": over})
        player.start()
        time.sleep(0.6)
        warnings.warn("somebody else speaks", stacklevel=1)
        if args.fails:
            raise RuntimeError("boom")
        sys.stdin.readline()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        over.set()
        emit.close()
        emit(Note("info", "after the end"))
    print("the result")  # noqa: T201 (what a command says at its end)


if __name__ == "__main__":
    main()
