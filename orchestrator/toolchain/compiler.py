"""The host compiler: which one, whether it works, and what exactly it is."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import MachineError, ToolMissingError
from orchestrator.store.atomic import sha256_file
from orchestrator.toolchain.ask import ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.store.facts import Facts

INSTALL = "install a C++ compiler (`apt install build-essential`, `dnf install gcc-c++`), or set CC and CXX"

# These stand before a compiler, or in a folder of links that bear its name. Builds get a launcher of
# their own, and what it launches must be known.
LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc", "buildcache"})

_UNIT = (
    "#include <cstddef>\n#include <string>\nint main() { return static_cast<int>(std::string().size()); }\n"
)

# gcc: name, (packager's words), number, maybe a date. clang: maybe a packager, "clang version", number.
_GCC = re.compile(r".*\) (\d+(?:\.\d+)*)", re.ASCII)
_CLANG = re.compile(r"clang version (\d+(?:\.\d+)*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C and a C++ compiler of one machine."""

    cc: Path
    cxx: Path
    version: str
    """First line of `cxx --version`."""
    target: str
    """Such as `aarch64-linux-gnu`."""
    identity: str
    """`gcc-` or so, and a sha256 over versions, targets and the bytes of drivers and compilers proper."""

    @property
    def kind(self) -> str:
        """`gcc` or `clang`."""
        return _family(self.version)

    @property
    def release(self) -> str | None:
        """Its version number, such as `13.3.0`; None when the first line of `--version` tells none."""
        found = (_CLANG if self.kind == "clang" else _GCC).search(self.version)
        return found[1] if found else None


def host_compiler(facts: Facts, *, environ: Mapping[str, str] | None = None) -> Compiler:
    """Return the compiler that CC and CXX name, else gcc and g++ of the PATH, after it compiled a unit.

    Args:
        facts: cache; while it knows both compilers no process starts.
        environ: where PATH, CC and CXX are looked up; `os.environ` by default.

    Raises:
        ToolMissingError: there is none, or it cannot build an empty C++ program.
        MachineError: CC or CXX holds more than a compiler.
    """
    environ = os.environ if environ is None else environ
    cc = _located("CC", ("gcc", "cc", "clang"), environ)
    cxx = _located("CXX", _siblings(cc), environ)
    c_words, c_digests = _described(cc, "cc1", facts)
    words, digests = _described(cxx, "cc1plus", facts)
    lines = [*c_words, *c_digests, *words, *digests]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    # What the linker finds is not in the driver's bytes, but without it nothing else would work either.
    facts.get_or(cxx, f"builds C++ {digest[:16]}", _build_empty)
    version, target = words
    return Compiler(cc=cc, cxx=cxx, version=version, target=target, identity=f"{_family(version)}-{digest}")


def _siblings(cc: Path) -> tuple[str, ...]:
    """Return names for the C++ compiler that goes with a C compiler: gcc-12 -> g++-12."""
    found = re.fullmatch(r"(.*?)(gcc|clang|cc)(-[\d.]+)?", cc.name)
    if found is None:
        return ("g++", "c++", "clang++")
    prefix, kind, suffix = found[1], found[2], found[3] or ""
    mate = {"gcc": "g++", "clang": "clang++", "cc": "c++"}[kind]
    named = f"{prefix}{mate}{suffix}"
    return (str(cc.with_name(named)), named) if prefix or suffix else (str(cc.with_name(mate)), mate)


def _located(variable: str, names: tuple[str, ...], environ: Mapping[str, str]) -> Path:
    path = environ.get("PATH", os.defpath)
    if given := environ.get(variable, "").strip():
        words = shlex.split(given)
        if words and Path(words[0]).name in LAUNCHERS:
            words = words[1:]
        if len(words) != 1:
            raise MachineError(
                f"{variable} holds {given!r}, more than a compiler",
                hint=f"set {variable} to one program; flags belong into a recipe's `env`",
            )
        names = (words[0],)
    for name in names:
        if found := _which(name, path):
            return found
    wanted = names[0] if given else " or ".join(Path(name).name for name in names)
    raise ToolMissingError(
        f"no compiler: {wanted} is not there", where=variable if given else None, hint=INSTALL
    )


def _which(name: str, path: str) -> Path | None:
    folders = [""] if "/" in name else path.split(os.pathsep)
    for folder in folders:
        found = shutil.which(name, path=folder or None)
        if found and os.path.basename(os.path.realpath(found)) not in LAUNCHERS:  # noqa: PTH119 - no Path for each
            return Path(found).absolute()
    return None


def _described(driver: Path, proper: str, facts: Facts) -> tuple[list[str], list[str]]:
    """Return (version line, target) and the digests of the driver and of the compiler proper."""
    said = facts.get_or(driver, f"compiler {proper}", lambda path: _describe(path, proper))
    version, target, inner = said.split("\n")
    files = [driver, *([Path(inner)] if inner else [])]
    try:
        return [version, target], [facts.get_or(file, "sha256", sha256_file) for file in files]
    except OSError as error:
        raise ToolMissingError(
            f"cannot be read: {error.strerror}", where=str(error.filename or driver), hint=INSTALL
        ) from error


def _describe(driver: Path, proper: str) -> str:
    version = ask([driver, "--version"])
    target = ask([driver, "-dumpmachine"])
    if version.code or target.code:
        raise ToolMissingError(
            f"is no compiler that works: {(version if version.code else target).first_line}",
            where=str(driver),
            hint=INSTALL,
        )
    inner = ask([driver, f"-print-prog-name={proper}"]).first_line  # clang has none: it prints the bare name
    return "\n".join([version.first_line, target.first_line, inner if inner.startswith("/") else ""])


def _build_empty(cxx: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="sparkbuild-") as folder:
        unit = Path(folder, "empty.cpp")
        unit.write_text(_UNIT, "utf-8")
        answer = ask([cxx, "-o", "empty", unit.name], cwd=Path(folder))
    if answer.code:
        raise ToolMissingError(
            f"cannot build an empty C++ program: {answer.telling_line}", where=str(cxx), hint=INSTALL
        )
    return "yes"


def _family(version: str) -> str:
    return "clang" if "clang" in version else "gcc"
