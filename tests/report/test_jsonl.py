"""Events for programs: one object a line, as the schema says."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, get_args

from events_help import EVENTS
from jsonschema import Draft202012Validator

from orchestrator.report.events import Event, Note
from orchestrator.report.jsonl import JsonLines, event_name


def written(*events: Event) -> list[dict[str, Any]]:
    stream = io.StringIO()
    lines = JsonLines(stream)
    for event in events:
        lines(event)
    lines.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_kind_of_event_is_as_the_schema_says() -> None:
    text = files("orchestrator.report").joinpath("schema/events-1.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    found = written(*EVENTS)
    for line in found:
        Draft202012Validator(schema).validate(line)
        assert set(schema["$defs"][line["event"]]["properties"]) == set(line) - {"time"}
    names = {event_name(kind) for kind in get_args(Event)}
    assert {line["event"] for line in found} == names
    assert {each["$ref"].rpartition("/")[2] for each in schema["oneOf"]} == names


def test_fields() -> None:
    before = datetime.now(UTC)
    run, unit = written(EVENTS[0], EVENTS[3])
    assert 0 <= (datetime.fromisoformat(run.pop("time")) - before).total_seconds() + 0.001 < 10
    assert run == {
        "event": "run-started",
        "stack": "demo",
        "arch": "12.1a",
        "steps": ["kernels", "attention", "quantize", "engine"],
        "logs": "/state/logs/run",
    }
    assert unit["cpu_s"] == 12.346


def test_any_text_is_one_line_of_ascii() -> None:
    stream = io.StringIO()
    JsonLines(stream)(Note("info", 'a\n\u2028"日\udc80\x1b'))
    text = stream.getvalue()
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert json.loads(text)["text"] == 'a\n\u2028"日\udc80\x1b'


def test_lines_of_threads_are_whole_and_in_order() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream)

    def emit() -> None:
        for event in EVENTS * 50:
            lines(event)

    threads = [threading.Thread(target=emit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [json.loads(line)["time"] for line in stream.getvalue().splitlines()]
    assert len(times) == 4 * 50 * len(EVENTS)
    assert times == sorted(times)


def test_a_stream_that_is_gone() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream)
    stream.close()
    lines(EVENTS[0])
    lines.close()
    lines(EVENTS[0])
