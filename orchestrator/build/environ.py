"""The environment of a command: built from an allow-list, never inherited; and its part in the build key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.errors import MachineError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAPPED_ROOT = "/sparkbuild"
"""What stands for a build folder in binaries: `/sparkbuild/<name>`."""

MACHINE_ONLY = frozenset(
    {
        "CARGO_BUILD_JOBS",
        "CC",
        "CMAKE_BUILD_PARALLEL_LEVEL",
        "CUDAHOSTCXX",
        "CUDA_HOME",
        "CUDA_PATH",
        "CXX",
        "GIT_CEILING_DIRECTORIES",
        "HOME",
        "LIBRARY_PATH",
        "MAKEFLAGS",
        "MAX_JOBS",
        "NVCC_CCBIN",
        "NVCC_THREADS",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX",
        "TMPDIR",
        "VIRTUAL_ENV",
    }
)
"""Paths, folders and job counts of this machine. Toolkit and compilers are in the key by what they are."""

_OWNED = (MACHINE_ONLY - {"NVCC_THREADS"}) | {
    "LANG",
    "PYTHONHASHSEED",
    "PYTHONNOUSERSITE",
    "SOURCE_DATE_EPOCH",
    "TZ",
}
_JOINED = ("CFLAGS", "CXXFLAGS", "NVCC_APPEND_FLAGS")
_UNSAFE = re.compile(r"[\s,=\"'\\$`]")


def command_environ(  # noqa: PLR0913 - all keywords: what a command may depend on
    *,
    prefix: Path,
    home: Path,
    tmp: Path,
    jobs: int,
    source_date_epoch: int,
    maps: Mapping[Path, str],
    toolkit: Path | None = None,
    cc: Path | None = None,
    cxx: Path | None = None,
    pycache: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole environment of a build command. Pure: nothing of ours gets in.

    Args:
        prefix: the build environment (a venv).
        home: a private, empty folder. `~/.config`, `~/.netrc` and such are not seen.
        tmp: folder for temporary files.
        jobs: compiler processes at a time.
        source_date_epoch: seconds since 1970 that stand for the time of the build.
        maps: build folder -> name; `/sparkbuild/<name>` replaces the folder in binaries.
        toolkit: CUDA_HOME, or None when nothing compiles device code.
        cc: host C compiler.
        cxx: host C++ compiler, also nvcc's.
        pycache: where bytecode is cached, since layers are read-only; None: nowhere.
        extra: the recipe's and the arch's variables. CFLAGS, CXXFLAGS, NVCC_APPEND_FLAGS add to ours.

    Raises:
        RecipeError: `extra` sets a variable that is ours, or has an impossible name.
        MachineError: a build folder's path holds a character that flags in variables cannot carry.
    """
    compilers = dict.fromkeys(str(tool.parent) for tool in (cc, cxx) if tool)
    search = [f"{prefix}/bin", *([f"{toolkit}/bin"] if toolkit else []), *compilers]
    env = {
        "CARGO_BUILD_JOBS": str(jobs),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        # A version taken from git must come from the source itself, not from a repository around our folders.
        "GIT_CEILING_DIRECTORIES": ":".join(sorted({str(folder.parent) for folder in maps})),
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "MAKEFLAGS": f"-j{jobs}",
        "MAX_JOBS": str(jobs),
        # A build script that wants to install something should fail at once, and say so.
        "PIP_NO_INDEX": "1",
        "PATH": ":".join(dict.fromkeys([*search, "/usr/local/bin", "/usr/bin", "/bin"])),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "SOURCE_DATE_EPOCH": str(source_date_epoch),
        "TMPDIR": str(tmp),
        "TZ": "UTC",
        "UV_OFFLINE": "1",
        "VIRTUAL_ENV": str(prefix),
    }
    env.update({"PYTHONPYCACHEPREFIX": str(pycache)} if pycache else {"PYTHONDONTWRITEBYTECODE": "1"})
    if cc:
        env["CC"] = str(cc)
    if cxx:
        env["CXX"] = str(cxx)
    mapped = [f"-ffile-prefix-map={folder}={MAPPED_ROOT}/{name}" for folder, name in _checked(maps)]
    env["CFLAGS"] = env["CXXFLAGS"] = " ".join(mapped)
    if toolkit:
        env.update(_cuda(toolkit, cxx))
        # nvcc names its temporary files by its process id, and those names end up in objects; with -objtemp
        # they follow from the object's name.
        env["NVCC_APPEND_FLAGS"] = " ".join(["-objtemp", *(f"-Xcompiler={flag}" for flag in mapped)])
    return _with_extra(env, extra or {})


def keyed(env: Mapping[str, str], *, places: Mapping[Path, str]) -> dict[str, str]:
    """Return the part of `env` that belongs into the build key: what a wheel depends on, on any machine.

    Variables of `MACHINE_ONLY` are left out; in the others each folder of `places` is replaced by `{name}`.
    """
    # Longest first: a folder inside another one has its own name.
    ordered = sorted(((str(folder), name) for folder, name in places.items()), key=lambda item: -len(item[0]))
    result = {}
    for variable in sorted(env.keys() - MACHINE_ONLY):
        value = env[variable]
        for folder, name in ordered:
            # Not followed by more of a file name: /w/a must not touch /w/ab.
            value = re.sub(rf"{re.escape(folder)}(?![\w.+-])", f"{{{name}}}", value)
        result[variable] = value
    return result


def _cuda(toolkit: Path, cxx: Path | None) -> dict[str, str]:
    env = {
        "CUDA_HOME": str(toolkit),
        "CUDA_PATH": str(toolkit),
        "LIBRARY_PATH": f"{toolkit}/lib64:{toolkit}/lib64/stubs",
        "NVCC_THREADS": "1",
    }
    if cxx:
        # Not -ccbin in a flags variable: torch's extension builder adds one, and older nvcc refuse a second.
        env["CUDAHOSTCXX"] = env["NVCC_CCBIN"] = str(cxx)
    return env


def _checked(maps: Mapping[Path, str]) -> list[tuple[Path, str]]:
    for folder in maps:
        found = _UNSAFE.search(str(folder))
        if found:
            raise MachineError(
                f"the path of a build folder holds {found.group()!r}, which compiler flags cannot carry",
                where=str(folder),
                hint="point SPARKBUILD_HOME to a folder without spaces, commas, quotes and =",
            )
    # The last map that fits wins in gcc, so a folder inside another one comes later.
    return sorted(maps.items(), key=lambda item: (len(str(item[0])), item[0]))


def _with_extra(env: dict[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    for name, value in extra.items():
        if name in _OWNED:
            raise RecipeError(
                f"env sets {name}, which sparkbuild itself sets",
                hint="remove it; jobs, paths and tools are not a recipe's",
            )
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise RecipeError(f"env: {name!r} is no name of a variable", hint="letters, digits and _ only")
        env[name] = f"{env[name]} {value}".strip() if name in _JOINED and name in env else value
    return {name: env[name] for name in sorted(env)}
