"""Rules for what is wrong with sources: the network, pins, patches, versions, files that are not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from orchestrator.machine.rules import Found, Rule, row

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEST_FILE: Final = re.compile(r"(?:\A|/)(?:tests?|testing)/|(?:\A|/)test_[^/]*\Z|_test\.[a-z]+\Z")

_HEADERS: Final[Mapping[str, str]] = {
    "Python.h": "install the headers of the Python that builds (Debian and Ubuntu: python3-dev, or that of"
    " its version, such as python3.12-dev)",
    "cuda/std/": "since CUDA 13 CCCL lies in include/cccl of the toolkit: the source needs"
    " -I.../include/cccl,"
    " so patch it, or take a newer release",
    "thrust/": "since CUDA 13 Thrust lies in include/cccl of the toolkit: the source needs"
    " -I.../include/cccl, so patch it, or take a newer release",
    "cub/": "since CUDA 13 CUB lies in include/cccl of the toolkit: the source needs -I.../include/cccl, so"
    " patch it, or take a newer release",
    "cutlass/": "CUTLASS is a submodule of most components: `sparkbuild fetch all --arch 12.1a` gets every"
    " submodule as locked; in a folder of your own run `git submodule update --init --recursive`",
    "torch/": "torch is not in the build environment: add it to the recipe's needs.build",
    "ATen/": "torch is not in the build environment: add it to the recipe's needs.build",
}
_HEADERS_MORE: Final = {"cute/": "cutlass/", "c10/": "torch/", "nv/target": "cuda/std/"}
_TOOLKIT: Final = re.compile(
    r"\A(?:cuda|cu(?:blas|dnn|fft|rand|solver|sparse)|nv|driver_types|vector_types)\w*"
)


def _network(found: Found) -> str:
    host = f" ({found.listed})" if found.names else ""
    return (
        f"The network was needed and did not answer{host}. Get all sources first, with"
        " `sparkbuild fetch all --arch 12.1a`; after that a build needs no network (`--offline` proves it)."
        " To compile again blindly changes nothing."
    )


def _broken_off(_found: Found) -> str:
    return (
        "The transfer from git's server broke off, which is mostly chance: run the same again. When it comes"
        " back, a proxy or a slow line cuts it; get all sources first, with `sparkbuild fetch all --arch"
        " 12.1a`."
    )


def _wheel(found: Found) -> str:
    return (
        f"{found.first or 'The wheel'} is for another Python or platform than this one: the last three parts"
        " of its name say which (Python, ABI, platform). `python -m pip debug --verbose` lists what fits"
        " here; `sparkbuild audit WHEEL` tells what is in the wheel. Build it for this one, or run the"
        " Python that it is for."
    )


def _bad_pin(found: Found) -> str:
    what = f"{found.first} " if found.names else "What is pinned "
    return (
        f"{what}is not to be had from where it is pinned: removed, overwritten, or never there. Name another"
        " version or commit in the stack and run `sparkbuild lock`, or hand over a copy with"
        " `--source NAME=DIR`."
    )


def _hash(_found: Found) -> str:
    return (
        "What was downloaded is not what was pinned: the file behind the address has changed, or a proxy"
        " answered. Look at it before trusting it; then `sparkbuild lock` pins the new one."
    )


def _patch(found: Found) -> str:
    files = tuple(dict.fromkeys(re.sub(r":\d+\Z", "", name) for name in found.names))
    listed = ", ".join(files[:6]) or "a file that the output does not name"
    if files and all(_TEST_FILE.search(name) for name in files):
        return (
            f"Only a test hunk does not fit ({listed}): the patch is still usable, leave that file out of it."
            " sparkbuild applies a patch whole or not at all, so its trees are untouched."
        )
    return (
        f"The patch does not fit this version ({listed}): upstream moved on, or already holds it. Make the"
        " patch anew for this version, or narrow the versions that it is for. sparkbuild applies a patch"
        " whole"
        " or not at all, so its trees are untouched; `git apply` and `patch` may leave .rej files behind."
    )


def _corrupt_patch(_found: Found) -> str:
    return (
        "The patch itself is damaged, or speaks of blobs that this clone lacks (a 3-way merge cannot work in"
        " a"
        " shallow one). Make it anew with `git diff` or `git format-patch`."
    )


def _version(_found: Found) -> str:
    return (
        "The version is read from git, and here is no usable git history. Say it: in the recipe's build.env,"
        " SETUPTOOLS_SCM_PRETEND_VERSION with the release's number (or the variable that ends in _FOR_ and"
        " the"
        " package's name)."
    )


def _owner(_found: Found) -> str:
    return (
        "git refuses a folder that belongs to somebody else, so no version can be read from it. Say the"
        " version with SETUPTOOLS_SCM_PRETEND_VERSION, or run"
        " `git config --global --add safe.directory FOLDER`."
    )


def _header(found: Found) -> str:
    said = []
    for name in found.names[:6] or ("a file",):
        key = next((key for key in (*_HEADERS, *_HEADERS_MORE) if name.startswith(key) or name == key), "")
        known = _HEADERS.get(_HEADERS_MORE.get(key, key))
        if known is None and _TOOLKIT.match(name):
            known = "it belongs to the CUDA toolkit: take one that is whole, with `--cuda pip`"
        said.append(f"{name}: {known or 'install what provides it, or add its folder to the include path'}")
    return "A file is missing. " + "; ".join(said) + "."


def _library(found: Found) -> str:
    return (
        f"The linker finds no library {found.listed}. A toolkit's own ones come with `--cuda pip`; others are"
        " system packages."
    )


def _toolkit(_found: Found) -> str:
    return (
        "No CUDA toolkit was found, or one without nvcc. Take the one that the stack locks (`--cuda pip`), or"
        " name yours with `--cuda PATH` (outside sparkbuild: set CUDA_HOME to it, and put its bin folder on"
        " the PATH)."
    )


def _submodule(_found: Found) -> str:
    return (
        "The sources are not whole: a submodule is missing. `sparkbuild fetch all --arch 12.1a` gets every"
        " one"
        " as locked; in a folder of your own run `git submodule update --init --recursive`."
    )


def _protocol(found: Found) -> str:
    what = f" ({found.listed})" if found.names else ""
    return (
        f"A component does not speak the protocol that its companion expects{what}: their versions, or the"
        " way"
        " they must be built, have drifted apart. Build all of them from one stack and its lock with"
        " `sparkbuild all --arch 12.1a`."
    )


RULES: Final[tuple[Rule, ...]] = (
    row(
        "network",
        "RPC failed|fatal: |error: ",
        # curl 6 and 7: no host, no connection; that is no chance.
        r"(?:RPC failed; (?!curl [67] )|fetch-pack: .{0,40}(?:early EOF|unexpected disconnect)"
        r"|\Afatal: early EOF|remote end hung up unexpectedly)",
        _broken_off,
        retry=True,
    ),
    row(
        "network",
        "ould not resolve|Failed to connect|ouldn't connect|ailure in name|Network is unreachable"
        "|Name or service not known|Failed to establish a new connection|Connection reset by peer"
        "|Connection refused|Connection timed out|No route to host",
        r"(?:(?:C|c)ould not resolve (?:host|proxy)(?:name)?:? ?(?P<what>[\w.-]{0,100})"
        r"|Failed to connect to [\w.-]{1,100} port|ouldn't connect to server|failure in name resolution"
        r"|Network is unreachable|Name or service not known|Failed to establish a new connection"
        r"|Connection (?:reset by peer|refused|timed out)|No route to host)",
        _network,
    ),
    row(
        "network",
        "Failed to clone|failed to clone|RPC failed|CERTIFICATE_VERIFY_FAILED"
        "|ProxyError|ConnectTimeout|ReadTimeout|Read timed out|ould not fetch URL"
        "|onnection broken|error: 5|error: 429|HTTP Error 5|SSLError|RemoteDisconnected|Failed to fetch",
        r"(?:[Ff]ailed to clone (?:repository|'|http)|RPC failed; "
        r"|CERTIFICATE_VERIFY_FAILED|ProxyError|ConnectTimeout|ReadTimeout"
        r"|Read timed out|IncompleteRead\(|ould not fetch URL|[Cc]onnection broken|RemoteDisconnected"
        r"|requested URL returned error: (?:5\d\d|429)|HTTP Error 5\d\d|SSLError\(|Failed to fetch: `?http)",
        _network,
    ),
    row(
        "network",
        "Had to git clone more than once|Failed to checkout tag",
        r"Had to git clone more than once",
        _network,
        role="echo",
    ),
    row(
        "bad-pin",
        "reference is not a tree|not our ref|error: Server|fatal: couldn't"
        "|not found in upstream|fatal: bad|did not match any file|Failed to checkout tag|not a valid object",
        r"(?:reference is not a tree: (?P<what>\S{1,100})|not our ref|unadvertised object"
        r"|couldn't find remote ref|Remote branch .{1,100} not found in upstream|\Afatal: bad object"
        r"|\Aerror: pathspec '[^']{1,100}' did not match any file|Failed to checkout tag"
        r"|\Afatal: not a valid object)",
        _bad_pin,
    ),
    row(
        "bad-pin",
        "error: 404|error: 410|Error 404|404 Client Error|404 Not Found|HTTP Error 410",
        r"(?:requested URL returned error: 4(?:04|10)|HTTP Error 4(?:04|10)|HTTP error 404|404 Client Error"
        r"|(?:ERROR|error).{0,60}404 Not Found)",
        _bad_pin,
    ),
    row(
        "bad-pin",
        "not find a version|No matching distribution|matching platform tag|No solution found",
        r"(?:that satisfies the requirement (?P<what>[\w.\[\]-]{1,80}[=<>~!,\d.\w+*]{0,80})"
        r"|No matching distribution found|matching platform tag|No solution found when resolving)",
        _bad_pin,
    ),
    row(
        "bad-pin",
        "not a supported wheel",
        r"(?:\AERROR: (?P<what>[^\s/]{1,200}\.whl) )?is not a supported wheel on this platform",
        _wheel,
    ),
    row(
        "bad-pin",
        "NOT MATCH|HASH mismatch|ash mismatch|rror: ",
        r"DO NOT MATCH THE HASHES|HASH mismatch|[Hh]ash mismatch|expected sha256",
        _hash,
    ),
    row(
        "patch-conflict",
        "error: |fatal: |*** malformed patch",
        r"\A(?:error: |fatal: )?(?:corrupt patch at|patch: \*\*\*\* malformed patch|.{0,60}malformed patch at"
        r"|repository lacks the necessary blob to|patch fragment without header)",
        _corrupt_patch,
    ),
    row("patch-conflict", "patch failed", r"\Aerror: patch failed: (?P<what>[^\s:]{1,250})", _patch),
    row(
        "patch-conflict",
        "error: ",
        r"\Aerror: (?P<what>[^\s:]{1,250}): (?:patch does not apply|No such file or directory"
        r"|already exists in (?:working directory|index)|does not (?:exist in|match) index)",
        _patch,
    ),
    row(
        "patch-conflict",
        "FAILED --|FAILED at|Merge conflict in|does not apply",
        r"(?:saving rejects to (?:file )?(?P<what>[^\s]{1,250}?)(?:\.rej)?\Z|\ARejected hunk #"
        r"|\AHunk #\d+ FAILED at"
        r"|\ACONFLICT \([^)]{1,40}\): Merge conflict in |patch [\w./-]{1,200} does not apply)",
        _patch,
    ),
    row("version-from-git", "fatal: detected", r"detected dubious ownership", _owner),
    row(
        "version-from-git",
        "unable to detect|unable to determine|Error getting|No git tags",
        r"(?:setuptools[-_]scm was unable to detect version|unable to determine version"
        r"|getting the version from source `vcs`|No git tags found)",
        _version,
    ),
    row(
        "missing-header",
        "fatal error: ",
        r"fatal error: (?P<what>[^:'\s]{1,200}): No such file or directory",
        _header,
    ),
    row(
        "missing-header",
        "cannot open source file",
        r"cannot open source file \"(?P<what>[^\"]{1,200})\"",
        _header,
    ),
    row("missing-header", "file not found", r"fatal error: '(?P<what>[^']{1,200})' file not found", _header),
    row(
        "missing-header",
        "Could NOT find Python",
        r"Could NOT find Python\w{0,10} .{0,200}Development",
        lambda found: "A file is missing. Python.h: " + _HEADERS["Python.h"] + "." + found.first,
    ),
    row(
        "missing-header",
        "is not set|Could NOT find CUDA|No CMAKE_CUDA_COMPILER|ailed to find nvcc|cannot find the CUDA",
        r"CUDA_HOME (?:environment variable )?is not set|(?<!-- )Could NOT find CUDA(?:Toolkit)?\b"
        r"|No CMAKE_CUDA_COMPILER could be found|Failed to find nvcc|cannot find the CUDA libraries",
        _toolkit,
    ),
    row("missing-header", "cannot find -l", r"cannot find -l(?P<what>[\w.+-]{1,100})", _library),
    row("missing-header", "Did you run 'git submodule", r"Did you run 'git submodule", _submodule),
    row(
        "upstream-protocol",
        "FLASHINFER_|does not match flashinfer",
        r"(?:requires? (?P<what>FLASHINFER_[A-Z_]{1,60})|version \([^)]{1,40}\) does not match flashinfer"
        r"|(?:missing|unset|set) FLASHINFER_JIT_CACHE[A-Z_]{0,60})",
        _protocol,
    ),
    row(
        "upstream-protocol",
        "Unavailable|Error: ",
        r"(?:BackendUnavailable|has no attribute '(?P<what>build_[a-z_]{1,40})')",
        _protocol,
    ),
)
