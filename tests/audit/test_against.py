"""Coverage gained and lost since an older wheel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from auditsamples import library
from devicefiles import data, scanned
from kernelfiles import mangled, module, unpacked

from orchestrator.audit.against import Comparison, against
from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.audit.facts import FileFacts
    from orchestrator.audit.report import SpecReport

SPARK, HOPPER = Device(12, 1), Device(9, 0)


def judged(spec: str, facts: Sequence[FileFacts], *devices: Device) -> SpecReport:
    return judge_spec(spec, facts, Question(devices=devices or (SPARK,), names=True), files=[])


def compared(old: Sequence[FileFacts], new: Sequence[FileFacts]) -> Comparison:
    found = against(judged("new", new), judged("old", old)).devices[0]
    assert found.against is not None
    lost = [finding for finding in found.findings if finding.code == "coverage-lost"]
    assert len(lost) == bool(found.against.lost)
    return found.against


def real(name: str, path: str = "pkg/_C.so") -> FileFacts:
    return replace(unpacked(name), path=path)


def test_a_real_module_that_lost_its_machine_code() -> None:
    found = compared([real("native.so")], [real("wrong.so")])
    assert [(one.before, one.after, one.holds, one.kernels) for one in found.lost] == [
        ("exact", "jit", ("sm_120a", "compute_80"), ("add",)),
        ("exact", "jit", ("sm_120a", "compute_80"), ("scale",)),
    ]
    assert found.gained == ()
    ((path, before, after),) = [(one.new, one.before.exact, one.after.jit) for one in found.modules]
    assert (path, before, after) == ("pkg/_C.so", 2, 2)
    back = compared([real("wrong.so")], [real("native.so")])
    assert back.lost == ()
    assert [(one.before, one.after, one.holds) for one in back.gained] == [
        ("jit", "exact", ("sm_120a", "compute_80"))
    ] * 2


def test_exact_and_compatible_are_worth_the_same() -> None:
    found = compared([real("native.so")], [real("family.so")])
    assert (found.lost, found.gained) == ((), ())
    assert [(one.before.exact, one.after.compatible) for one in found.modules] == [(2, 2)]


def test_nothing_changed_whatever_the_order_and_the_tag() -> None:
    old = real("native.so", "x-1.data/platlib/pkg/_C.cpython-312-aarch64-linux-gnu.so")
    new = replace(real("native.so", "pkg/_C.abi3.so"), containers=tuple(reversed(old.containers)))
    assert compared([old], [new]) == Comparison("old")


def test_a_container_that_is_gone() -> None:
    old = real("native.so")
    found = compared([old], [replace(old, containers=old.containers[:1])])
    assert [(one.offset, one.before, one.after, one.holds, one.kernels) for one in found.lost] == [
        (old.containers[1].offset, "exact", "absent", (), ("scale",))
    ]


def test_the_finding_fails_the_audit_and_names_the_modules() -> None:
    found = against(judged("new", [real("native.so", "b.so")]), judged("old", [unpacked("hollow.so")]))
    assert found.verdict == "fail"
    (finding,) = found.devices[0].findings
    assert (finding.level, finding.text) == (
        "error",
        "4 kernels in 1 container lost coverage of 12.1 since old: hollow.so",
    )
    assert found.to_json()["against"]["lost"][0]["module"] == "hollow.so"


def test_each_device_is_compared() -> None:
    devices = (SPARK, HOPPER)
    new = judged("new", [module({"sm_121a": "add"})], *devices)
    found = against(new, judged("old", [module({"sm_90a": "add", "sm_121a": "add"})], *devices))
    told = {str(report.device): report.against for report in found.devices}
    assert told["12.1"] == Comparison("old")
    assert told["9.0"] is not None
    assert [(one.before, one.after) for one in told["9.0"].lost] == [("exact", "none")]


def test_a_kernel_that_moved_to_another_module_is_not_lost() -> None:
    old = [module({"sm_121a": "a"}, {"sm_121a": "b"}, path="x.so")]
    new = [module({"sm_121a": "a"}, path="x.so"), module({"sm_121a": "b"}, path="y.so")]
    found = compared(old, new)
    assert (found.lost, found.gained) == ((), ())
    assert [(one.old, one.new) for one in found.modules] == [("x.so", "x.so"), (None, "y.so")]
    gone = compared(new, old)
    assert gone.lost == ()
    assert [(one.old, one.new) for one in gone.modules] == [("x.so", "x.so"), ("y.so", None)]


def test_the_same_kernel_in_two_containers() -> None:
    """Each container registers its own: that another one still has it does not help."""
    old = [module({"sm_121a": "shared a"}, {"sm_121a": "shared b"})]
    found = compared(old, [module({"sm_121a": "shared b"}, {"sm_90a": "shared a"})])
    assert [(one.offset, one.after, one.kernels) for one in found.lost] == [(0, "none", ("a", "shared"))]


def test_a_kernel_that_one_image_lacks() -> None:
    old = [module({"sm_90a": "a b", "sm_121a": "a b"})]
    found = compared(old, [module({"sm_90a": "a b", "sm_121a": "a"})])
    assert [(one.before, one.after, one.kernels) for one in found.lost] == [("exact", "none", ("b",))]


def test_jit_that_is_gone_is_lost_too() -> None:
    found = compared([module({"sm_80": "a", "compute_80": "a"})], [module({"sm_80": "a"})])
    assert [(one.before, one.after) for one in found.lost] == [("jit", "none")]


NAMES = [mangled("fa::forward", f"Li{number}E") for number in range(6)]


@pytest.mark.parametrize(
    ("old", "new", "lost", "renamed"),
    [
        ([NAMES[:2]], [NAMES[2:4]], 0, 2),  # others came in their place
        ([NAMES[:3]], [[NAMES[0], *NAMES[3:5]]], 0, 2),
        ([NAMES[:3]], [[NAMES[0], NAMES[3]]], 2, 0),  # too few came
        ([NAMES[:1], NAMES[1:2]], [NAMES[2:3]], 1, 1),  # a container less
    ],
)
def test_kernels_that_only_got_another_name(
    old: list[list[str]], new: list[list[str]], lost: int, renamed: int
) -> None:
    sides = [library(*({"sm_121a": " ".join(names)} for names in side)) for side in (old, new)]
    found = compared(sides[:1], sides[1:])
    assert (sum(len(one.kernels) for one in found.lost), found.renamed) == (lost, renamed)


def test_others_that_do_not_run_are_no_replacement() -> None:
    found = compared([module({"sm_121a": NAMES[0]})], [module({"sm_90a": NAMES[1]})])
    assert [one.after for one in found.lost] == ["absent"]


def test_hashes_and_versions_in_names_do_not_count() -> None:
    old, new = (
        module({"sm_121a": f"_ZN40_GLOBAL__N__{one}_8_Sleep_cu_{one}4spinEv"})
        for one in ("0123abcd", "cdef4567")
    )
    assert compared([old], [new]) == Comparison("old")


def test_without_names_numbers_are_compared() -> None:
    flat = [scanned(data(name), "x.so") for name in ("native.so", "wrong.so")]
    found = compared(flat[:1], flat[1:])
    assert [(one.module, one.before, one.after, one.kernels) for one in found.lost] == [
        ("x.so", "exact", "none", ())
    ]
    assert found.unread == 4
    assert compared(flat[1:], flat[:1]).lost == ()
    assert [one.after for one in compared(flat[:1], []).lost] == ["absent"]
    jit = compared(flat[1:], [])
    assert [one.before for one in jit.lost] == ["jit"]


def test_cubins_outside_containers() -> None:
    found = compared([unpacked("120f.cubin")], [replace(unpacked("100f.cubin"), path="120f.cubin")])
    assert [(one.module, one.offset, one.before, one.after) for one in found.lost] == [
        ("120f.cubin", None, "compatible", "none")
    ]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("a/_C.cpython-312-aarch64-linux-gnu.so", "a/_C.cpython-313-aarch64-linux-gnu.so", True),
        ("a/_C.so", "a/_C.abi3.so", True),
        ("lib/libx.so.1.2", "lib/libx.so.1.3", True),
        ("a.libs/libx-0123abcd.so.1", "a.libs/libx-fedcba98.so.1", True),
        ("a/_C.so", "b/_C.so", False),
        ("a/_C.so", "a/_D.so", False),
    ],
)
def test_modules_are_paired_by_where_they_lie(old: str, new: str, *, same: bool) -> None:
    before, after = module({"sm_121a": "a"}, path=old), module({"sm_121a": "a"}, path=new)
    assert (compared([before], [after]).modules == ()) == same


def test_many_containers_that_share_a_kernel_stay_quick() -> None:
    rows = [{"sm_121a": f"shared k{number} v{number}"} for number in range(400)]
    turned = [{"sm_121a": f"shared k{number} v{number + 1000}"} for number in reversed(range(400))]
    found = compared([library(*rows)], [library(*turned)])
    assert sum(len(one.kernels) for one in found.lost) == 0
    assert found.renamed == 400
