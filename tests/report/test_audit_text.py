"""The audit on a terminal of 80 or 120 columns, and on a pipe."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from auditsamples import HOPPER, SPARK, core, library, vllm, wheel
from devicefiles import data, scanned
from kernelfiles import module, unpacked
from rich.console import Console

from orchestrator.audit.against import against
from orchestrator.audit.findings import Finding
from orchestrator.audit.policy import Expectation
from orchestrator.audit.question import Question
from orchestrator.audit.report import AuditedFile, AuditReport, SpecReport, judge_spec
from orchestrator.report import audit_words as words
from orchestrator.report.audit_text import PIPE_WIDTH, audit_text, width_of

if TYPE_CHECKING:
    from orchestrator.audit.facts import FileFacts

RECIPES = {"vllm": "vllm"}


def shown(*specs: SpecReport, width: int = 80, verbose: bool = False) -> list[str]:
    report = AuditReport(tuple(device.device for device in specs[0].devices) or (SPARK,), specs)
    lines = [line.plain for line in audit_text(report, width=width, verbose=verbose, recipes=RECIPES)]
    assert all(len(line) <= width for line in lines), max(lines, key=len)
    return lines


def test_a_screen_of_80_columns() -> None:
    assert shown(vllm()) == [
        "FAIL  vllm==0.33.0 on 12.1",
        "      4 of 18 containers hold machine code that 12.1 loads; 7 only run by JIT",
        "      (all of _vllm_fa2_C); 7 do not run (all of _vllm_fa3_C)",
        "      To do: build it from source: sparkbuild vllm --arch 12.1a; _vllm_fa3_C and",
        "      2 containers of _C: written for the own instructions of sm_90a, sm_100f",
        "      and sm_110f, usually cannot be built for 12.1a",
        "",
        "  verdict exact compat jit none total  module",
        "  none        0      0   0    5     5  vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
        "      5 none: only sm_90a",
        "  jit         0      0   5    0     5  vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
        "      5 jit: PTX of compute_80, SASS only for sm_80",
        "  partial     0      3   2    2     7  vllm/_C.abi3.so",
        "      3 compatible: sm_120f (2), sm_120 (1)",
        "      2 jit: PTX of compute_80, SASS only for sm_80 (1); PTX of compute_89, SASS",
        "        only for sm_80 and sm_89 (1)",
        "      2 none: only sm_100f and sm_110f (1), only sm_90a (1)",
        "      images: sm_120 (1), sm_120f (2), sm_80 (3), sm_89 (1), sm_90 (1),",
        "      sm_90a (1), sm_100f (3), sm_110f (1), compute_80 (1), compute_89 (1)",
        "  native      0      1   0    0     1  vllm/_flashkda_C.abi3.so",
        "      1 compatible: sm_120f",
        "  1 more module holds no device code",
    ]


def test_a_screen_of_120_columns_has_the_images_beside() -> None:
    lines = shown(vllm(), width=120)
    (head,) = [number for number, line in enumerate(lines) if line.startswith("  verdict")]
    assert lines[head].endswith("module                                    images")
    at = lines[head].index("images")
    assert lines[head + 1][at:] == "sm_90a (5)"
    assert "images:" not in "".join(lines[: head + 5])


def test_images_that_do_not_fit_beside_go_below_uncut() -> None:
    lines = shown(vllm(), width=120)
    (row,) = [number for number, line in enumerate(lines) if "vllm/_C.abi3.so" in line]
    assert lines[row].endswith("vllm/_C.abi3.so")
    (below,) = [number for number, line in enumerate(lines) if "images:" in line]
    assert " ".join(line.strip() for line in lines[below : below + 2]) == (
        "images: sm_120 (1), sm_120f (2), sm_80 (3), sm_89 (1), sm_90 (1), sm_90a (1), sm_100f (3), "
        "sm_110f (1), compute_80 (1), compute_89 (1)"
    )
    assert "…" not in "".join(lines)
    names = ("75", "80", "86", "87", "89", "90", "100", "103", "110", "120", "121")
    alike = module({f"sm_{name}": "k" for name in names})
    text = "\n".join(shown(judge_spec("x", [alike], Question(devices=(SPARK,)), files=[]), width=120))
    assert "sm_120 (1), sm_121 (1), sm_75 (1)" in text
    assert "…" not in text


def test_a_file_name_is_whole_where_there_is_room() -> None:
    tag = "sgl_kernel/infllm_ops.cpython-310-aarch64-linux-gnu.so"
    deep = f"{'folder/' * 8}lib{'x' * 31}.so"
    facts = [module({"sm_90": "k"}, path=path) for path in (tag, deep)]
    spec = judge_spec("x", facts, Question(devices=(SPARK,)), files=[])
    assert tag in "\n".join(shown(spec, width=120))
    assert f"/lib{'x' * 31}.so" in "\n".join(shown(spec, width=80))


def test_verbose_names_what_falls_short_and_cuts_nothing() -> None:
    lines = shown(vllm(), width=120, verbose=True)
    text = "\n".join(lines)
    assert "…" not in text
    at = lines.index("        none, sm_90a, at 0x140:")
    assert lines[at + 1] == "          machete::gemm"
    assert "        none, sm_90a, at 0x0:" in lines  # one with five different kernels in five containers
    assert "      7 kernels, 2 only for other arches" in lines
    assert "          marlin" in lines


def test_verbose_says_when_kernels_were_not_read_and_counts_alike_containers() -> None:
    flat = judge_spec("x", [scanned(data("wrong.so"), "w.so")], Question(devices=(SPARK,)), files=[])
    assert "      their kernels were not read" in shown(flat, verbose=True)
    rows = ({"sm_90a": "one two three four five"}, {"sm_90a": "five four three two one"}, {"sm_90a": ""})
    spec = judge_spec("x", [library(*rows)], Question(devices=(SPARK,), names=True), files=[])
    lines = shown(spec, verbose=True)
    at = lines.index("        none, sm_90a, at 0x0 and 1 more:")
    assert [line.strip() for line in lines[at + 1 : at + 7]] == [
        "five",
        "four",
        "one",
        "and more: 5 kernels in all",
        "none, sm_90a, at 0x80:",
        "no kernel",
    ]


def test_deep_findings_come_by_level_and_infos_only_when_verbose() -> None:
    findings = [
        Finding("info", "a", "small"),
        Finding("warning", "b", "middle"),
        Finding("error", "c", "big"),
    ]
    spec = judge_spec(
        "x", [module({"sm_121a": "a"})], Question(devices=(SPARK,)), files=[], findings=findings
    )
    assert shown(spec)[-2:] == ["  error: big", "  warning: middle"]
    assert shown(spec, verbose=True)[-3:] == ["  error: big", "  warning: middle", "  info: small"]
    assert shown(spec)[1] == "      the only container holds machine code that 12.1 loads (1 exact), but big"


def test_reasons_and_policy() -> None:
    policy = (Expectation("a.so", "native"), Expectation("b.so", "not-applicable", "for Hopper"))
    facts = [module({"sm_120a": "k"}), module({"sm_90a": "k"}, path="b.so")]
    spec = judge_spec("x", facts, Question(devices=(SPARK,), policy=policy), files=["a.so", "b.so"])
    lines = shown(spec)
    assert lines[1:3] == [
        "      none of 2 containers holds machine code that 12.1 loads; 2 do not run (all",
        "      of a and b); 1 is excused by the policy",
    ]
    assert lines[-6:] == [
        "  none        0      0   0    1     1  a.so",
        "      1 none: only sm_120a",
        "        sm_120a loads on 12.0 only: build for 12.0f or 12.1a",
        "      error: should be native",
        "  none        0      0   0    1     1  b.so",
        "      1 none: only sm_90a",
    ]


def test_several_specs_and_devices() -> None:
    gone = SpecReport("gone.whl", error="there is no such file")
    lines = shown(vllm(SPARK, HOPPER), gone)
    heads = [line for line in lines if line.startswith(("FAIL", "PASS"))]
    assert heads == ["FAIL  vllm==0.33.0 on 12.1", "FAIL  vllm==0.33.0 on 9.0", "FAIL  gone.whl"]
    assert lines[-2:] == ["FAIL  gone.whl", "      there is no such file"]
    assert "To do: build it from source: sparkbuild vllm --arch 9.0a" in "\n".join(lines)


def test_cubins_outside_containers_are_a_row() -> None:
    cubins = [unpacked("100f.cubin"), unpacked("120f.cubin")]
    lines = shown(judge_spec("x", cubins, Question(devices=(SPARK,)), files=[]))
    assert lines[1] == "      1 of 2 cubins holds machine code that 12.1 loads; 1 does not run"
    assert "  partial     0      1   0    1     2  (cubins outside containers)" in lines
    assert lines[-2].startswith("  error: 1 of 2 cubins outside containers do not load on 12.1: sm_100f (1)")


def test_long_paths_are_cut_in_the_middle_first_the_abi_tag() -> None:
    tag = ".cpython-312-aarch64-linux-gnu.so"
    paths = ["pkg/sub/folder/_extension" + tag, "pkg/" + "deep/" * 30 + "last.so", "x" * 200]
    facts = [module({"sm_90a": "k"}, path=path) for path in paths]
    findings = [Finding("error", "a", f"look at {'long/' * 40}file.so now")]
    spec = judge_spec("w/" * 60 + "x.whl", facts, Question(devices=(SPARK,)), files=[], findings=findings)
    text = "\n".join(shown(spec))
    assert "pkg/sub/folder/_extension….so" in text
    assert "…" in shown(spec)[0]
    assert "/last.so" in text
    assert "/file.so\n    now" in text


def test_names_cannot_steer_the_terminal() -> None:
    facts = module({"sm_90a": "\x1b[5mk"}, path="a\x1b[2Jb\n\udcff.so")
    spec = judge_spec("\x1b[31m.whl", [facts], Question(devices=(SPARK,), names=True), files=[])
    text = "\n".join(shown(spec, verbose=True))
    assert "\x1b" not in text
    assert "a?[2Jb ?.so" in text
    text.encode()


def test_many_good_modules_are_counted_in_one_line() -> None:
    facts = [module({"sm_121a": "k"}, {"sm_121a": "l"}, path=f"m{number}.so") for number in range(30)]
    spec = judge_spec("x", [core(), *facts], Question(devices=(SPARK,)), files=[])
    lines = shown(spec)
    assert lines[-1] == "  30 modules are native: all of their 60 containers load; -v lists them"
    assert len(lines) < 20
    assert len(shown(spec, verbose=True)) > 60


def test_what_changed() -> None:
    less = [
        file if file.path != "vllm/_C.abi3.so" else replace(file, containers=file.containers[1:])
        for file in wheel()
        if "kda" not in file.path
    ]
    new = judge_spec("new", less, Question(devices=(SPARK,), names=True), files=[])
    lines = shown(against(new, vllm()))
    assert lines[-9:] == [
        "  error: 2 kernels in 2 containers lost coverage of 12.1 since vllm==0.33.0:",
        "    vllm/_C.abi3.so, vllm/_flashkda_C.abi3.so",
        "",
        "  Since vllm==0.33.0:",
        "    vllm/_C.abi3.so: 3 native, 2 jit, 2 none -> 2 native, 2 jit, 2 none",
        "    vllm/_flashkda_C.abi3.so: went (1 native)",
        "    lost: 2 kernels in 2 containers",
        "      _C: compatible -> absent; add",
        "      _flashkda_C: compatible -> absent; kda",
    ]
    back = shown(against(vllm(), new))
    assert back[-4:] == [
        "    vllm/_flashkda_C.abi3.so: came (1 native)",
        "    gained: 2 kernels in 2 containers",
        "      _C: absent -> compatible; add",
        "      _flashkda_C: absent -> compatible; kda",
    ]
    assert shown(against(vllm(), vllm()))[-1] == "  Since vllm==0.33.0 no coverage was gained or lost."


def test_a_long_list_of_changes_is_cut_unless_verbose() -> None:
    question = Question(devices=(SPARK,), names=True)
    rows = [{"sm_121a": f"first{number} second{number}"} for number in range(20)]
    old = judge_spec("old", [library(*rows)], question, files=[])
    new = judge_spec(
        "new",
        [library(*({"sm_90a": row["sm_121a"]} for row in rows))],
        question,
        files=[],
    )
    found = against(new, old)
    lines = shown(found)
    assert lines[-1] == "      and 12 more containers; -v names all"
    assert "      a: exact -> none, holds sm_90a; first0 and 1 more" in lines
    assert sum("exact -> none" in line for line in shown(found, verbose=True)) == 20


@pytest.mark.parametrize(("color", "escape"), [(True, True), (False, False)])
def test_colour_only_where_it_is_wanted(*, color: bool, escape: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=color, color_system="standard" if color else None)
    for line in audit_text(AuditReport((SPARK,), (vllm(),))):
        console.print(line, soft_wrap=True)
    assert ("\x1b[" in stream.getvalue()) == escape


def test_a_pipe_has_a_width_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "133")
    assert width_of(io.StringIO()) == PIPE_WIDTH
    assert width_of(Terminal()) == 133
    monkeypatch.setenv("COLUMNS", "20")
    assert width_of(Terminal()) == 60


@pytest.mark.parametrize(
    ("spec", "file", "name"),
    [
        ("vllm==0.33.0", None, "vllm"),
        ("Flash_Attn==2.8", None, "flash-attn"),
        ("some/where/flash_attn-2.8-cp312-cp312-linux_aarch64.whl", None, "flash-attn"),
        ("torch 2.14.1", None, "torch"),
        ("x", "vllm-0.33.0-cp38-abi3-linux_aarch64.whl", "vllm"),
    ],
)
def test_which_distribution_it_is(spec: str, file: str | None, name: str) -> None:
    files = () if file is None else (AuditedFile(file, 1),)
    assert words.distribution(SpecReport(spec, files=files)) == name


def test_what_to_do() -> None:
    def advice(*facts: FileFacts, isa: tuple[int, int] | None = None) -> str | None:
        spec = judge_spec("x", facts, Question(devices=(SPARK,), ptx_isa=isa), files=[])
        return words.advice(spec, spec.devices[0], {"x": "xx"})

    assert advice(module({"sm_121a": "a"})) is None
    assert advice(module({"sm_90": "a"})) == "build it from source: sparkbuild xx --arch 12.1a"
    assert advice(unpacked("100f.cubin")) == (
        "build it from source: sparkbuild xx --arch 12.1a; the cubins outside containers: "
        "written for the own instructions of sm_100f, usually cannot be built for 12.1a"
    )
    newer = advice(module({"compute_90@9.1": "a"}), isa=(9, 0))
    assert newer is not None
    assert newer.startswith("PTX 9.1 needs a driver of CUDA 13.1")
    assert newer.endswith("; or build it from source for 12.1a")
    spec = vllm()
    told = words.advice(spec, spec.devices[0], {})
    assert told == (
        "what you call of _vllm_fa2_C (jit) and part of _C must come from a build for 12.1a, or be replaced "
        "by something else; _vllm_fa3_C and 2 containers of _C: written for the own instructions of sm_90a, "
        "sm_100f and sm_110f, usually cannot be built for 12.1a"
    )


def test_what_to_do_without_a_recipe() -> None:
    def advice(*facts: FileFacts) -> str | None:
        spec = judge_spec("other", facts, Question(devices=(SPARK,)), files=[])
        return words.advice(spec, spec.devices[0], {})

    assert advice(module({"sm_90": "a"})) == (
        "what you call of a (none) must come from a build for 12.1a, or be replaced by something else"
    )
    own = "written for the own instructions of sm_90a, usually cannot be built for 12.1a"
    assert advice(module({"sm_90a": "a"})) == f"replace what you call by something else: a: {own}"
    libraries = [
        module({arch: "k"}, path=f"bnb/lib_cuda{version}.so")
        for version, arch in ((118, "sm_80"), (124, "sm_90"), (128, "sm_120"), (130, "sm_121"))
    ]
    assert advice(*libraries) == (
        "see that what loads is lib_cuda128 or lib_cuda130, which serve 12.1: "
        "lib_cuda118 and lib_cuda124 need not"
    )
    for more in (module({"sm_80": "k"}, path="bnb/lib_rocm.so"), unpacked("90a.cubin")):
        told = advice(*libraries, more)
        assert told is not None
        assert "lib_cuda118 (none)" in told
    elsewhere = advice(module({"sm_80": "k"}, path="a/l1.so"), module({"sm_121": "k"}, path="b/l2.so"))
    assert elsewhere is not None
    assert elsewhere.startswith("what you call of l1 (none)")


def test_headlines() -> None:
    def line(*names: str) -> str:
        facts = [scanned(data(name), name) for name in names]
        return words.headline(judge_spec("x", facts, Question(devices=(SPARK,)), files=names).devices[0])

    assert line() == line("magic.so") == "holds no device code"
    assert line("rdc.o") == "holds nothing that could be loaded"
    both = line("native.so", "family.so")
    assert both == "all 4 containers hold machine code that 12.1 loads (2 exact, 2 compatible)"
    told = "none of 2 containers holds machine code that 12.1 loads; 2 only run by JIT (all of wrong)"
    assert line("wrong.so") == told
    assert line("100f.cubin") == "the only cubin holds no machine code that 12.1 loads; it does not run"
    assert line("native.so", "100f.cubin").startswith("2 of 3 containers and cubins hold machine code")


def test_lists() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed([*"abcdefgh"]) == "a, b, c, d, e and 3 more"
    assert words.title("a/_C.cpython-312-aarch64-linux-gnu.so") == "_C"
    assert words.title("a/libx.so.1.2") == "libx"
