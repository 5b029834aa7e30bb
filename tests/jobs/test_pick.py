"""A probe's one unit, with real launchers and a stand-in compiler: who goes, who waits, and until when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from workshop import Workshop, finish

from orchestrator.jobs.pick import QUIET_S, TURNED_AWAY, Pick

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from orchestrator.jobs.units import Unit

REFUSED = 76


class Probe(Workshop):
    """A workshop whose step wants `one.cu` alone."""

    def __post_init__(self) -> None:
        super().__post_init__()

        def wanted(unit: Unit, _images: tuple[str, ...]) -> bool:
            return unit.source == "one.cu"

        self.pick = Pick(wanted, None, self.folder / "kept.o")
        self.step.pick = self.pick

    def device(self, name: str, text: str = "") -> subprocess.Popen[str]:
        """Start a unit of device code."""
        self.write(name, text)
        return self.start("nvcc", "-c", name, "-o", f"{name}.o", "-gencode", "arch=compute_121a,code=sm_121a")

    @property
    def compiled(self) -> list[str]:
        """Units that were begun, in order."""
        return [unit for word, unit, _ in self.notes() if word == "begin"]


def test_the_one_goes_at_once_and_all_others_are_turned_away(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        others = [shop.device("a.cu"), shop.compile("b.c"), shop.device("c.cu")]
        while shop.pick.asked < 2:
            time.sleep(0.01)
        one = shop.device("one.cu", "time.sleep(0.3)")
        assert finish(one, *others) == [0, REFUSED, REFUSED, REFUSED]
        late = shop.compile("late.c")
        _, said = late.communicate(timeout=20)
        assert TURNED_AWAY in said
    assert shop.compiled == ["one.cu"]
    assert [(record.unit.name, record.how) for record in shop.records] == [("one.cu", "ran")]
    assert (tmp_path / "kept.o").read_text() == "object of one.cu"
    assert (shop.pick.asked, shop.pick.over) == (3, True)


def test_where_nothing_else_comes_host_code_goes_first_and_then_device_code(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        device = shop.device("a.cu", "time.sleep(0.2)")
        host = [shop.compile(f"{n}.c", "time.sleep(0.2)") for n in range(2)]
        begin = time.monotonic()
        assert finish(*host) == [0, 0]
        assert device.poll() is None
        assert finish(device) == [0]
        assert time.monotonic() - begin > 2 * QUIET_S
        assert finish(shop.device("one.cu")) == [0]
    assert set(shop.compiled[:2]) == {"0.c", "1.c"}
    assert shop.compiled[2:] == ["a.cu", "one.cu"]


def test_links_of_what_has_gone_do_not_wait(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        shop.write("x.c")
        (tmp_path / "x.o").touch()
        begin = time.monotonic()
        shop.run("cc", "-shared", "x.o", "x.c", "-o", "x.so")
        assert time.monotonic() - begin < QUIET_S


def test_device_code_that_leads_to_nothing_ends_it(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        codes = finish(shop.device("a.cu"), shop.device("b.cu"), shop.device("c.cu"))
    assert sorted(codes) == [0, REFUSED, REFUSED]
    assert (shop.pick.record, shop.pick.over) == (None, True)


@pytest.mark.parametrize("name", ["one.cu", "a.cu"])
def test_a_unit_that_fails_ends_it(tmp_path: Path, name: str) -> None:
    with Probe(tmp_path) as shop:
        failing = shop.device(name, "sys.exit(3)")
        while not shop.pick.asked:
            time.sleep(0.01)
        assert finish(failing, shop.device("z.cu")) == [3, REFUSED]
    assert shop.pick.cause is not None
    assert (shop.pick.cause.how, shop.pick.cause.code) == ("failed", 3)
    assert not (tmp_path / "kept.o").exists()


def test_a_refused_unit_ends_it(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        other = shop.device("a.cu")
        shop.step.judge = lambda unit, _: "no" if unit.source == "b.cu" else None
        assert finish(shop.device("b.cu"), other) == [REFUSED, REFUSED]
    assert shop.pick.cause is not None
    assert shop.pick.cause.why == "no"
    assert not shop.compiled


def test_what_still_runs_when_it_is_over_is_ended(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        slow = shop.compile("slow.c", "time.sleep(50)")
        while not shop.compiled:
            time.sleep(0.02)
        assert finish(shop.device("one.cu")) == [0]
        assert finish(slow, limit_s=10) != [0]
    assert [record.unit.name for record in shop.records] == ["one.cu"]


def test_one_who_waits_and_is_killed_is_forgotten(tmp_path: Path) -> None:
    with Probe(tmp_path) as shop:
        waiting = shop.device("a.cu")
        while not shop.pick.asked:
            time.sleep(0.01)
        waiting.kill()
        waiting.communicate()
        assert finish(shop.device("one.cu")) == [0]
    assert [record.unit.name for record in shop.records] == ["one.cu"]
