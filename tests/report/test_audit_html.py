"""The page: complete, self-contained, and safe whatever a wheel calls its files."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

from auditsamples import HOPPER, SPARK, library, vllm
from kernelfiles import module, unpacked

from orchestrator.audit.against import against
from orchestrator.audit.findings import Finding
from orchestrator.audit.policy import Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditedFile, AuditReport, SpecReport, judge_spec
from orchestrator.report.audit_html import audit_html
from orchestrator.report.audit_words import LEGEND

WHEN = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)
VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """Reads a page, and insists that each tag is closed where it must be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.pieces: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.pieces))


def page(*specs: SpecReport) -> Page:
    devices = tuple(device.device for device in specs[0].devices) or (SPARK,)
    report = AuditReport(devices, specs)
    text = audit_html(report, when=WHEN, version="1.2.3", recipes={"vllm": "vllm"})
    found = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not re.search(r"https?:|url\(|@import|//", text.replace("sparkbuild//", ""))
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")]
    return found


def test_what_a_person_has_to_know() -> None:
    files = (AuditedFile("vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl", 333472621, "0a" * 32),)
    text = page(replace(vllm(), files=files)).text
    for part in (
        "FAIL vllm==0.33.0",
        "On 12.1: 4 of 18 containers hold machine code that 12.1 loads",
        "To do: build it from source: sparkbuild vllm --arch 12.1a",
        "vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl, 318 MiB",
        "0a" * 32,
        "2026-12-01 12:30+00:00 by sparkbuild 1.2.3",
        "5 jit: PTX of compute_80, SASS only for sm_80",
        "2 none: only sm_100f and sm_110f (1), only sm_90a (1)",
        "1 module holds no device code",
        "vllm/spinloop.abi3.so",
        "at 0x140, none, sm_90amachete::gemm",
        *LEGEND,
        *LEGEND.values(),
    ):
        assert part in text
    assert text.index("fa3") < text.index("fa2_C.abi3.so") < text.index("vllm/_flashkda_C.abi3.so")


def test_the_bars_add_up() -> None:
    widths = [value for name, value in page(vllm()).attributes if name == "style" and value is not None]
    assert widths[:2] == ["width:100.00%", "width:100.00%"]
    assert sum(float(width[6:-1]) for width in widths[2:5]) == 100


def test_every_device_and_every_spec() -> None:
    found = page(vllm(SPARK, HOPPER), SpecReport("gone.whl", error="there is no such file"))
    assert found.tags.count("section") == 2
    for part in ("Modules on 12.1", "Modules on 9.0", "FAIL gone.whl", "there is no such file"):
        assert part in found.text


def test_nothing_of_a_wheel_becomes_markup() -> None:
    evil = "<script>alert(1)</script>\"'&\x1b[2J"
    policy = (Expectation("**", "native"),)
    facts = [module({"sm_90a": evil.replace(" ", "")}, path=evil), unpacked("100f.cubin")]
    question = Question(devices=(SPARK,), names=True, policy=policy)
    spec = judge_spec(evil, facts, question, files=[evil], findings=[Finding("error", "a", evil)])
    files = (AuditedFile(evil, 1, evil),)
    found = page(replace(against(spec, spec), files=files), SpecReport(evil, error=evil))
    assert found.text.count("<script>alert(1)</script>\"'&?[2J") >= 8
    assert "It should be native" in found.text


def test_a_template_takes_dollars_as_they_are() -> None:
    assert "$body ${x}" in page(SpecReport("$body ${x}", error="no")).text


def test_what_changed() -> None:
    less = judge_spec("new", [module({"sm_90a": "kda"})], Question(devices=(SPARK,), names=True), files=[])
    text = page(against(less, vllm())).text
    assert "Since vllm==0.33.0 on 12.1" in text
    assert "vllm/_flashkda_C.abi3.so: went (1 native)" in text
    assert "vllm/_flashkda_C.abi3.so: compatible -> nonekda" in text
    assert "lost:" in text
    assert "gained: 1 kernels" not in text
    assert "No coverage was gained or lost" in page(against(vllm(), vllm())).text


def test_kernels_are_listed_when_they_were_judged() -> None:
    spec = judge_spec("x", [unpacked("hollow.so")], Question(devices=(SPARK,), deep=True), files=[])
    text = page(spec).text
    assert "4 kernels, 2 that do no work here" in text
    assert "do no work here:assertsguarded" in text


def test_long_lists_are_cut() -> None:
    rows = [{"sm_90a": " ".join(f"k{number}_{other}" for other in range(20))} for number in range(500)]
    spec = judge_spec("x", [library(*rows)], Question(devices=(SPARK,), names=True), files=[])
    found = page(spec)
    assert "Containers that fall short: 500" in found.text
    assert "and 100 more" in found.text
    assert "and 12 more" in found.text
    assert found.tags.count("li") < 6000
