"""What little of SASS is needed to see that a kernel does no work.

Since Volta an instruction has 16 bytes, and its lowest nine bits tell the operation. The numbers were
read off nvdisasm 13.5 with the code of torch 2.14.1, vLLM 0.33.0 and sglang-kernel 0.4.10 for sm_80 to
sm_121; they are the same on all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from orchestrator.audit.facts import Hollow

FIRST_SM = 70
"""The first arch with this encoding."""
CODE_AT_MOST = 4096
"""Bytes of a kernel that are looked into; what only prints and stops takes 128 to 2,048."""
CALL_ABS = 0x143
"""A call through an address: how vprintf and __assertfail are reached."""
_BPT = 0x15C
_MOV = 0x002
_HFMA2 = 0x031
_ZEROS = b"\xff\xff"
"""First and third operand of an HFMA2 when both are RZ: that is how ptxas often loads a constant."""
_SIZE = 16

_MOVES = frozenset(
    (
        *(0x002, 0x024, 0x082, 0x0B9, 0x0BB, 0x182, 0x1AC),  # MOV IMAD UMOV ULDC ULDC LDC LDCU
        *(0x118, 0x147, 0x14D),  # NOP BRA EXIT
    )
)
_QUIET = _MOVES | frozenset(
    (
        *(0x003, 0x004, 0x005, 0x006, 0x007, 0x00C),  # P2R R2P CS2R VOTE SEL ISETP
        *(0x010, 0x011, 0x012, 0x016, 0x019, 0x01C),  # IADD3 LEA LOP3 PRMT SHF PLOP3
        *(0x025, 0x027, 0x035, 0x036),  # IMAD IMAD IADD VIADD
        *(0x083, 0x086, 0x087, 0x08C, 0x090, 0x091, 0x092),  # UP2UR VOTEU USEL UISETP UIADD3 ULEA ULOP3
        *(0x096, 0x097, 0x099, 0x09C, 0x0A4, 0x0A5),  # UPRMT UIADD3 USHF UPLOP3 UIMAD UIMAD
        *(0x0CA, 0x1C2, 0x119, 0x1C3),  # R2UR R2UR S2R S2UR
        *(0x11A, 0x141, 0x142, 0x143, 0x144, 0x145),  # DEPBAR BSYNC BREAK CALL CALL BSSY
        *(0x146, 0x148, 0x14E, 0x150, 0x152, 0x153),  # YIELD WARPSYNC LEPC RET RPCMOV RPCMOV
        *(0x155, 0x156, 0x15C, 0x183, 0x187),  # BMOV BMOV BPT LDL STL
    )
)
"""What prints and stops is made of these: no memory but its own stack, no synchronization, no data."""


def operations(code: bytes | memoryview) -> set[int]:
    """Return the operations in the code of a kernel. A sum of zeros and a constant counts as a move."""
    found = {low | (high & 1) << 8 for low, high in zip(code[::_SIZE], code[1::_SIZE], strict=False)}
    if _HFMA2 in found:
        sums = (at for at in range(0, len(code), _SIZE) if code[at] == _HFMA2 and not code[at + 1] & 1)
        if all(bytes(code[at + 3 : at + 9 : 5]) == _ZEROS for at in sums):
            return found - {_HFMA2} | {_MOV}
    return found


def hollow(found: AbstractSet[int], called: AbstractSet[str]) -> Hollow | None:
    """Say what a kernel comes to when it does no work, else None.

    Args:
        found: its operations.
        called: names of the functions that it calls through their address.
    """
    if found <= _MOVES:
        return "empty"
    stops = _BPT in found or "__assertfail" in called
    return "trap" if stops and found <= _QUIET and called <= {"vprintf", "__assertfail"} else None
