"""The audit as a value and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from devicefiles import data, scanned
from kernelfiles import unpacked

from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditedFile, AuditReport, SpecReport, judge_spec
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
                        "served": {"compatible": {"sm_120f": 1}},
                        "short": [],
                        "kernels": None,
                        "reasons": [],
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


def test_what_falls_short_is_in_the_json() -> None:
    facts = unpacked("wrong.so")
    question = Question(devices=(SPARK,), names=True)
    spec = replace(
        judge_spec("x.whl", [facts], question, files=[]), files=(AuditedFile("x.whl", 9, "0" * 64),)
    )
    found = spec.to_json()
    assert found["files"] == [{"name": "x.whl", "size": 9, "sha256": "0" * 64}]
    (module,) = found["modules"]
    assert module["served"] == {"jit": {"compute_80": 2}}
    assert module["short"][0] == {
        "offset": facts.containers[0].offset,
        "coverage": "jit",
        "arches": ["sm_120a", "compute_80"],
        "runs": "compute_80",
        "needs_ptx_isa": None,
        "kernels": ["add"],
    }
    assert (module["kernels"]["total"], module["kernels"]["hollow"]) == (2, None)
    assert module["reasons"] == ["sm_120a loads on 12.0 only: build for 12.0f or 12.1a"]


def test_the_audit_needs_the_standard_library_only() -> None:
    code = (
        "import sys, orchestrator.audit.report, orchestrator.audit.scan, orchestrator.audit.against;"
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
