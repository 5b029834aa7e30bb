"""What seems hollow is shown to the disassembler, which has the last word."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import kernelcode
import pytest
import tinyproject
from devicefiles import data

from orchestrator.audit import kernels
from orchestrator.audit.facts import Code, Container, FileFacts, Image, Kernel, Kind
from orchestrator.audit.hollow import find_hollow
from orchestrator.audit.question import Question
from orchestrator.audit.report import judge_spec
from orchestrator.audit.scan import scan
from orchestrator.audit.stream import MappedStream
from orchestrator.inspect.confirm import Disassembler
from orchestrator.model.archvalues import Device
from orchestrator.model.platform import Target
from orchestrator.model.stack import Toolkit
from orchestrator.report.events import silent
from orchestrator.source.wheels import fetch_wheels
from orchestrator.store.facts import Facts
from orchestrator.store.home import Home
from orchestrator.toolchain.compiler import host_compiler
from orchestrator.toolchain.cuda import decide_toolkit, provide_toolkit

if TYPE_CHECKING:
    from orchestrator.audit.facts import Hollow
    from orchestrator.toolchain.compiler import Compiler

SPARK = Device(12, 1)
QUESTION = Question(devices=(SPARK,), deep=True)
GONE = Path("there", "is", "no", "nvdisasm")


@pytest.fixture
def disassembler() -> Disassembler:
    found = Disassembler.find()
    assert found is not None, "the extra `test` installs nvidia-cuda-nvdisasm"
    return found


def scanned(content: bytes) -> FileFacts:
    return scan("x.so", lambda: MappedStream(content), inside=True)


def claimed(**seeming: tuple[Hollow, str]) -> FileFacts:
    """Return facts of a container for sm_121a; each kernel seems hollow and has the code of a real one."""
    codes = {name: kernelcode.code("hollow121.so", "sm_121a", real) for name, (_, real) in seeming.items()}
    found = tuple(Kernel(name, how, codes[name]) for name, (how, _) in seeming.items())
    box = Container(64, 4096, (Image(Kind.SASS, 121, "a"),), (Code(found),), ".nv_fatbin")
    return FileFacts("x.so", "elf", (box,))


def kernels_of(facts: FileFacts) -> dict[str, Hollow | None]:
    return {
        kernel.name: kernel.hollow
        for box in facts.containers
        for code in box.codes
        for kernel in (code.kernels if code else ())
    }


def test_the_facts_keep_the_code_of_what_seems_hollow(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept() -> dict[str, bytes]:
        (box,) = scanned(data("hollow121.so")).containers
        return {kernel.name: kernel.code for code in box.codes if code for kernel in code.kernels}

    expected = {
        name: kernelcode.code("hollow121.so", "sm_121a", name) for name in ("nothing", "guarded", "asserts")
    }
    assert kept() == {**expected, "works": b""}
    monkeypatch.setattr(kernels, "_CODE_KEPT", len(expected["nothing"]))
    assert sorted(map(len, kept().values())) == [0, 0, 0, len(expected["nothing"])]


def test_it_confirms_a_guard(disassembler: Disassembler) -> None:
    facts = scanned(data("hollow.so"))
    seen = disassembler(facts, QUESTION)
    assert seen.containers == facts.containers
    (told,) = seen.findings
    assert (told.level, told.code) == ("info", "disassembled")
    assert told.text == f"nvdisasm {disassembler.version} sees no work in 3 kernels: nothing is LDC EXIT BRA"


def test_it_has_the_last_word(disassembler: Disassembler) -> None:
    facts = claimed(idle=("trap", "nothing"), busy=("empty", "works"))
    assert len(find_hollow(facts, SPARK).faults) == 2
    seen = disassembler(facts, QUESTION)
    assert kernels_of(seen) == {"idle": "empty", "busy": None}
    assert find_hollow(seen, SPARK).faults == ()
    assert [told.code for told in seen.findings] == ["disassembled", "not-hollow"]
    assert "busy is " in seen.findings[1].text
    assert "STG" in seen.findings[1].text


def test_what_it_cannot_read_stays(disassembler: Disassembler) -> None:
    box = Container(64, 4096, (Image(Kind.SASS, 121, "a"),), (Code((Kernel("k", "empty", b"\xff" * 32),)),))
    seen = disassembler(FileFacts("x.so", "elf", (box,)), QUESTION)
    assert kernels_of(seen) == {"k": "empty"}
    assert [(told.level, told.code) for told in seen.findings] == [("info", "not-disassembled")]
    assert "1 kernel judged by operation numbers alone" in seen.findings[0].text


def test_code_that_was_not_kept_stays(disassembler: Disassembler) -> None:
    box = Container(64, 4096, (Image(Kind.SASS, 121, "a"),), (Code((Kernel("k", "empty"),)),))
    seen = disassembler(FileFacts("x.so", "elf", (box,)), QUESTION)
    assert kernels_of(seen) == {"k": "empty"}
    assert "its code was not kept" in seen.findings[0].text


def test_more_code_than_is_disassembled(disassembler: Disassembler) -> None:
    facts = claimed(idle=("empty", "nothing"), busy=("empty", "works"))
    disassembler.left = 4096 + len(kernelcode.code("hollow121.so", "sm_121a", "nothing"))
    seen = disassembler(facts, QUESTION)
    assert kernels_of(seen) == {"idle": "empty", "busy": "empty"}
    assert [told.code for told in seen.findings] == ["disassembled", "not-disassembled"]
    assert disassembler.left == 0


def test_arches_without_end(disassembler: Disassembler) -> None:
    code = kernelcode.code("hollow121.so", "sm_121a", "nothing")
    numbers = [121, *range(200, 800)]
    images = tuple(Image(Kind.SASS, number, "a" if number == 121 else "") for number in numbers)
    codes = tuple(Code((Kernel(f"k{number}", "empty", code),)) for number in numbers)
    facts = FileFacts("x.so", "elf", (Container(64, 4096, images, codes),))
    disassembler.left = 5 * (4096 + len(code))
    told = {told.code: told.text for told in disassembler(facts, QUESTION).findings}
    assert told["disassembled"].split(": ")[0].endswith("no work in 1 kernel")
    assert told["not-disassembled"].startswith("600 kernels")
    assert disassembler.left == 0


def test_the_tool_does_not_run_for_what_does_work() -> None:
    facts = scanned(data("native.so"))
    assert Disassembler(GONE, "0")(facts, QUESTION) is facts


def test_a_tool_that_is_gone() -> None:
    facts = scanned(data("hollow.so"))
    seen = Disassembler(GONE, "0")(facts, QUESTION)
    assert seen.containers == facts.containers
    assert [told.code for told in seen.findings] == ["not-disassembled"]
    assert "no such program" in seen.findings[0].text


def test_what_was_seen_is_remembered(disassembler: Disassembler) -> None:
    facts = scanned(data("hollow.so"))
    seen = disassembler(facts, QUESTION)
    disassembler.tool = GONE
    assert disassembler(facts, QUESTION) == seen


def test_the_report_tells_who_said_so(disassembler: Disassembler) -> None:
    facts = scanned(data("hollow.so"))

    def codes(question: Question) -> tuple[list[str], list[str]]:
        report = judge_spec("x.whl", [facts, facts], question, files=["x.so"]).devices[0]
        modules = [finding.code for module in report.modules for finding in module.findings]
        return sorted(modules), [finding.code for finding in report.findings]

    assert codes(QUESTION) == (["hollow"] * 2, ["not-disassembled"])
    asked = Question(devices=(SPARK,), deep=True, confirm=disassembler)
    assert codes(asked) == (["disassembled"] * 2 + ["hollow"] * 2, [])
    assert codes(Question(devices=(SPARK,))) == ([], [])
    assert codes(Question(devices=(Device(9, 0),), deep=True)) == ([], [])


def test_the_report_believes_the_disassembler(disassembler: Disassembler) -> None:
    facts = claimed(busy=("empty", "works"))
    assert judge_spec("x", [facts], QUESTION, files=["x.so"]).verdict == "fail"
    asked = Question(devices=(SPARK,), deep=True, confirm=disassembler)
    assert judge_spec("x", [facts], asked, files=["x.so"]).verdict == "pass"


TOOLKIT = Toolkit(
    version="==13.0.*",
    packages=("cuda-toolkit[nvcc,cudart]==13.0.3",),
    headers=("cuda_runtime.h",),
    libraries=("libcudart_static.a",),
)
GUARDED = """
#include <cstdio>
template <int Sm> struct Hopper {
  __device__ static void run(float *out, float value) {
#if __CUDA_ARCH__ == 900
    out[threadIdx.x] = value;
#else
    printf("this kernel is for sm%d, and runs on %d\\n", Sm, __CUDA_ARCH__);
    __trap();
#endif
  }
};
template <class Body> __global__ void device_kernel(float *out, float value) { Body::run(out, value); }
template __global__ void device_kernel<Hopper<90>>(float *, float);
"""


def toolkit(home: Home, compiler: Compiler, facts: Facts, arch: str) -> Path:
    files = tinyproject.toolkit_files(Target.here())
    return provide_toolkit(
        decide_toolkit("pip", spec=TOOLKIT, files=files, facts=facts),
        spec=TOOLKIT,
        files=files,
        home=home,
        emit=silent,
        fetch=lambda wanted: fetch_wheels(wanted, home=home),
        compiler=compiler,
        facts=facts,
        archs=(arch,),
    )


@pytest.mark.toolkit
@pytest.mark.parametrize(("arch", "device", "idle"), [("90a", "9.0", False), ("121a", "12.1", True)])
def test_both_sides_of_a_guard_that_the_toolkit_compiles(
    disassembler: Disassembler, shared_layers: Path, tmp_path: Path, arch: str, device: str, *, idle: bool
) -> None:
    compiler = host_compiler(Facts(tmp_path / "facts.json"))
    root = toolkit(Home(shared_layers), compiler, Facts(tmp_path / "facts.json"), f"sm_{arch}")
    (tmp_path / "unit.cu").write_text(GUARDED)
    command = [str(root / "bin/nvcc"), f"-gencode=arch=compute_{arch},code=sm_{arch}", "-fatbin", "unit.cu"]
    subprocess.run([*command, "-o", "unit.fatbin"], cwd=tmp_path, check=True, capture_output=True)
    facts = scanned((tmp_path / "unit.fatbin").read_bytes())
    asked = Question(devices=(Device.parse(device),), deep=True, confirm=disassembler)
    (module,) = judge_spec("unit", [facts], asked, files=["unit.fatbin"]).devices[0].modules
    found = {finding.code: finding.text for finding in module.findings}
    assert module.verdict == "native"
    assert found.keys() == ({"hollow", "disassembled"} if idle else set())
    if idle:
        assert "only stops on 12.1" in found["hollow"]
        assert "CALL.ABS" in found["disassembled"] or "…" in found["disassembled"]
