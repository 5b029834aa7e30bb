"""The disassembler: found, asked, and understood; of real kernels it says what operation numbers say."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import kernelcode
import pytest
from devicefiles import EXPECTED

from orchestrator.audit.facts import Code
from orchestrator.audit.kernels import KernelReader
from orchestrator.errors import MachineError, ToolMissingError
from orchestrator.inspect import nvdisasm
from orchestrator.inspect.nvdisasm import Instruction, disassemble, find_nvdisasm, hollow, version_of

if TYPE_CHECKING:
    from orchestrator.audit.facts import Hollow

SAMPLES = sorted({*EXPECTED, "hollow.so", "hollow121.so"})


@pytest.fixture(scope="module")
def tool() -> Path:
    found = find_nvdisasm()
    assert found is not None, "the extra `test` installs it"
    return found


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_one_that_is_installed_comes_first(tool: Path, tmp_path: Path) -> None:
    script(tmp_path / "nvdisasm", "exit 1")
    assert find_nvdisasm({"PATH": str(tmp_path)}) == tool
    assert re.fullmatch(r"1[3-9]\.\d+\.\d+", version_of(tool))


def test_without_the_wheel_it_is_looked_for(tmp_path: Path) -> None:
    first = script(tmp_path / "first" / "nvdisasm", "exit 0")
    second = script(tmp_path / "cuda" / "bin" / "nvdisasm", "exit 0")

    def find(**environ: str) -> Path | None:
        return find_nvdisasm(environ, package="sparkbuild-has-no-such-package")

    home = str(tmp_path / "cuda")
    assert find(PATH=str(first.parent), CUDA_HOME=home) == first
    assert find(PATH=str(tmp_path), CUDA_HOME=home) == second
    assert find(CUDA_HOME=home) == second
    second.chmod(0o644)
    assert find(CUDA_HOME=home) is None
    assert find() is None


def test_hollow_kernels_and_others(tool: Path) -> None:
    found = {}
    for image, cubin in kernelcode.cubins("hollow.so"):
        codes = kernelcode.codes(cubin)
        listings = disassemble(tool, image.name, list(codes.values()))
        found[image.name] = {name: hollow(listing) for name, listing in zip(codes, listings, strict=True)}
    assert found["sm_90a"] == {"works": None, "nothing": "empty", "guarded": None, "asserts": None}
    assert found["sm_121a"] == {"works": None, "nothing": "empty", "guarded": "trap", "asserts": "trap"}


def test_it_agrees_with_operation_numbers(tool: Path) -> None:
    told: dict[str, dict[bytes, Hollow | None]] = {}
    for sample in SAMPLES:
        for image, cubin in kernelcode.cubins(sample):
            read, codes = KernelReader().read(image, cubin), kernelcode.codes(cubin)
            assert isinstance(read, Code)
            told.setdefault(image.name, {}).update(
                {codes[kernel.name]: kernel.hollow for kernel in read.kernels}
            )
    for arch, kernels in told.items():
        listings = disassemble(tool, arch, list(kernels))
        assert [hollow(listing) for listing in listings] == list(kernels.values()), arch
    assert len(told) > 8
    assert {"sm_80", "sm_90a", "sm_100f", "sm_121a"} <= told.keys()


def test_it_says_what_the_source_does(tool: Path) -> None:
    code = kernelcode.code("hollow.so", "sm_121a", "works")
    opcodes = [one.opcode for one in disassemble(tool, "sm_121a", [code])[0]]
    assert any(opcode.startswith("STG") for opcode in opcodes)
    assert "EXIT" in opcodes
    assert len(opcodes) * 16 == len(code)


def test_many_kernels_in_one_call_or_in_several(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = list(kernelcode.codes(kernelcode.cubins("hollow121.so")[0][1]).values())

    def opcodes() -> list[list[str]]:
        return [[one.opcode for one in listing] for listing in disassemble(tool, "sm_121a", codes)]

    together = opcodes()
    assert [len(listing) for listing in together] == [len(code) // 16 for code in codes]
    monkeypatch.setattr(nvdisasm, "AT_MOST", len(codes[0]) + 1)
    assert opcodes() == together
    assert disassemble(tool, "sm_121a", []) == []


@pytest.mark.parametrize(
    ("arch", "code", "words"),
    [
        ("sm_999", b"\0" * 16, "SM999"),
        ("sm_121a", b"\xff" * 32, "Unrecognized|Illegal"),
        ("sm_121a", b"\0" * 17, "truncated"),
    ],
)
def test_what_it_cannot_read(tool: Path, arch: str, code: bytes, words: str) -> None:
    with pytest.raises(MachineError, match=words) as caught:
        disassemble(tool, arch, [code])
    assert "sparkbuild[disassembly]" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("echo nonsense", "not the JSON"),
        ("echo '[{}]'", "not the JSON"),
        ("echo '[{}, []]'", "0 instructions"),
    ],
)
def test_an_answer_that_is_not_known(tmp_path: Path, says: str, words: str) -> None:
    with pytest.raises(MachineError, match=words):
        disassemble(script(tmp_path / "nvdisasm", says), "sm_121a", [b"\0" * 16])


def test_a_tool_that_is_none(tmp_path: Path) -> None:
    true = shutil.which("true")
    assert true is not None
    with pytest.raises(MachineError, match="does not tell its version"):
        version_of(Path(true))
    with pytest.raises(ToolMissingError):
        version_of(tmp_path / "nvdisasm")


@pytest.mark.parametrize(
    ("opcode", "operands", "family"),
    [
        ("IMAD.MOV.U32", "R1,RZ,RZ,c[0x0][0x28]", "IMAD"),
        ("HFMA2", "R8,-RZ,RZ,0,9.5367431640625e-07", "MOV"),
        ("HFMA2.MMA", "R2,-RZ,RZ,0,0", "MOV"),
        ("HFMA2", "R8,R2,R3,0,0", "HFMA2"),
        ("HFMA2", "R8,-RZ,R3,0,0", "HFMA2"),
    ],
)
def test_families(opcode: str, operands: str, family: str) -> None:
    assert Instruction(opcode, operands).family == family


def test_what_is_hollow() -> None:
    def judged(*opcodes: str) -> str | None:
        return hollow(tuple(map(Instruction, opcodes)))

    assert judged("LDC", "EXIT", "BRA", "NOP") == "empty"
    assert judged("LDC", "S2R", "STL", "CALL.ABS.NOINC", "BPT.TRAP", "EXIT") == "trap"
    assert judged("LDC", "S2R", "CALL.REL.NOINC", "EXIT") is None
    assert judged("LDC", "STG.E", "EXIT") is None
    assert judged("LDC", "BAR.SYNC.DEFER_BLOCKING", "BPT.TRAP", "EXIT") is None
    assert judged("LDC", "SOMETHING.NEW", "BPT.TRAP", "EXIT") is None
