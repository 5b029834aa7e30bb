"""Each container as a device sees it."""

from __future__ import annotations

from kernelfiles import module, unpacked

from orchestrator.audit.containers import grouped, report_containers, report_cubins, served
from orchestrator.audit.hollow import find_hollow
from orchestrator.audit.kernelfacts import kernel_facts
from orchestrator.model.archvalues import Device

SPARK, HOPPER = Device(12, 1), Device(9, 0)


def test_real_containers() -> None:
    found = report_containers(unpacked("native.so"), SPARK)
    assert [(box.coverage, box.arches, box.runs) for box in found] == [
        ("exact", ("sm_90a", "sm_121a"), "sm_121a")
    ] * 2
    assert [box.kernels for box in found] == [frozenset(("add",)), frozenset(("scale",))]
    assert found[0].native
    (jit, _) = report_containers(unpacked("wrong.so"), SPARK)
    assert (jit.coverage, jit.arches, jit.runs) == ("jit", ("sm_120a", "compute_80"), "compute_80")
    assert not jit.native


def test_kernels_are_not_known_unless_they_were_read() -> None:
    from devicefiles import data, scanned

    (box, _) = report_containers(scanned(data("native.so")), SPARK)
    assert box.kernels is None
    assert box.to_json()["kernels"] is None
    assert kernel_facts([box]) is None


def test_a_kernel_that_the_image_lacks() -> None:
    facts = module({"sm_90a": "a b", "sm_121a": "a"}, {"sm_90a": "c"}, {"sm_121a": ""})
    lacking, away, bare = report_containers(facts, SPARK)
    assert lacking.missing == frozenset("b")
    assert (lacking.coverage_of("a"), lacking.coverage_of("b")) == ("exact", "none")
    assert (away.coverage, away.runs, away.coverage_of("c")) == ("none", None, "none")
    assert away.missing == frozenset()
    assert bare.kernels == frozenset()
    found = kernel_facts((lacking, away, bare))
    assert found is not None
    assert found.to_json() == {
        "total": 3,
        "kernelless": 1,
        "elsewhere_only": ["b", "c"],
        "hollow": None,
        "guarded": None,
    }


def test_hollow_kernels_are_told_when_looked_for() -> None:
    facts = unpacked("hollow.so")
    found = kernel_facts(report_containers(facts, SPARK), find_hollow(facts, SPARK))
    assert found is not None
    assert (found.total, found.hollow, found.guarded) == (4, ("asserts", "guarded"), 0)


def test_ptx_that_the_driver_is_too_old_for() -> None:
    facts = module({"sm_80": "a", "compute_80@9.1": "a"})
    (old,) = report_containers(facts, SPARK, (9, 0))
    assert (old.coverage, old.runs, old.needs_isa, old.to_json()["needs_ptx_isa"]) == (
        "none",
        None,
        (9, 1),
        "9.1",
    )
    (new,) = report_containers(facts, SPARK, (9, 1))
    assert (new.coverage, new.needs_isa) == ("jit", None)


def test_cubins_outside_containers() -> None:
    (box,) = report_cubins(unpacked("100f.cubin"), SPARK)
    assert (box.offset, box.coverage, box.arches, box.runs) == (None, "none", ("sm_100f",), None)
    assert box.kernels == frozenset(("scale",))
    (box,) = report_cubins(unpacked("120f.cubin"), SPARK)
    assert (box.coverage, box.runs) == ("compatible", box.arches[0])


def test_groups_and_what_runs() -> None:
    facts = module(
        {"sm_90a": ""}, {"sm_120": ""}, {"sm_90a": "x"}, {"sm_120f": ""}, {"sm_80": "", "compute_80": ""}
    )
    boxes = report_containers(facts, SPARK)
    assert served(boxes) == {"compatible": {"sm_120": 1, "sm_120f": 1}, "jit": {"compute_80": 1}}
    groups = [(arches, len(held)) for arches, held in grouped(boxes)]
    assert groups[0] == (("sm_90a",), 2)
    assert len(groups) == 4
    assert served(report_containers(facts, HOPPER)) == {"exact": {"sm_90a": 2}, "jit": {"compute_80": 1}}
