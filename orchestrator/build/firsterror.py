"""The first real error line of a build log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = b"[sparkbuild] "
BLOCK = 1 << 20
LINE_LIMIT = 4096
"""Bytes of a line that are looked at: linker command lines run to megabytes."""
SHOWN = 300
"""Characters of a line that are shown."""

# One cheap pass: a line without any of these is no error. Substring search, because logs reach 200 MB.
_HINTS = (
    b"rror",
    b"ERROR",
    b"fatal",
    b"FAILED",
    b"xception",
    b"Killed",
    b"No space",
    b"undefined",
    b"cannot find",
    b"fault",
    b"Abort",
    b"Illegal",
    b"died due",
    b"***",
    b"ninja: ",
    b"not found",
    b"denied",
    b"panicked",
    b"Traceback",
    b"Interrupt",
    b"SystemExit",
    b"Unavailable",
)

# What a compiler, linker or build tool says when something is really wrong.
_REAL = re.compile(
    r"""
    # gcc, clang: file:1:2: error: text
      ^(?:[^\s:][^:]*):\d+(?::\d+)?:\s+(?:fatal\s+)?error\b\s*:
    # nvcc's front end: file(1): error: text
    | ^[^\s(][^(]*\(\d+(?:,\d+)?\):\s+(?:catastrophic\s+|internal\s+|fatal\s+)?error\b
    # the driver itself: gcc: error: text
    | ^[\w./+-]*(?:gcc|g\+\+|cc|c\+\+|cc1plus|cc1|clang(?:\+\+)?|collect2|ld(?:\.\w+)?|as|lld)(?:-[\d.]+)?:
        \s+(?:fatal\s+|internal\s+compiler\s+)?error\b\s*:
    | ^[\w./+-]*ld(?:\.\w+)?:\s.*(?:cannot\sfind|undefined\sreference|final\slink\sfailed|No\sspace)
    | ^.+:\s+(?:more\s+)?undefined\sreferences?\sto\s
    | ^(?:nvcc|ptxas|cicc|nvlink|fatbinary|cudafe\+\+)\s+(?:fatal|error)\s*:
    | ^ptxas\s.*;\s+(?:fatal|error)\s*:
    # git, cargo, rustc, setuptools
    | ^(?:fatal|error)\s*(?:\[\w+\])?\s*:\s
    | ^CMake\sError\b
    # pip, and many scripts
    | ^ERROR:\s
    # make: no rule, or a bad makefile
    | ^[\w./-]+:(?:\d+:)?\s+\*\*\*\s
    | ^ninja:\s(?:error|fatal):
    | ^(?:/bin/)?(?:ba|da)?sh:\s.*(?:not\sfound|Permission\sdenied|No\sspace)
    | :\sNo\sspace\sleft\son\sdevice\b
    | ^(?:Killed|Segmentation\sfault|Illegal\sinstruction|Aborted|Bus\serror)(?:\s+\(core\sdumped\))?$
    | \bdied\sdue\sto\ssignal\s\d+
    | ^thread\s'.*'\s(?:\(\d+\)\s)?panicked\sat\s
    """,
    re.VERBOSE,
)

# The last line of a Python traceback: a dotted class name, then its message.
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::\s|$)")
# The same without a traceback before it: the name must say what it is.
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Unavailable)|SystemExit)(?::\s.*)?$"
)

# What only reports that something else failed: used when nothing better is in the log.
_ECHO = re.compile(
    r"""
      ^FAILED:\s
    | ^ninja:\sbuild\sstopped
    | ^g?make(?:\[\d+\])?:\s+\*\*\*\s+(?:\[|Waiting\sfor)
    | ^ERROR:\s(?:Failed\s(?:building|to\sbuild)|Could\snot\sbuild\swheels)
    | ^error:\s(?:command\s.*failed|subprocess-exited|could\snot\scompile|Failed\sto\sbuild)
    | ^(?:\w+\.)*CalledProcessError:
    | ^RuntimeError:\sError\scompiling\sobjects\sfor\sextension
    | ^collect2:\serror:\sld\sreturned
    | ^(?:nvcc|ptxas)\s+fatal\s*:\s+(?:Ptx\sassembly\saborted|Unresolved\sextern)
    """,
    re.VERBOSE,
)

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """A line of a log."""

    number: int
    """Counted from 1 in the whole file."""
    text: str
    """Without escapes and surrounding space, shortened to 300 characters."""


def first_error(log: Path, *, start: int = 0) -> ErrorLine | None:
    """Return the line of `log` that first says what is really wrong, or None.

    Compilers, linkers, build tools, exceptions and the shell are understood. A line that only echoes another
    failure (`FAILED:`, `ninja: build stopped`, CalledProcessError) is returned when there is no better one.
    Lines before byte `start` are passed over. The log is streamed; bytes that are not UTF-8 do no harm.
    """
    echo: ErrorLine | None = None
    in_traceback = False
    for number, raw in _lines(log, start):
        if raw.startswith(MARK) or not (in_traceback or any(hint in raw for hint in _HINTS)):
            continue
        line = _ESCAPES.sub("", raw[:LINE_LIMIT].decode("utf-8", "replace")).rstrip()
        if line.lstrip().startswith("Traceback (most recent call last)"):
            in_traceback = True
            continue
        kind = _judge(line, in_traceback=in_traceback)
        # Frames are indented: the first line that is not ends the traceback.
        in_traceback = in_traceback and not line[:1].strip()
        if kind == "real":
            return ErrorLine(number, line.strip()[:SHOWN])
        if kind == "echo" and echo is None:
            echo = ErrorLine(number, line.strip()[:SHOWN])
    return echo


def _lines(log: Path, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that begins at `start` or later, and may matter; by blocks."""
    number = position = begin = 0
    carry = b""
    with log.open("rb") as file:
        while block := file.read(BLOCK):
            whole, newline, rest = block.rpartition(b"\n")
            position += len(block)
            if not newline:
                carry = (
                    carry if len(carry) > BLOCK else carry + block
                )  # of an endless line, the start will do
                continue
            first, *others = whole.split(b"\n")
            end = position - len(rest) - len(whole) + len(first)
            number += 1
            if begin >= start:
                yield number, carry + first
            for line in others:
                number += 1
                if end >= start:
                    yield number, line
                end += len(line) + 1
            carry, begin = rest, position - len(rest)
    if carry and begin >= start:
        yield number + 1, carry


def _judge(line: str, *, in_traceback: bool) -> str | None:
    """Return `real`, `echo` or None."""
    text = line.strip()
    if _ECHO.search(text):
        return "echo"
    if _REAL.search(text):
        return "real"
    if in_traceback:
        return "real" if line[:1].strip() and _RAISED.match(line) else None
    return "real" if _EXCEPTION.match(line) else None
