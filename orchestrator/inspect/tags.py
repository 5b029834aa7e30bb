"""What a wheel's tags promise, against what lies in it: machine, Python, versions of system libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.tags import Tag

    from orchestrator.audit.dynamic import Linkage

_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243, "loongarch64": 258}
"""End of a platform tag -> e_machine (elf.h)."""
_MACHINE_NAMES = {number: name for name, number in _MACHINES.items()}
_ARCHITECTURES = (*_MACHINES, "s390x", "i686", "armv7l")
_TAGS_AT_MOST, _TAG_AT_MOST = 4096, 255
"""Letters of all Tag lines, and of one: a line of sets stands for their product."""
_EXTENSION = re.compile(r"\.(?:cpython-(\d+)[^/]*|abi3)\.so$")
_MANYLINUX = re.compile(r"manylinux(?:_(\d+)_(\d+)|(1|2010|2014))_")
_OLD_MANYLINUX = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
"""Names before PEP 600 -> glibc."""
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
_JUDGED = frozenset(("GLIBCXX", "CXXABI", "GCC"))
"""Interfaces whose versions auditwheel's tables tell."""
_SHOWN = 3
_RELR = "GLIBC_ABI_DT_RELR"
"""What a file with packed relocations asks for; glibc 2.36 is the first to offer it."""


def check_tags(outside: frozenset[Tag], lines: Iterable[str]) -> list[Finding]:
    """Compare the tags of a file name with the Tag lines of WHEEL (`tag-mismatch`).

    Another Python, ABI or machine is an error. Only another policy of the same machine is a warning: that
    is what happens when a wheel is renamed from linux to manylinux, as vLLM's and cupy's are.
    """
    from packaging.tags import parse_tag

    inside: set[Tag] = set()
    lines = list(lines)
    if sum(map(len, lines)) > _TAGS_AT_MOST or max(map(len, lines), default=0) > _TAG_AT_MOST:
        return [Finding("error", "tag-mismatch", "WHEEL has more tags than are read")]
    for line in lines:
        try:
            inside |= parse_tag(line)
        except ValueError:
            return [Finding("error", "tag-mismatch", f"WHEEL names {line[:80]!r}, which is no tag")]
    if not inside:
        return [Finding("error", "tag-mismatch", "WHEEL names no tag")]
    if inside == outside:
        return []
    coarse = {(tag.interpreter, tag.abi, _architecture(tag.platform)) for tag in inside} == {
        (tag.interpreter, tag.abi, _architecture(tag.platform)) for tag in outside
    }
    text = f"WHEEL says {_spelled(inside)}, the file name {_spelled(outside)}"
    return [Finding("warning" if coarse else "error", "tag-mismatch", text)]


def check_machines(tags: frozenset[Tag], machines: Mapping[str, int]) -> list[Finding]:
    """Compare the machine of ELF files (path -> e_machine) with the platform (`wrong-machine`).

    A wheel for `any` platform may hold libraries of several as data; not so extension modules.
    """
    hosts = {path: machine for path, machine in machines.items() if machine in _MACHINE_NAMES}
    allowed = {_architecture(tag.platform) for tag in tags}
    if allowed == {"any"}:
        modules = sorted(path for path in hosts if _EXTENSION.search(path))
        if not modules:
            return []
        machine = _MACHINE_NAMES[hosts[modules[0]]]
        text = f"{_several(modules)} only for {machine}, but the wheel says it runs on any machine"
        return [Finding("error", "wrong-machine", text)]
    if not allowed <= set(_MACHINES):
        return []
    found = []
    for number in sorted(set(hosts.values()) - {_MACHINES[name] for name in allowed}):
        paths = sorted(path for path, machine in hosts.items() if machine == number)
        text = (
            f"{_several(paths)} for {_MACHINE_NAMES[number]}, but the wheel says {', '.join(sorted(allowed))}"
        )
        found.append(Finding("error", "wrong-machine", text))
    return found


def check_python(tags: frozenset[Tag], paths: Iterable[str]) -> list[Finding]:
    """Find extension modules that one Python alone imports, in a wheel for others (`wrong-python`).

    A warning: the rest of the wheel works.
    """
    abis = {tag.abi for tag in tags}
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        match = _EXTENSION.search(path)
        if match and match[1] and not any(re.fullmatch(f"cp{match[1]}[a-z]*", abi) for abi in abis):
            found.setdefault(match[1], []).append(path)
    says = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
    return [
        Finding(
            "warning", "wrong-python", f"{_several(paths)} only for cp{version}, but the wheel says {says}"
        )
        for version, paths in found.items()
    ]


def check_glibc(tags: frozenset[Tag], files: Mapping[str, Linkage]) -> dict[str, list[Finding]]:
    """Find files that need a newer glibc than a manylinux tag promises (`glibc-newer-than-tag`, PEP 600)."""
    promised = [_promised(match) for tag in tags if (match := _MANYLINUX.match(tag.platform))]
    found: dict[str, list[Finding]] = {}
    if not promised:
        return found
    least = min(promised)
    for path, linkage in files.items():
        needed = max(map(_glibc, linkage.versions), default=(0, 0))
        if needed > least:
            text = f"it needs glibc {_dotted(needed)}, but the wheel says that {_dotted(least)} is enough"
            found[path] = [Finding("error", "glibc-newer-than-tag", text)]
    return found


def check_symbol_versions(tags: frozenset[Tag], files: Mapping[str, Linkage]) -> list[Finding]:
    """Find files that need a newer libstdc++ or libgcc than a manylinux tag promises (`newer-than-tag`).

    auditwheel's tables tell what a tag promises; of one that they do not know nothing is said. A warning:
    the machines that the tag lets in mostly have newer libraries, and pip does not look.
    """
    promised = {tag.platform: _promised(match) for tag in tags if (match := _MANYLINUX.match(tag.platform))}
    if not promised or not any(linkage.versions for linkage in files.values()):
        return []
    platform = min(promised, key=lambda name: promised[name])
    known = _known_versions(platform)
    paths: list[str] = []
    newer: set[str] = set()
    for path, linkage in sorted(files.items()):
        if bad := {version for version in linkage.versions if _is_newer(version, known)}:
            paths.append(path)
            newer |= bad
    if not paths:
        return []
    more = f" and {len(newer) - _SHOWN} more" if len(newer) > _SHOWN else ""
    need = "needs" if len(paths) == 1 else "need"
    who = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more"
    text = f"{who} {need} {', '.join(sorted(newer)[:_SHOWN])}{more}, which {platform} does not promise"
    return [Finding("warning", "newer-than-tag", text)]


def _known_versions(platform: str) -> Mapping[str, frozenset[str]]:
    """Return library -> versions of its interface that a manylinux tag promises; empty when nobody knows."""
    from auditwheel.architecture import Architecture
    from auditwheel.libc import Libc
    from auditwheel.policy import WheelPolicies

    try:
        policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(_architecture(platform)))
        versions: Mapping[str, frozenset[str]] = policies.get_policy_by_name(platform).symbol_versions
    except (LookupError, ValueError):
        return {}
    return versions


def _is_newer(version: str, known: Mapping[str, frozenset[str]]) -> bool:
    library, _, number = version.partition("_")
    return library in _JUDGED and library in known and number[:1].isdigit() and number not in known[library]


def _promised(match: re.Match[str]) -> tuple[int, int]:
    return _OLD_MANYLINUX[match[3]] if match[3] else (int(match[1]), int(match[2]))


def _glibc(version: str) -> tuple[int, int]:
    if version == _RELR:
        return (2, 36)
    match = _GLIBC.match(version[:32])
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _architecture(platform: str) -> str:
    return next((name for name in _ARCHITECTURES if platform.endswith(f"_{name}")), platform)


def _spelled(tags: Iterable[Tag]) -> str:
    return ", ".join(sorted(map(str, tags)))


def _several(paths: list[str]) -> str:
    return f"{paths[0]} is" if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more are"
