"""Events as JSON lines, for machines. `schema/events-1.json` describes them."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from orchestrator.report.output import Output

if TYPE_CHECKING:
    from orchestrator.report.events import Event

_INSIDE = re.compile(r"(?<!^)(?=[A-Z])")


class JsonLines:
    """Writes each event as one object, with its name and the time: `{"event": "step-started", ...}`."""

    def __init__(self, stream: TextIO) -> None:
        self._out = Output(stream)
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Write one event."""
        with self._lock:  # also the time: it never goes back from one line to the next
            time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            values = {field.name: _json(getattr(event, field.name)) for field in fields(event)}
            self._out.write(json.dumps({"event": event_name(type(event)), "time": time, **values}) + "\n")

    def close(self) -> None:
        """Do nothing: each line was flushed."""


def _json(value: object) -> object:
    """Return a value without digits that nobody measured."""
    return round(value, 3) if isinstance(value, float) else value


def event_name(kind: type[Event]) -> str:
    """Return how an event is called: `step-started`."""
    return _INSIDE.sub("-", kind.__name__).lower()
