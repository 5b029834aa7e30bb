"""Expectations on the modules of a wheel; they fail closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from devicefiles import container, data, entry, scanned

from orchestrator.audit.policy import Expect, Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.audit.facts import FileFacts
from orchestrator.audit.report import DeviceReport

SPARK = Device(12, 1)
NATIVE = scanned(data("native.so"), "pkg/native.so")
WRONG = scanned(data("wrong.so"), "pkg/wrong.so")
FAMILY = scanned(data("family.so"), "pkg/family.so")
HOST = scanned(data("magic.so"), "pkg/host.so")
CUBIN = scanned(data("100f.cubin"), "pkg/k.cubin")


def judged(
    facts: Sequence[FileFacts],
    policy: Sequence[Expectation] | None,
    *,
    requested: frozenset[str] | None = None,
    files: Sequence[str] = (),
) -> DeviceReport:
    spec = judge_spec(
        "x.whl",
        facts,
        Question(devices=(SPARK,), policy=None if policy is None else tuple(policy), requested=requested),
        files=[*(file.path for file in facts), *files],
    )
    return spec.devices[0]


def told(report: DeviceReport) -> list[tuple[str, str]]:
    """Return (path, code) of every finding; the path is empty for the wheel."""
    return [
        *(("", finding.code) for finding in report.findings),
        *((module.path, finding.code) for module in report.modules for finding in module.findings),
    ]


def test_met() -> None:
    policy = [Expectation("pkg/native*.so", "native"), Expectation("pkg/host.so", "host")]
    report = judged([NATIVE, HOST], policy)
    assert told(report) == []
    assert [module.expected for module in report.modules] == ["native", "host"]
    assert not report.failed


def test_compatible_is_native() -> None:
    assert not judged([FAMILY], [Expectation("pkg/*.so", "native")]).failed


def test_not_native_says_how_many_fall_short_and_what_they_hold() -> None:
    report = judged([WRONG], [Expectation("pkg/*.so", "native")])
    assert report.failed
    (finding,) = report.modules[0].findings
    assert finding.code == "not-native"
    assert finding.text == (
        "none of 2 containers has SASS for 12.1 (2 run by JIT, 0 not at all); "
        "they hold compute_80 (2), sm_120a (2); sm_120a loads on 12.0 only: build for 12.0f or 12.1a"
    )


def test_partly_native_names_only_those_that_fall_short() -> None:
    mixed = scanned(container(entry(2, 121)) + container(entry(2, 90), entry(2, 80)), "a.so")
    (finding,) = judged([mixed], [Expectation("a.so", "native")]).modules[0].findings
    assert finding.text == "1 of 2 containers fall short on 12.1; they hold sm_80 (1), sm_90 (1)"


def test_jit() -> None:
    policy = [Expectation("pkg/*.so", "jit", "no kernels for it upstream")]
    report = judged([WRONG], policy)
    assert not report.failed
    assert report.modules[0].excepted == 2
    assert not judged([NATIVE], policy).failed
    lacking = scanned(container(entry(2, 90)) + container(entry(1, 80)), "pkg/x.so")
    report = judged([lacking], policy)
    assert told(report) == [("pkg/x.so", "not-jit")]
    assert report.modules[0].excepted == 1


def test_not_applicable_excuses_all() -> None:
    hopper = scanned(container(entry(2, 90, flags=0x100011)), "fa3.so")
    report = judged([hopper], [Expectation("fa3.so", "not-applicable", "needs wgmma")])
    assert not report.failed
    assert report.modules[0].excepted == 1
    assert report.modules[0].verdict == "none"


@pytest.mark.parametrize("expect", ["native", "jit"])
def test_a_module_that_should_hold_device_code_and_does_not(expect: Expect) -> None:
    report = judged([HOST], [Expectation("pkg/*.so", expect)])
    assert told(report) == [("", "no-device-code"), ("pkg/host.so", "no-device-code")]


def test_device_code_where_none_should_be() -> None:
    assert told(judged([NATIVE], [Expectation("**", "host")])) == [
        ("pkg/native.so", "unexpected-device-code")
    ]


def test_device_code_that_no_pattern_names() -> None:
    report = judged([NATIVE, FAMILY, HOST], [Expectation("pkg/native.so", "native")])
    assert told(report) == [("pkg/family.so", "unlisted-module")]
    assert [module.expected for module in report.modules] == ["native", None, None]


@pytest.mark.parametrize("expect", get_args(Expect))
def test_a_pattern_that_matches_nothing(expect: Expect) -> None:
    report = judged([NATIVE], [Expectation("pkg/native.so", "native"), Expectation("pkg/gone.so", expect)])
    assert told(report) == [("", "missing-module")]
    assert "pkg/gone.so" in report.findings[0].text


def test_a_native_pattern_is_not_met_by_a_text_file() -> None:
    policy = [Expectation("pkg/native.so", "native"), Expectation("pkg/*.pyi", "native")]
    assert told(judged([NATIVE], policy, files=["pkg/_C.pyi"])) == [("", "missing-module")]
    assert told(judged([NATIVE], [policy[0], Expectation("pkg/*.pyi", "host")], files=["pkg/_C.pyi"])) == []


def test_the_first_pattern_holds() -> None:
    policy = [Expectation("pkg/wrong.so", "jit"), Expectation("pkg/*.so", "native")]
    assert not judged([WRONG, NATIVE], policy).failed
    assert judged([WRONG, NATIVE], policy[::-1]).failed


def test_a_wheel_with_nothing_in_it() -> None:
    report = judged([], [Expectation("*.so", "native")])
    assert told(report) == [("", "missing-module"), ("", "no-device-code")]


def test_what_must_be_linked_first_is_not_native() -> None:
    linked = scanned(data("rdc.o"), "a.so")
    assert told(judged([linked], [Expectation("a.so", "native")])) == [("a.so", "not-loadable")]
    assert told(judged([linked], None)) == [("a.so", "not-loadable")]
    assert not judged([scanned(data("rdc.o"), "a.o")], None).failed


def test_what_was_not_asked_for_and_what_is_missing() -> None:
    policy = [Expectation("pkg/*.so", "native")]
    report = judged([NATIVE], policy, requested=frozenset(["sm_121a"]))
    assert told(report) == [("pkg/native.so", "extra-arch")]
    assert report.modules[0].findings[0].text == ("2 of 2 containers hold what was not asked for: sm_90a (2)")
    assert not report.failed
    report = judged([FAMILY], policy, requested=frozenset(["sm_121a", "sm_80", "sm_120f"]))
    assert told(report) == [("", "arch-not-found")]
    assert not report.failed


def test_both_what_is_missing_and_what_nobody_asked_for_are_shown_with_how_many_containers_it_took() -> None:
    wasted = container(entry(2, 120), entry(2, 90)) + container(entry(2, 120))
    report = judged(
        [scanned(wasted, "a.so")], [Expectation("a.so", "native")], requested=frozenset(["sm_120", "sm_121a"])
    )
    assert told(report) == [("", "arch-not-found"), ("a.so", "extra-arch")]
    assert report.findings[0].text == "asked for, and in no module: sm_121a"
    assert report.modules[0].findings[0].text == ("1 of 2 containers hold what was not asked for: sm_90 (1)")


def test_cubins_that_nobody_asked_for() -> None:
    policy = [Expectation("pkg/*.cubin", "not-applicable")]
    report = judged([CUBIN], policy, requested=frozenset(["sm_121a"]))
    assert told(report) == [("", "extra-arch"), ("", "arch-not-found")]
    assert report.findings[0].text == ("1 of 1 cubins outside containers were not asked for: sm_100f (1)")
    assert told(judged([CUBIN], policy, requested=frozenset(["sm_100f"]))) == []


def test_a_host_file_that_the_policy_lists_and_the_wheel_lacks() -> None:
    policy = [Expectation("pkg/native.so", "native"), Expectation("pkg/table.json", "host")]
    assert told(judged([NATIVE], policy)) == [("", "missing-module")]
    assert told(judged([NATIVE], policy, files=["pkg/table.json"])) == []


def test_a_cubin_for_one_other_chip_is_told_why() -> None:
    report = judged([scanned(data("120a.cubin"), "k.cubin")], None)
    assert report.findings[0].text.endswith(
        "the first is k.cubin; sm_120a loads on 12.0 only: build for 12.0f or 12.1a"
    )


def test_bare_cubins_with_a_policy() -> None:
    assert told(judged([CUBIN], [])) == [("", "unlisted-module")]
    assert told(judged([CUBIN], [Expectation("pkg/*.cubin", "native")])) == [("", "bare-cubins")]
    assert told(judged([CUBIN], [Expectation("pkg/*.cubin", "host")])) == [("", "unexpected-device-code")]
    assert told(judged([CUBIN], [Expectation("pkg/*.cubin", "not-applicable")])) == []


def test_without_a_policy_all_device_code_must_load() -> None:
    assert told(judged([NATIVE, FAMILY, HOST], None)) == []
    assert told(judged([NATIVE, WRONG], None)) == [("pkg/wrong.so", "not-native")]
    report = judged([NATIVE, CUBIN], None)
    assert told(report) == [("", "bare-cubins")]
    assert report.findings[0].text == (
        "1 of 1 cubins outside containers do not load on 12.1: sm_100f (1); the first is pkg/k.cubin"
    )


def test_what_could_not_be_read_fails_even_where_host_is_expected() -> None:
    broken = scanned(container(entry(2, 121))[:-4], "a.fatbin")
    for policy in (None, [Expectation("a.fatbin", "host")], [Expectation("a.fatbin", "not-applicable")]):
        assert judged([broken], policy).failed


def test_what_may_be_missing_is_no_fault_and_what_must_be_there_is() -> None:
    needed, optional = (Expectation("pkg/gone*.so", "native", required=yes) for yes in (True, False))
    rest = Expectation("pkg/native.so", "native")
    assert ("", "missing-module") in told(judged([NATIVE], [needed, rest]))
    assert told(judged([NATIVE], [optional, rest])) == []
    assert told(judged([], [optional], files=["pkg/__init__.py"])) == []


def test_files_that_no_pattern_of_the_allowed_ones_fits() -> None:
    files = ["pkg/native.so", "pkg/cute/a.py", "pkg-1.dist-info/RECORD", "pkg/", "top.py"]
    files += ["pkg-1.data/purelib/pkg/moved.py", "pkg-1.data/scripts/run"]

    def report(*only: str) -> DeviceReport:
        question = Question(devices=(SPARK,), policy=(Expectation("pkg/*.so", "native"),), only=only)
        return judge_spec("x.whl", [NATIVE], question, files=files).devices[0]

    assert told(report("pkg/**", "*.py", "pkg-1.data/scripts/*")) == []
    (finding,) = report("pkg/*.so", "top.py").findings
    assert (finding.level, finding.code) == ("error", "unlisted-file")
    assert finding.text == (
        "3 files fit no pattern of the files that it may hold: "
        "pkg/cute/a.py, pkg-1.data/purelib/pkg/moved.py, pkg-1.data/scripts/run"
    )
    (finding,) = report("pkg/**", "*.py").findings
    assert finding.text.startswith("1 file fits no pattern")


HOPPER = Device(9, 0)


def on_both(policy: Sequence[Expectation], *facts: FileFacts) -> dict[Device, list[tuple[str, str]]]:
    """Return the findings of a wheel that is to serve two families."""
    question = Question(devices=(HOPPER, SPARK), policy=tuple(policy))
    spec = judge_spec("x.whl", facts, question, files=[file.path for file in facts])
    return {report.device: told(report) for report in spec.devices}


def test_a_unit_for_one_of_two_families_is_no_fault_of_the_other() -> None:
    both, theirs = container(entry(2, 90), entry(2, 121)), container(entry(2, 90))
    found = on_both([Expectation("*.so", "native")], scanned(both + theirs, "k.so"))
    assert found == {HOPPER: [], SPARK: [("k.so", "for-other-devices")]}


def test_a_module_with_nothing_for_one_of_two_families_is() -> None:
    only = scanned(container(entry(2, 90)) * 2, "k.so")
    assert on_both([Expectation("*.so", "native")], only)[SPARK] == [("k.so", "not-native")]
    wide = Expectation("*.so", "native", required=False)
    assert on_both([wide], only)[SPARK] == [("k.so", "for-other-devices")]
    nobodys = scanned(container(entry(2, 90), entry(2, 121)) + container(entry(2, 80)), "k.so")
    found = on_both([Expectation("*.so", "native")], nobodys)
    assert found == {HOPPER: [("k.so", "not-native")], SPARK: [("k.so", "not-native")]}


def test_an_entry_for_one_device_says_nothing_of_another() -> None:
    only = scanned(container(entry(2, 90)), "hopper.so")
    wide = Expectation("*.so", "native")
    assert on_both([wide], only)[SPARK] == [("hopper.so", "not-native")]
    narrow = Expectation("hopper.so", "native", devices=frozenset({HOPPER}))
    assert on_both([narrow], only) == {HOPPER: [], SPARK: []}
    assert on_both([narrow, wide], only)[SPARK] == [("hopper.so", "not-native")], (
        "the next that matches holds"
    )
    assert on_both([narrow], scanned(container(entry(2, 121)), "hopper.so"))[HOPPER] == [
        ("hopper.so", "not-native")
    ]
