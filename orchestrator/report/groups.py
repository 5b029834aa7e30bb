"""Events for the log of a CI service: one group a step, written whole when the step ends.

GitHub: `::group::TITLE`, `::endgroup::`, `::error title=TITLE::TEXT`. Its runner reads them on standard error
too; in texts `%`, CR and LF are `%25`, `%0D`, `%0A`, in titles `:` and `,` are escaped as well (its
ActionCommand.cs and ScriptHandler.cs).
GitLab: `ESC[0Ksection_start:UNIX_TIME:NAME[collapsed=true]`, CR, `ESC[0KTITLE`; at the end
`ESC[0Ksection_end:UNIX_TIME:NAME`, CR, `ESC[0K` (docs.gitlab.com, "CI/CD job logs").
"""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Literal, TextIO

from orchestrator.report.events import Event, Note, StageStarted, StepEnded, StepStarted
from orchestrator.report.output import Output, Ticker
from orchestrator.report.phrases import Said, alive, outcome, printable, said, stamped
from orchestrator.report.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.report.state import Work

Host = Literal["github", "gitlab"]
QUIET_S = 60.0
"""Between two lines that tell what goes on."""
_ERASE = "\x1b[0K"
_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_TITLE_ESCAPES = {**_ESCAPES, ord(":"): "%3A", ord(","): "%2C"}


class Groups:
    """Writes events to a stream, from any thread. Steps run side by side, groups cannot."""

    def __init__(self, stream: TextIO, host: Host, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = Output(stream)
        self._host = host
        self._clock = clock
        self._begin = self._told = clock()
        self._state = State()
        self._kept: dict[str, list[str]] = {}
        """Lines of running steps, by step."""
        self._lock = threading.Lock()
        self._ticker = Ticker(1, self.beat)

    def __call__(self, event: Event) -> None:
        """Write one event, or keep it until its step ends."""
        now = self._clock()
        with self._lock:
            began = self._state.running.get(event.step) if isinstance(event, StepEnded) else None
            self._state.take(event, now)
            what = said(event)
            kept = self._kept.get(what.step) if what is not None and what.step else None
            if isinstance(event, StepStarted):
                self._kept[event.step] = []
            if isinstance(event, StepEnded):
                self._ended(event, what, began, now)
            elif isinstance(event, Note) and event.level == "error":
                self._write([self._error(event.step or "error", event.text, now)], now)
            elif what is not None and kept is not None:
                kept.append(self._stamped(what, now))
            elif what is not None:
                self._write([self._stamped(what, now)], now)
            if isinstance(event, StepStarted | StageStarted):
                self._ticker.start()

    def beat(self) -> None:
        """Tell in one line what goes on, when nothing was written for long."""
        now = self._clock()
        with self._lock:
            running = self._state.running.values()
            if running and now - self._told >= QUIET_S:
                told = "; ".join(
                    f"{printable(work.name)}: {alive(work, now, last=False)}" for work in running
                )
                self._write([self._stamped(Said(None, told), now)], now)

    def close(self) -> None:
        """Write what was kept of steps that did not end."""
        self._ticker.stop()
        now = self._clock()
        with self._lock:
            for step, lines in self._kept.items():
                title = f"{printable(step)}: not ended"
                self._write(self._group(title, lines, self._state.running.get(step), now), now)
            self._kept.clear()
            self._state.running.clear()

    def _ended(self, event: StepEnded, what: Said | None, began: Work | None, now: float) -> None:
        lines = self._kept.pop(event.step, None)
        if lines is not None:
            title = f"{printable(event.step)}: {outcome(event)}"
            if what is not None and event.text:
                lines.append(self._stamped(what, now))
            self._write(self._group(title, lines, began, now), now)
        elif what is not None and what.level != "error":
            self._write([self._stamped(what, now)], now)
        if event.ending in ("failed", "rejected"):
            self._write([self._error(f"{event.step} {event.ending}", event.text or outcome(event), now)], now)

    def _group(self, title: str, lines: list[str], work: Work | None, now: float) -> list[str]:
        if self._host == "github":
            return [f"::group::{title.translate(_ESCAPES)}", *lines, "::endgroup::"]
        end = int(time.time())
        start = end if work is None else end - round(now - work.began)
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", title.partition(":")[0])
        return [
            f"{_ERASE}section_start:{start}:{name}[collapsed=true]\r{_ERASE}{title}",
            *lines,
            f"{_ERASE}section_end:{end}:{name}\r{_ERASE}",
        ]

    def _error(self, title: str, text: str, now: float) -> str:
        if self._host == "github":
            lines = "\n".join(map(printable, text.splitlines()))
            return f"::error title={title.translate(_TITLE_ESCAPES)}::{lines.translate(_ESCAPES)}"
        return self._stamped(Said(None, printable(f"error: {title}: {text}"), "error"), now)

    def _stamped(self, what: Said, now: float) -> str:
        # GitLab shows colours. GitHub's runner also takes `##[command]` anywhere in a line for its own.
        line = stamped(what, now - self._begin, color=self._host == "gitlab" and self._out.wants_color)
        return line.replace("##[", "## [")

    def _write(self, lines: list[str], now: float) -> None:
        self._told = now
        self._out.write("\n".join(lines) + "\n")
