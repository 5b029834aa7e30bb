"""Rules for errors of no known class, and for lines that only report that something else failed."""

from __future__ import annotations

import re
from typing import Final

from orchestrator.machine.rules import Found, Rule, row

# Substrings of nearly every error line. Cheap to look for: logs reach hundreds of MB.
HINTS: Final = (
    "rror|ERROR|fatal|FAILED|xception|cannot find|Abort|Illegal|ninja: |denied|panicked|nterrupt|SystemExit"
    "|Unavailable|No space"
)


def unknown(_found: Found) -> str:
    """Say what to do about an error of no known class."""
    return (
        "The table of faults does not know this. Read the lines before and after it; the lines above a"
        " compiler's message show the command, which runs alone as well."
    )


def diagnostic(_found: Found) -> str:
    """Say what to do about a compiler's or linker's own message."""
    return (
        "A compiler or linker refuses the source. Read the lines around it. Is the version the one that the"
        " stack names? A mistake upstream wants a patch, or another version; try a change in a copy with"
        " `--source NAME=DIR`."
    )


def _tool(found: Found) -> str:
    return f"Install {found.first or 'the tool that is named'}, or add it to the recipe's build.requires."


def _module(found: Found) -> str:
    if found.first.endswith("._version") or found.first.endswith("._C"):
        return (
            "Python took the source folder instead of what is installed: run it from another folder, or with"
            " `python -P`."
        )
    return (
        f"The environment lacks {found.first}. In a build, add its package to the recipe's build.requires and"
        " lock again; elsewhere install it."
    )


def _python(found: Found) -> str:
    return f"{found.first} belongs to another version of Python than the one that runs: build for this one."


# gcc, clang, nvcc's front end, the linker: file, place, error.
_DIAGNOSTIC: Final = r"""(?x)
      \A[^\s:][^:]{0,500}:\d+(?::\d+)?:\s{1,4}(?:fatal\s)?error\b\s{0,4}:
    | \A[^\s(][^(]{0,500}\(\d+(?:,\d+)?\):\s{1,4}(?:catastrophic\s|internal\s|fatal\s)?error\b
    | \A[\w./+-]{0,200}(?:gcc|g\+\+|cc|c\+\+|cc1plus|cc1|clang(?:\+\+)?|collect2|ld(?:\.\w{1,10})?|as|lld)
        (?:-[\d.]{1,8})?:\s{1,4}(?:fatal\s)?error\b\s{0,4}:
    | \A[\w./+-]{0,200}ld(?:\.\w{1,10})?:\s.{0,3000}(?:cannot\sfind|undefined\sreference|final\slink\sfailed)
    | \A(?:nvcc|ptxas|cicc|nvlink|fatbinary|cudafe\+\+)\s{1,8}(?:fatal|error)\s{0,8}:
    | \Aptxas\s.{0,500};\s(?:fatal|error)\s{0,8}:
    | \Aerror\[E\d{1,6}\]:\s
"""

# git, cargo, setuptools, CMake, pip, make, ninja, sh, rust.
_ERROR: Final = r"""(?x)
      \A(?:fatal|error)\s{0,8}(?:\[\w{1,20}\])?\s{0,8}:\s
    | \ACMake\sError\b
    | \AERROR:\s
    | \A[\w.-]{1,60}:\serror:\s
    | \Aninja:\s(?:error|fatal):
    | \A(?:/bin/)?(?:ba|da)?sh:\s.{0,500}(?:Permission\sdenied|No\sspace)
    | \A(?:Illegal\sinstruction|Aborted)(?:\s\(core\sdumped\))?\Z
    | \Athread\s'.{0,200}'\s(?:\(\d{1,20}\)\s)?panicked\sat\s
"""

# An exception's last line; without a traceback before it, the name must say what it is.
_EXCEPTION: Final = (
    r"\A(?:[A-Za-z_]\w{0,80}\.){0,8}(?:[A-Z]\w{0,80}?(?:Error|Exception|Interrupt|Unavailable)|SystemExit)"
    r"(?::\s|:?\Z)"
)

_ECHO: Final = r"""(?x)
      \AFAILED:\s
    | \Aninja:\sbuild\sstopped
    | \AERROR:\s(?:Failed\s(?:building|to\sbuild)|Could\snot\sbuild\swheels|Exception:\Z)
    | \Aerror:\s(?:command\s.{0,3000}failed|subprocess-exited|could\snot\scompile|Failed\sto\sbuild)
    | \A(?:\w{1,80}\.){0,8}CalledProcessError:
    | \ARuntimeError:\sError\scompiling\sobjects\sfor\sextension
    | \A(?:[A-Za-z_]\w{0,80}\.){0,8}PTXASError:
    | \Acollect2:\serror:\sld\sreturned
    | \A(?:nvcc|ptxas)\s{1,8}fatal\s{0,8}:\s{1,8}(?:Ptx\sassembly\saborted|Unresolved\sextern)
"""

RAISED: Final = re.compile(r"\A(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?::\s|:?\Z)")
"""The last line of a traceback: a dotted class name, then its message."""

RULES: Final[tuple[Rule, ...]] = (
    row(
        "unknown",
        "not found",
        r"\A(?:/bin/)?(?:ba|da)?sh:\s(?:.{0,60}:\s)?(?P<what>[\w.+/-]{1,100}): (?:command )?not found",
        _tool,
        role="error",
    ),
    row(
        "unknown",
        "No module named",
        r"\A(?:ModuleNotFoundError|ImportError): No module named '?(?P<what>[\w.]{1,100})",
        _module,
        role="error",
    ),
    row(
        "unknown",
        "undefined symbol: ",
        r"undefined symbol: (?P<what>_?Py[A-Z_]\w{1,100})",
        _python,
        role="error",
    ),
    row(
        "unknown",
        "*** ",
        r"\Ag?make(?:\[\d{1,4}\])?:\s{1,4}\*\*\*\s{1,4}(?:\[|Waiting\sfor)",
        unknown,
        role="echo",
    ),
    row("unknown", "*** ", r"\A[\w./\[\]-]{1,200}:(?:\d{1,9}:)?\s{1,8}\*\*\*\s", unknown, role="error"),
    row("unknown", "undefined reference", r": (?:more )?undefined references? to ", diagnostic, role="error"),
    row("unknown", HINTS, _ECHO, unknown, role="echo"),
    row("unknown", HINTS, _DIAGNOSTIC, diagnostic, role="error"),
    row("unknown", HINTS, _ERROR, unknown, role="error"),
    row("unknown", HINTS, _EXCEPTION, unknown, role="error", flush=True),
)
