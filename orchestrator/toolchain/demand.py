"""What a recipe demands of the host compiler, and whether this machine's meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.toolchain.compiler import Compiler


def compiler_fault(compiler: Compiler, wanted: Mapping[str, str], *, name: str) -> MachineError | None:
    """Return the error for a compiler that none of the demands fits; None when one does, or there are none.

    Args:
        compiler: the host compiler.
        wanted: kind (`gcc`, `clang`) -> PEP 440 specifiers.
        name: the recipe that says so.
    """
    if not wanted or _fits(compiler, wanted.get(compiler.kind)):
        return None
    told = " or ".join(f"{kind} {versions}" for kind, versions in wanted.items())
    there = f"{compiler.kind} {compiler.release or compiler.version}"
    return MachineError(
        f"{name} needs {told}, and the host compiler is {there}",
        where=str(compiler.cxx),
        hint=" or ".join(_install(kind, versions) for kind, versions in wanted.items()),
    )


def _fits(compiler: Compiler, versions: str | None) -> bool:
    from packaging.specifiers import SpecifierSet

    return (
        versions is not None and compiler.release is not None and compiler.release in SpecifierSet(versions)
    )


def _install(kind: str, versions: str) -> str:
    """Return how to get a compiler: distributions name the package by its major."""
    from packaging.specifiers import SpecifierSet

    least = next((each.version for each in SpecifierSet(versions) if each.operator in {">=", "==", "~="}), "")
    major = least.partition(".")[0]
    tail = f"-{major}" if major else ""
    package, cc, cxx = (
        (f"g++{tail}", f"gcc{tail}", f"g++{tail}")
        if kind == "gcc"
        else (f"clang{tail}", f"clang{tail}", f"clang++{tail}")
    )
    return f"`apt install {package}`, CC={cc} CXX={cxx}"
