"""The audit as JSON and as lines."""

from __future__ import annotations

import json
import subprocess
import sys

from devicefiles import data, scanned

from orchestrator.audit.findings import Finding
from orchestrator.audit.policy import Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditReport, SpecReport, judge_spec
from orchestrator.audit.summary import headline, lines
from orchestrator.model.archvalues import Device

SPARK, HOPPER = Device(12, 1), Device(9, 0)
LINKED = scanned(data("linked.so"), "pkg/linked.so")
WRONG = scanned(data("wrong.so"), "pkg/" + "deep/" * 20 + "wrong.so")
CUBIN = scanned(data("100f.cubin"), "pkg/k.cubin")
HOST = scanned(data("magic.so"), "host.so")


def test_json_is_the_contract() -> None:
    spec = judge_spec("x.whl", [LINKED], Question(devices=(SPARK,)), files=["pkg/linked.so"])
    assert json.loads(json.dumps(AuditReport((SPARK,), (spec,)).to_json())) == {
        "schema": "sparkbuild.audit/1",
        "device": "12.1",
        "specs": [
            {
                "spec": "x.whl",
                "verdict": "pass",
                "bare_cubins": {},
                "bare_cubin_coverage": {"total": 0, "exact": 0, "compatible": 0, "jit": 0, "none": 0},
                "findings": [],
                "modules": [
                    {
                        "path": "pkg/linked.so",
                        "verdict": "native",
                        "excepted": 0,
                        "containers": {"total": 1, "exact": 0, "compatible": 1, "jit": 0, "none": 0},
                        "images": {"sass": {"sm_120f": 1}},
                        "relocatable": {"ptx:120f": 1, "sass:120f": 1},
                        "cubins": {},
                        "expected": None,
                        "findings": [],
                    }
                ],
            }
        ],
    }


def test_several_devices() -> None:
    native = scanned(data("native.so"), "n.so")
    spec = judge_spec("x.whl", [native, LINKED], Question(devices=(SPARK, HOPPER)), files=["n.so"])
    found = spec.to_json()
    assert found["verdict"] == "fail"
    assert list(found["devices"]) == ["12.1", "9.0"]
    assert found["modules"] == found["devices"]["12.1"]["modules"]
    assert [module["verdict"] for module in found["devices"]["9.0"]["modules"]] == ["native", "none"]


def test_bare_cubins() -> None:
    spec = judge_spec("x.whl", [CUBIN, CUBIN], Question(devices=(SPARK,)), files=["pkg/k.cubin"])
    found = spec.to_json()
    assert (found["bare_cubins"], found["verdict"], found["modules"]) == ({"sm_100f": 2}, "fail", [])
    assert judge_spec("x", [CUBIN], Question(devices=(Device(10, 3),)), files=[]).verdict == "pass"


def test_one_that_could_not_be_read() -> None:
    spec = SpecReport("gone.whl", error="there is no such file")
    assert spec.verdict == "fail"
    assert spec.to_json()["error"] == "there is no such file"
    assert list(lines(spec)) == ["FAIL  gone.whl", "      there is no such file"]


def test_lines_fit_80_columns_and_begin_with_the_verdict() -> None:
    facts = [LINKED, WRONG, CUBIN, HOST]
    spec = judge_spec("x.whl", facts, Question(devices=(SPARK,)), files=[])
    shown = list(lines(spec))
    assert shown[0] == "FAIL  x.whl"
    assert all(len(line) <= 80 for line in shown if "deep/deep" not in line)
    assert any("to be linked first: ptx:120f (1), sass:120f (1)" in line for line in shown)
    assert "  1 more module holds no device code" in shown


def test_headlines() -> None:
    def line(
        *files: str, policy: list[Expectation] | None = None, findings: list[Finding] | None = None
    ) -> str:
        facts = [scanned(data(name), name) for name in files]
        spec = judge_spec(
            "x",
            facts,
            Question(devices=(SPARK,), policy=tuple(policy) if policy else None),
            files=files,
            findings=findings or [],
        )
        return headline(spec.devices[0])

    assert line() == "no device code"
    assert line("magic.so") == "no device code"
    assert (
        line("native.so", "family.so") == "machine code for 12.1 in 4 of 4 containers (2 exact, 2 compatible)"
    )
    assert line("wrong.so") == "machine code for 12.1 in 0 of 2 containers (2 only by JIT)"
    assert line("100f.cubin") == "machine code for 12.1 in 0 of 1 cubins (1 not at all)"
    assert "(2 exact, 1 not at all)" in line("native.so", "100f.cubin")
    excused = line("wrong.so", policy=[Expectation("*", "not-applicable")])
    assert excused.endswith("(2 only by JIT, 2 excused by the policy)")
    assert line("native.so", findings=[Finding("error", "x", "two members share bytes")]).endswith(
        "(2 exact), but two members share bytes"
    )


def test_names_cannot_steer_the_terminal() -> None:
    facts = scanned(data("wrong.so"), "a\x1b[2Jb\n\udcff.so")
    text = "\n".join(lines(judge_spec("\x1b[31m.whl", [facts], Question(devices=(SPARK,)), files=[])))
    assert "\x1b" not in text
    assert "a?[2Jb??.so" in text
    text.encode()


def test_the_audit_needs_the_standard_library_only() -> None:
    code = (
        "import sys, orchestrator.audit.report, orchestrator.audit.scan, orchestrator.audit.summary;"
        "own = {m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names);"
        "print(*sorted(m for m in own if not m.startswith('_')))"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, env=path()
    )
    assert shown.stdout.split() == ["orchestrator"]


def path() -> dict[str, str]:
    import orchestrator

    (folder,) = orchestrator.__path__
    return {"PYTHONPATH": folder.rsplit("/", 1)[0]}
