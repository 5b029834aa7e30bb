"""The shipped JSON schema fits what the audit prints, and knows every field of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from devicefiles import EXPECTED, data, scanned
from kernelfiles import module, unpacked

from orchestrator.audit.against import against
from orchestrator.audit.findings import Finding
from orchestrator.audit.policy import Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditedFile, AuditReport, SpecReport, judge_spec
from orchestrator.audit.schema import schema_text
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARK, HOPPER = Device(12, 1), Device(9, 0)
SCHEMA: dict[str, Any] = json.loads(schema_text())


def strict(schema: Any) -> Any:
    """Return the schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: strict(part) for key, part in schema.items()}
    if "properties" in schema:
        told["additionalProperties"] = False
    return told


def reports() -> Iterator[AuditReport]:
    every = [name for name in EXPECTED if not name.endswith(".json")]
    flat = [scanned(data(name), name) for name in every]
    deep = [unpacked(name) for name in every]
    both = (SPARK, HOPPER)
    question = Question(devices=both, deep=True, names=True, ptx_isa=(8, 0))
    old = judge_spec("old.whl", deep, question, files=every)
    new = judge_spec("new.whl", [*deep[3:], module({"sm_121a": "x"})], question, files=every)
    policy = (Expectation("n*.so", "native"), Expectation("*", "not-applicable", "for others"))
    asked = Question(devices=(SPARK,), policy=policy, requested=frozenset(("sm_121a", "sm_77")))
    yield AuditReport((SPARK,), (judge_spec("x", flat, Question(devices=(SPARK,)), files=every),))
    yield AuditReport(both, (old, against(new, old), against(old, new)), driver="12.0", ptx_isa=(8, 0))
    yield AuditReport((SPARK,), (judge_spec("x", flat, asked, files=every), SpecReport("y", error="gone")))
    files = (AuditedFile("a.whl", 0), AuditedFile("b.whl", 7, "0a" * 32))
    spec = judge_spec("x", [], asked, files=[], findings=[Finding("info", "some-code", "text")])
    yield AuditReport((SPARK,), (replace(spec, files=files),))


@pytest.mark.parametrize("report", list(reports()))
def test_what_is_printed_fits_and_has_no_other_field(report: AuditReport) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    found = json.loads(json.dumps(report.to_json()))
    jsonschema.validate(found, SCHEMA)
    jsonschema.validate(found, strict(SCHEMA))


def test_every_field_is_used() -> None:
    """No field stands in the schema that the audit never prints."""
    printed: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            printed.update(value)
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(part)

    for report in reports():
        look(report.to_json())
    named = {name for part in (SCHEMA, *SCHEMA["$defs"].values()) for name in part.get("properties", {})}
    assert named - printed == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("device",), "sm_121"),
        (("schema",), "sparkbuild.audit/2"),
        (("specs", 0, "verdict"), "ok"),
        (("specs", 0, "modules", 0, "containers", "jit"), -1),
        (("specs", 0, "modules", 0, "verdict"), "exact"),
        (("specs", 0, "modules", 0, "findings"), [{"level": "fatal", "code": "a", "text": "b"}]),
    ],
)
def test_what_is_wrong_does_not_fit(place: tuple[Any, ...], value: Any) -> None:
    found = next(reports()).to_json()
    at: Any = found
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA)


def test_a_field_that_is_missing_does_not_fit() -> None:
    found = next(reports()).to_json()
    del found["specs"][0]["modules"][0]["verdict"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA)
