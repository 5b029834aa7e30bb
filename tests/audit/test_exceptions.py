"""What exceptions excuse: whole containers and kernels without work, and nothing that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelfiles import module, unpacked

from orchestrator.audit.policy import Exempt, Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.policy import Expect
    from orchestrator.audit.report import DeviceReport

SPARK, HOPPER = Device(12, 1), Device(9, 0)


def entry(*kernels: str, expect: Expect = "native", match: str = "*.so") -> Expectation:
    return Expectation(match, expect, None, tuple(Exempt(each, f"for {each}") for each in kernels))


def judged(
    *facts: FileFacts, policy: Expectation, deep: bool = False, isa: tuple[int, int] | None = None
) -> DeviceReport:
    question = Question(devices=(SPARK,), policy=(policy,), deep=deep, ptx_isa=isa)
    assert question.inside
    return judge_spec("x.whl", facts, question, files=[file.path for file in facts]).devices[0]


def told(report: DeviceReport) -> list[str]:
    """Return the code of every finding, those of the wheel first."""
    found = [*report.findings, *(finding for module in report.modules for finding in module.findings)]
    return [finding.code for finding in found if finding.code != "not-disassembled"]


OLD = {"sm_80": "gemm_sm80 gemm_sm89", "compute_80": "gemm_sm80 gemm_sm89"}
NEW = {"sm_121a": "gemm_sm120"}


def test_a_container_all_of_whose_kernels_fit_is_excused_and_the_reason_is_shown() -> None:
    report = judged(module(OLD, NEW), policy=entry("gemm_sm8*"))
    assert told(report) == ["excepted"]
    (finding,) = report.modules[0].findings
    assert (finding.level, finding.text) == (
        "info",
        "kernels 'gemm_sm8*' excuse 1 container: for gemm_sm8*",
    )
    assert report.modules[0].excepted == 1
    assert report.modules[0].verdict == "partial", "verdicts are raw"
    assert not report.failed


def test_a_container_with_one_kernel_more_is_not() -> None:
    report = judged(module(OLD, NEW), policy=entry("gemm_sm80"))
    assert told(report) == ["unused-exception", "not-native"]
    assert report.modules[0].excepted == 0


def test_several_exceptions_excuse_one_container_together() -> None:
    report = judged(module(OLD, NEW), policy=entry("gemm_sm80", "*_sm89"))
    assert told(report) == ["excepted", "excepted"]
    assert report.modules[0].excepted == 1


def test_the_rest_still_counts() -> None:
    report = judged(module(OLD, {"sm_90": "other"}, NEW), policy=entry("gemm_sm8*"))
    assert told(report) == ["excepted", "not-native"]
    assert report.modules[0].findings[1].text == "1 of 3 containers fall short on 12.1; they hold sm_90 (1)"


def test_kernels_that_are_not_known_are_not_excused() -> None:
    for unread in ({"sm_80": None}, {"sm_80": "gemm", "sm_90": None}):
        report = judged(module(unread, NEW), policy=entry("gemm*"))
        assert told(report) == ["exceptions-unread", "not-native"]
        assert "1 container without machine code cannot be excused" in report.modules[0].findings[0].text
        assert report.modules[0].excepted == 0
    assert told(judged(module({"sm_80": ""}, NEW), policy=entry("gemm*"))) == [
        "unused-exception",
        "not-native",
    ]


def test_an_exception_that_excuses_nothing_is_told_once() -> None:
    report = judged(module(NEW, path="a.so"), module(NEW, path="b.so"), policy=entry("gemm_sm8*"))
    assert told(report) == ["unused-exception"]
    assert report.findings[0].level == "warning"
    assert "'*.so' for kernels 'gemm_sm8*'" in report.findings[0].text


def test_an_exception_may_serve_one_of_several_modules_or_devices() -> None:
    assert told(judged(module(NEW, path="a.so"), module(OLD, path="b.so"), policy=entry("gemm*"))) == [
        "excepted"
    ]
    question = Question(devices=(HOPPER, SPARK), policy=(entry("gemm_sm120"),))
    spec = judge_spec(
        "x.whl", [module({"sm_90a": "gemm_sm120", "sm_80": "gemm_sm120"})], question, files=["a.so"]
    )
    assert [told(report) for report in spec.devices] == [[], ["excepted"]]


def test_where_jit_will_do_only_what_does_not_run_needs_an_exception() -> None:
    stuck = {"sm_90a": "gemm_sm90"}
    report = judged(module(OLD, stuck, NEW), policy=entry("*sm90", expect="jit"))
    assert told(report) == ["excepted"]
    assert report.modules[0].excepted == 2
    report = judged(module(OLD, stuck, NEW), policy=entry("gemm_sm8*", expect="jit"))
    assert told(report) == ["unused-exception", "not-jit"]
    assert report.modules[0].excepted == 1


def test_an_excused_container_that_the_driver_cannot_compile() -> None:
    late = {"sm_80": "gemm", "compute_80@9.1": "gemm"}
    assert told(judged(module(late), policy=entry("gemm"), isa=(9, 1))) == ["excepted"]
    report = judged(module(late), policy=entry("gemm"), isa=(9, 0))
    assert told(report) == ["excepted", "ptx-newer-than-driver"]
    assert report.modules[0].findings[1].text == (
        "1 excused container does not even run by JIT: PTX 9.1 needs a driver of CUDA 13.1 (590) or newer"
    )


def test_hollow_kernels_are_excused_by_their_own_names() -> None:
    facts = unpacked("hollow.so")
    assert told(judged(facts, policy=entry("x"), deep=True)) == ["unused-exception", "hollow"]
    report = judged(facts, policy=entry("guarded", "asserts"), deep=True)
    assert told(report) == ["excepted", "excepted"]
    assert report.modules[0].findings[0].text == "kernels 'guarded' excuse 1 idle kernel: for guarded"
    assert report.modules[0].excepted == 1
    assert not report.failed
    report = judged(facts, policy=entry("guarded"), deep=True)
    assert told(report) == ["excepted", "hollow"]
    assert "1 kernel in 1 container" in report.modules[0].findings[1].text
    assert report.modules[0].excepted == 0


def test_an_exception_for_a_hollow_kernel_is_of_use_in_an_audit_that_is_not_deep() -> None:
    report = judged(unpacked("hollow.so"), policy=entry("guarded", "asserts"))
    assert told(report) == ["excepted", "excepted"]


def test_warnings_about_excused_containers_are_left_out() -> None:
    idle = {"sm_90": "a_sm90", "sm_121": "a_sm90-"}
    serving = {"sm_121": "a_sm120"}
    assert told(judged(module(idle, serving), policy=entry("x"), deep=True)) == [
        "unused-exception",
        "hollow-units",
        "guarded",
    ]
    assert told(judged(module(idle, serving), policy=entry("a_sm90"), deep=True)) == ["guarded"]


def test_what_is_meant_for_others_has_no_hollow_kernels() -> None:
    entry_ = Expectation("*.so", "not-applicable", "needs wgmma")
    question = Question(devices=(SPARK,), policy=(entry_,), deep=True)
    report = judge_spec("x.whl", [unpacked("hollow.so")], question, files=["hollow.so"]).devices[0]
    assert told(report) == []


def test_a_module_without_device_code_leaves_exceptions_alone() -> None:
    report = judged(module(path="a.so"), module(NEW, path="b.so"), policy=entry("x", match="a.so"))
    assert told(report) == ["no-device-code", "unlisted-module"]
