# ruff: noqa: PTH115, PTH118, PTH119, PTH123 - imports cost more than they give
"""What a compiler is asked for, told from its command.

The launcher runs this once a unit, so it imports little.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx", ".C", ".CC", ".c++", ".cp", ".ptx", ".S", ".s", ".i", ".ii")
OBJECTS = (".o", ".a", ".so", ".obj", ".cubin", ".fatbin")
# fmt: off
LOOKING = frozenset((
    "-E", "--preprocess", "-M", "-MM", "--generate-dependencies", "-fsyntax-only", "--version", "-V",
    "--help", "-###", "-dryrun", "--dryrun", "-dumpversion", "-dumpmachine", "-print-prog-name",
))
COMPILING = frozenset((
    "-c", "--compile", "-dc", "--device-c", "-dw", "--device-w", "-cubin", "--cubin", "-fatbin",
    "--fatbin", "-ptx", "--ptx", "-S", "-optix-ir", "--optix-ir",
))
LINKING = frozenset(("-shared", "--shared", "-dlink", "--device-link", "-lib", "--lib"))
VALUED = frozenset((
    "-o", "--output-file", "-MF", "-MT", "-MQ", "-I", "-isystem", "-iquote", "-idirafter", "-include",
    "-imacros", "-D", "-U", "-L", "-l", "-x", "--x", "-ccbin", "--compiler-bindir", "-gencode",
    "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-Xcompiler",
    "--compiler-options", "-Xptxas", "--ptxas-options", "-Xlinker", "--linker-options", "-Xfatbin",
    "--fatbin-options", "-Xcudafe", "-Xnvlink", "--nvlink-options", "-Xarchive", "--archive-options",
    "-Xassembler", "-Xpreprocessor", "-Xclang", "-odir", "--output-directory", "-diag-suppress",
    "--diag-suppress", "-t", "--threads", "-maxrregcount", "--maxrregcount", "-std", "--std", "-m",
    "-T", "-u", "-z",
))
"""Options whose value may be the next word."""
# fmt: on
SHADOW = "/cuda/bin"
"""In the folder of our scripts: the programs of what stands for the toolkit."""
CACHES = frozenset(("ccache", "sccache"))


def own_words(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the options and files of a command, without the values of options that stand apart."""
    words = iter(arguments)
    for word in words:
        yield word
        if word in VALUED:
            next(words, None)


def kind(arguments: Sequence[str]) -> str:
    """Say what a compiler is asked for: `compile`, `link`, or `other`."""
    given = set(own_words(arguments))
    if given & LOOKING:
        return "other"
    if given & COMPILING:
        return "compile" if any(word[:1] != "-" and word.endswith(SOURCES) for word in given) else "other"
    linked = given & LINKING or any(word[:1] != "-" and word.endswith(OBJECTS) for word in given)
    return "link" if linked else "other"


def is_probe(folder: str, arguments: Sequence[str]) -> bool:
    """Say whether CMake only asks what the compiler is and can do; it does so without the project's flags."""
    if "/CMakeFiles/" in folder + "/" and ("/CMakeTmp" in folder or "/CMakeScratch/" in folder):
        return True
    return any(
        os.path.basename(word).startswith(("CMakeCUDACompiler", "CMakeCXXCompiler", "CMakeCCompiler"))
        for word in arguments
        if word.endswith(SOURCES)
    )


def split(text: str) -> list[str]:
    """Return the words of a variable or a response file."""
    if not any(mark in text for mark in "\"'\\"):
        return text.split()
    import shlex

    try:
        return shlex.split(text)
    except ValueError:  # the compiler will say what is wrong with it
        return text.split()


def effective(compiler: str, arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return what a compiler is given: with response files, and what nvcc takes from variables."""
    is_nvcc = os.path.basename(compiler).startswith("nvcc")
    if is_nvcc:
        before, after = environ.get("NVCC_PREPEND_FLAGS", ""), environ.get("NVCC_APPEND_FLAGS", "")
        arguments = [*split(before), *arguments, *split(after)]
    given: list[str] = []
    words = iter(arguments)
    for word in words:
        name, _, value = word.partition("=")
        if is_nvcc and name in ("-optf", "--options-file"):
            for path in (value or next(words, "")).split(","):
                given.extend(_response(path))
        elif word[:1] == "@" and not is_nvcc:
            given.extend(_response(word[1:]) or [word])
        else:
            given.append(word)
    return given


def _response(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return split(file.read())
    except OSError:
        return []


def unwrapped(command: Sequence[str], tools: str) -> tuple[str, list[str]]:
    """Return compiler and arguments behind our own scripts and other caches; a build may put several.

    Args:
        command: as it was given.
        tools: the folder of our scripts; empty: nothing is taken off.
    """
    words = list(command)
    while tools:
        folder, name = os.path.split(words[0])
        behind = os.path.join(tools, ".real", name)
        if folder in (tools, tools + SHADOW) and os.path.lexists(behind):
            words[0] = os.readlink(behind)
            break
        doubled = (folder == tools or name in CACHES) and len(words) > 1 and words[1][:1] != "-"
        if not doubled:
            break
        del words[0]
    return words[0], words[1:]
