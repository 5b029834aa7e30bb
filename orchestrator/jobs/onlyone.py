"""What stands before ninja in a probe: of all that it would build, it is asked for one object.

So what that object is made from comes first, as ninja knows it, and nothing else is begun. Runs in a bare
Python, like `jobs.wrapper`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

OBJECTS = (".o", ".obj")
_VALUED = frozenset(("-C", "-d", "-f", "-j", "-k", "-l", "-w"))
"""Options of ninja whose value may be the next word."""
_LOOKING = ("-t", "-h", "--help", "--version")


def narrowed(ninja: str, arguments: Sequence[str], unit: str) -> list[str]:
    """Return the arguments with which ninja builds one object; the same ones where it knows none.

    Args:
        ninja: the program.
        arguments: what it was called with.
        unit: glob on the end of the path of the object's source.
    """
    options: list[str] = []
    where: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.startswith(_LOOKING):
            return list(arguments)
        if word[:1] != "-":
            continue  # a target
        given = [word]
        if word in _VALUED:
            given += [value for value in (next(words, None),) if value is not None]
        options += given
        if word[:2] in {"-C", "-f"}:
            where += given
    answer = subprocess.run([ninja, *where, "-t", "compdb"], capture_output=True, check=False)
    try:
        entries = json.loads(answer.stdout.decode("utf-8", "replace"))
    except ValueError:  # no build.ninja, or one that ninja will complain of
        return list(arguments)
    for entry in entries:
        source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))  # noqa: PTH118
        if entry.get("output", "").endswith(OBJECTS) and fnmatchcase(source, f"*/{unit}"):
            return [*options, entry["output"]]
    return list(arguments)


def main(ninja: str, arguments: Sequence[str], unit: str) -> NoReturn:
    """Become ninja."""
    asks = "/CMakeFiles/" in f"{os.getcwd()}/"  # CMake, what the compiler can do  # noqa: PTH109
    command = [ninja, *(arguments if asks else narrowed(ninja, arguments, unit))]
    if command[1:] != list(arguments):
        name = command[-1].rpartition("/")[2]  # of a path, a progress line would show the beginning alone
        sys.stderr.write(f"sparkbuild: ninja builds only {name} and what that is made from\n")
        sys.stderr.flush()
    os.execv(ninja, command)  # noqa: S606 - never a shell
