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

# What a compiler, linker or build tool says when something is really wrong; from the start of the line,
# since a search at every position of every line would take minutes.
_REAL = re.compile(
    r"""
    # gcc, clang: file:1:2: error: text
      (?:[^\s:][^:]*):\d+(?::\d+)?:\s+(?:fatal\s+)?error\b\s*:
    # nvcc's front end: file(1): error: text
    | [^\s(][^(]*\(\d+(?:,\d+)?\):\s+(?:catastrophic\s+|internal\s+|fatal\s+)?error\b
    # the driver itself: gcc: error: text
    | [\w./+-]*(?:gcc|g\+\+|cc|c\+\+|cc1plus|cc1|clang(?:\+\+)?|collect2|ld(?:\.\w+)?|as|lld)(?:-[\d.]+)?:
        \s+(?:fatal\s+|internal\s+compiler\s+)?error\b\s*:
    | [\w./+-]*ld(?:\.\w+)?:\s.*(?:cannot\sfind|undefined\sreference|final\slink\sfailed|No\sspace)
    | .+:\s+(?:more\s+)?undefined\sreferences?\sto\s
    | (?:nvcc|ptxas|cicc|nvlink|fatbinary|cudafe\+\+)\s+(?:fatal|error)\s*:
    | ptxas\s.*;\s+(?:fatal|error)\s*:
    # git, cargo, rustc, setuptools
    | (?:fatal|error)\s*(?:\[\w+\])?\s*:\s
    | CMake\sError\b
    # pip, and many scripts
    | ERROR:\s
    # make: no rule, or a bad makefile
    | [\w./\[\]-]+:(?:\d+:)?\s+\*\*\*\s
    | ninja:\s(?:error|fatal):
    | (?:/bin/)?(?:ba|da)?sh:\s.*(?:not\sfound|Permission\sdenied|No\sspace)
    | (?:Killed|Segmentation\sfault|Illegal\sinstruction|Aborted|Bus\serror)(?:\s+\(core\sdumped\))?$
    | thread\s'.*'\s(?:\(\d+\)\s)?panicked\sat\s
    """,
    re.VERBOSE,
)

_ANYWHERE = (": No space left on device", " died due to signal ")

# The last line of a Python traceback: a dotted class name, then its message.
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::\s|$)")
# The same without a traceback before it: the name must say what it is.
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Unavailable)|SystemExit)(?::\s.*)?$"
)

# What only reports that something else failed: used when nothing better is in the log.
_ECHO = re.compile(
    r"""
      FAILED:\s
    | ninja:\sbuild\sstopped
    | g?make(?:\[\d+\])?:\s+\*\*\*\s+(?:\[|Waiting\sfor)
    | ERROR:\s(?:Failed\s(?:building|to\sbuild)|Could\snot\sbuild\swheels)
    | error:\s(?:command\s.*failed|subprocess-exited|could\snot\scompile|Failed\sto\sbuild)
    | (?:\w+\.)*CalledProcessError:
    | RuntimeError:\sError\scompiling\sobjects\sfor\sextension
    | collect2:\serror:\sld\sreturned
    | (?:nvcc|ptxas)\s+fatal\s*:\s+(?:Ptx\sassembly\saborted|Unresolved\sextern)
    """,
    re.VERBOSE,
)

_TAIL = 64 << 10
_SHOWN = 300

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
    for first, block in _blocks(log, start):
        probe = block.replace(b"-Werror", b"")  # stands in every second command line
        hints = [hint for hint in _HINTS if hint in probe]
        if not hints and not in_traceback:
            continue
        for number, raw in enumerate(block.split(b"\n"), first):
            if not in_traceback and not any(hint in raw for hint in hints):
                continue
            if raw.startswith(MARK):
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


def _blocks(log: Path, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines from byte `start` on, about 1 MiB at a time, each with its first line's number."""
    with log.open("rb") as file:
        number = 1
        while left := start - file.tell():
            before = file.read(min(left, BLOCK))
            if not before:
                return
            number += before.count(b"\n")
        carry = b""
        while block := file.read(BLOCK):
            whole, newline, rest = block.rpartition(b"\n")
            if not newline:
                carry = (
                    carry if len(carry) > BLOCK else carry + block
                )  # of an endless line, the start will do
                continue
            lines = carry + whole
            yield number, lines
            number += lines.count(b"\n") + 1
            carry = rest
        if carry:
            yield number, carry


def _judge(line: str, *, in_traceback: bool) -> str | None:
    """Return `real`, `echo` or None."""
    text = line.strip()
    if _ECHO.match(text):
        return "echo"
    if _REAL.match(text) or any(words in text for words in _ANYWHERE):
        return "real"
    if in_traceback:
        return "real" if line[:1].strip() and _RAISED.match(line) else None
    return "real" if _EXCEPTION.match(line) else None


def last_line(log: Path, *, start: int = 0) -> str | None:
    """Return the last line of a command's output, for when none says what is wrong; None without output."""
    with log.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(max(start, end - _TAIL))
        lines = stream.read().split(b"\n")
    for raw in reversed(lines):
        line = _ESCAPES.sub("", raw[:LINE_LIMIT].decode("utf-8", "replace")).strip()
        if line and not raw.startswith(MARK):
            return "".join(char if char.isprintable() else " " for char in line)[:_SHOWN]
    return None
