"""Arches, devices, and which code runs on which device."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ArchError
from orchestrator.model.archvalues import (
    ARCHES,
    DEVICES,
    Arch,
    Device,
    Entry,
    Suffix,
    in_family,
    jits_ptx,
    loads_sass,
    runs_on,
)

SPARK = Device(12, 1)

suffixes: st.SearchStrategy[Suffix] = st.sampled_from(["", "a", "f"])
majors = st.integers(5, 14)
minors = st.integers(0, 9)
arches = st.builds(Arch, majors, minors, suffixes).filter(lambda arch: arch.sm != 101)
devices = st.builds(Device, majors, minors)


def test_names() -> None:
    arch = Arch(12, 1, "a")
    assert (str(arch), arch.sm, arch.number, arch.name, arch.ptx_name, str(arch.device)) == (
        "12.1a",
        121,
        "121a",
        "sm_121a",
        "compute_121a",
        "12.1",
    )
    assert Arch.from_sm(75) == Arch(7, 5)
    assert sorted([Arch(12, 1), Arch(9, 0, "a"), Arch(12, 0, "f"), Arch(12, 0)]) == [
        Arch(9, 0, "a"),
        Arch(12, 0),
        Arch(12, 0, "f"),
        Arch(12, 1),
    ]


@pytest.mark.parametrize(
    ("text", "device"), [("12.1", SPARK), (" 9.0\n", Device(9, 0)), ("7.0", Device(7, 0))]
)
def test_device(text: str, device: Device) -> None:
    assert Device.parse(text) == device


@pytest.mark.parametrize("text", ["", "12.1a", "121", "sm_121", "13.7", "12.10", "GB10", "12", "12.1;9.0"])
def test_no_device(text: str) -> None:
    with pytest.raises(ArchError) as caught:
        Device.parse(text)
    assert "12.1" in str(caught.value.hint)


# For 12.1: machine code by the Blackwell Compatibility Guide, PTX as ptxas 13.0 takes it
@pytest.mark.parametrize(
    ("number", "suffix", "sass", "ptx"),
    [
        (121, "", "exact", True),
        (121, "a", "exact", True),
        (121, "f", "exact", True),
        (120, "", "compatible", True),
        (120, "f", "compatible", True),
        (120, "a", None, False),
        (80, "", None, True),
        (90, "", None, True),
        (90, "a", None, False),
        (100, "", None, True),
        (100, "a", None, False),
        (100, "f", None, False),
        (103, "f", None, False),
        (110, "f", None, False),
        (122, "", None, False),
        (122, "f", None, False),
    ],
)
def test_on_a_spark(number: int, suffix: Suffix, sass: str | None, *, ptx: bool) -> None:
    arch = Arch.from_sm(number, suffix)
    assert loads_sass(arch, SPARK) == sass
    assert jits_ptx(arch, SPARK) is ptx


# CUDA Programming Guide, table of family-specific targets
@pytest.mark.parametrize(
    ("family", "members"),
    [
        ("100", "10.0 10.3"),
        ("103", "10.3"),
        ("110", "11.0"),
        ("120", "12.0 12.1"),
        ("121", "12.1"),
    ],
)
def test_families(family: str, members: str) -> None:
    arch = Arch.from_sm(int(family), "f")
    assert " ".join(str(device) for device in DEVICES if loads_sass(arch, device)) == members
    assert " ".join(str(device) for device in DEVICES if jits_ptx(arch, device)) == members


def test_the_override_table_beats_the_rule() -> None:
    families = {120: (Device(13, 0),)}
    arch = Arch(12, 0, "f")
    assert loads_sass(arch, Device(12, 1), families=families) is None
    assert loads_sass(arch, Device(13, 0), families=families) == "compatible"
    assert loads_sass(arch, Device(12, 0), families=families) == "exact"
    assert not jits_ptx(arch, Device(12, 1), families=families)
    assert jits_ptx(arch, Device(12, 0), families=families)


@pytest.mark.parametrize("suffix", ["", "a", "f"])
def test_the_old_number_of_thor_loads_on_no_other_device(suffix: Suffix) -> None:
    assert not [device for device in DEVICES if loads_sass(Arch.from_sm(101, suffix), device)]


def test_runs_on() -> None:
    assert list(map(str, runs_on(Entry(Arch(12, 0, "f"))))) == ["12.0", "12.1"]
    assert list(map(str, runs_on(Entry(Arch(8, 6))))) == ["8.6", "8.7", "8.8", "8.9"]
    assert list(map(str, runs_on(Entry(Arch(11, 0), sass=False, ptx=True)))) == ["11.0", "12.0", "12.1"]
    assert list(map(str, runs_on(Entry(Arch(9, 0), ptx=True)))) == [
        "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
    ]  # fmt: skip


@given(arches, devices)
def test_chip_specific_code_runs_on_its_chip_only(arch: Arch, device: Device) -> None:
    own = Arch(arch.major, arch.minor, "a")
    assert (loads_sass(own, device) is not None) == (own.device == device)
    assert jits_ptx(own, device) == (own.device == device)


@given(arches, devices)
def test_sass_stays_within_its_major(arch: Arch, device: Device) -> None:
    found = loads_sass(arch, device)
    assert found is None or arch.major == device.major
    assert (found == "exact") == (arch.device == device)


@given(arches, devices)
def test_coverage_is_monotone_in_the_minor(arch: Arch, device: Device) -> None:
    newer = Device(device.major, device.minor + 1)
    if arch.suffix != "a" and loads_sass(arch, device):
        assert loads_sass(arch, newer)
    if arch.suffix != "a" and jits_ptx(arch, device):
        assert jits_ptx(arch, newer)


@given(arches, devices)
def test_a_family_is_plain_sass_and_its_ptx_no_more(arch: Arch, device: Device) -> None:
    family, plain = (Arch(arch.major, arch.minor, suffix) for suffix in ("f", ""))
    assert loads_sass(family, device) == loads_sass(plain, device)
    assert jits_ptx(family, device) == in_family(family, device)
    assert jits_ptx(plain, device) or not jits_ptx(family, device)


def test_every_known_arch_serves_the_device_it_names() -> None:
    assert {arch.device for arch in ARCHES} == set(DEVICES)
    for arch in ARCHES:
        assert loads_sass(arch, arch.device) == "exact"
        assert jits_ptx(arch, arch.device)


def test_the_audit_can_import_it_with_the_standard_library_alone() -> None:
    code = (
        "import sys, orchestrator.model.arch, orchestrator.model.dialects, orchestrator.model.archreport\n"
        "print(*sorted({n.partition('.')[0] for n in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    third = {name for name in done.stdout.split() if not name.startswith("_")}
    assert third & {"msgspec", "click", "rich", "yaml", "packaging"} == set()
    assert "orchestrator" in third
