"""Kernels told by their operations. The instructions were assembled by ptxas 13.0 for sm_121a."""

from __future__ import annotations

import pytest

from orchestrator.audit.opcodes import hollow, operations

LDC = bytes.fromhex("827b01ff00df0000000800000022 0e00")
MOV = bytes.fromhex("027802000000000000 0f000000e20f00")
CONSTANT = bytes.fromhex("317408ff16000000ff01000000e20f00")
"""HFMA2 R8, -RZ, RZ, 0, 1.3e-06: a constant is loaded."""
SUM = bytes.fromhex("317408021600000003010000 00e20f00")
"""The same of R2 and R3: work."""
CALL = bytes.fromhex("43730002000000000000c00300ea9f00")
EXIT = bytes.fromhex("4d790000000000000000800300ea0f00")
TRAP = bytes.fromhex("5c790400000000000000300000 ea0f00")
STORE = bytes.fromhex("867900020500000004191000 0ce20f00")


@pytest.mark.parametrize(
    ("code", "called", "expected"),
    [
        (LDC + EXIT, (), "empty"),
        (LDC + CONSTANT + MOV + EXIT, (), "empty"),
        (LDC + SUM + EXIT, (), None),
        (LDC + CONSTANT + SUM + EXIT, (), None),
        (LDC + CONSTANT + CALL + EXIT, ("__assertfail",), "trap"),
        (LDC + CONSTANT + CALL + EXIT, ("vprintf",), None),
        (LDC + CALL + TRAP + EXIT, ("vprintf",), "trap"),
        (LDC + CALL + TRAP + EXIT, ("vprintf", "work"), None),
        (LDC + STORE + TRAP + EXIT, (), None),
        (TRAP, (), "trap"),
        (b"", (), "empty"),
    ],
)
def test_hollow(code: bytes, called: tuple[str, ...], expected: str | None) -> None:
    assert hollow(operations(code), frozenset(called)) == expected


def test_operations_of_a_cut_instruction() -> None:
    assert operations(memoryview(LDC + EXIT[:1])) == operations(LDC)
    assert operations(LDC + CONSTANT[:4]) >= {0x182}
