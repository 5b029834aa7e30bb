"""Asks uv which versions go together, for any platform and Python; no project's code is run.

pip could only resolve for the machine it runs on; so uv resolves, and pip downloads what was resolved.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import LockError, SourceError, ToolMissingError
from orchestrator.model.lock import LockedFile
from orchestrator.source.measure import size_of
from orchestrator.source.pipconfig import default_index
from orchestrator.source.pylock import GLIBC_MINOR, chosen_wheels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from orchestrator.model.platform import Target
    from orchestrator.source.pipconfig import IndexConfig

_TIMEOUT_S = 900
_SHOWN_LINES = 12
_UNREACHED = ("Failed to fetch", "error sending request", "Failed to read", "network was disabled")
"""What uv says when an index, and not the versions, is the trouble."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def solve(
    requirements: Sequence[str],
    *,
    constraints: Iterable[str] = (),
    target: Target,
    config: IndexConfig,
    what: str,
    without: Collection[str] = (),
    glibc: int = GLIBC_MINOR,
) -> tuple[LockedFile, ...]:
    """Return wheels that satisfy the requirements and all that those require, sorted by name.

    Args:
        requirements: PEP 508.
        constraints: PEP 508 without extras; they hold for whatever is taken.
        target: the platform and Python to resolve for.
        config: the indexes of the user's pip.
        what: what is resolved, for messages.
        without: normalized names that take part, and are not returned.
        glibc: minor version of the oldest glibc that the wheels must run on.

    Raises:
        LockError: no versions go together, or a package has no fitting wheel; carries uv's reason.
        SourceError: an index cannot be asked for a size.
        ToolMissingError: uv is not installed.
    """
    if not requirements:
        return ()
    with tempfile.TemporaryDirectory(prefix="sparkbuild-lock-") as name:
        folder = Path(name)
        for file, texts in (("in.txt", requirements), ("pins.txt", constraints)):
            (folder / file).write_text("".join(f"{each}\n" for each in texts), encoding="utf-8")
        _run_uv([*_arguments(target, glibc), *_index_arguments(config)], folder, config=config, what=what)
        wheels = chosen_wheels(
            (folder / "pylock.toml").read_text(encoding="utf-8"), target, without=without, glibc=glibc
        )
    return tuple(
        sorted(
            LockedFile(
                name=wheel.name,
                version=wheel.version,
                file=wheel.file,
                sha256=wheel.sha256,
                size=size_of(wheel.url, config) if wheel.size is None else wheel.size,
            )
            for wheel in wheels.values()
        )
    )


def _arguments(target: Target, glibc: int) -> list[str]:
    machine = target.platform.partition("-")[2]
    return [
        *("pip", "compile", "in.txt", "--constraints", "pins.txt"),
        *("--format", "pylock.toml", "--output-file", "pylock.toml", "--no-header", "--quiet"),
        *("--python-platform", f"{machine}-manylinux_2_{glibc}", "--python-version", target.python),
        *("--python", sys.executable, "--no-python-downloads", "--only-binary", ":all:"),
    ]


def _index_arguments(config: IndexConfig) -> list[str]:
    """Return uv's options for the indexes of pip's configuration; nothing where that is pip's default."""
    if not config.index_urls:
        return ["--no-index", *_each("--find-links", config.find_links)]
    main, *others = config.index_urls
    arguments = [] if main == default_index() else ["--default-index", main]
    arguments += _each("--index", others)
    if others:
        # pip takes the best version of all indexes; uv would stop at the first index that has the name.
        arguments += ["--index-strategy", "unsafe-best-match"]
    arguments += _each("--allow-insecure-host", config.trusted_hosts)
    return arguments + _each("--find-links", config.find_links)


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _run_uv(arguments: list[str], folder: Path, *, config: IndexConfig, what: str) -> None:
    try:
        from uv import find_uv_bin

        program = find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise ToolMissingError(
            "uv is not installed", hint="`python -m pip install uv` in sparkbuild's environment"
        ) from error
    environment = dict(os.environ)
    if config.cert is not None:
        environment.setdefault("SSL_CERT_FILE", config.cert)
    if config.proxy is not None:
        environment.setdefault("ALL_PROXY", config.proxy)
    try:
        # In a folder of its own: uv would otherwise obey a project file where the user stands.
        finished = subprocess.run(
            [program, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LockError(f"{what} cannot be resolved: {error}", hint="try again") from error
    if finished.returncode != 0:
        raise _failure(finished.stderr, finished.returncode, what)


def _failure(said: str, code: int, what: str) -> LockError | SourceError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()][:_SHOWN_LINES]
    reason = _CREDENTIALS.sub("***@", "\n    ".join(lines)) or f"uv ended with {code}"
    message = f"{what} cannot be resolved:\n    {reason}"
    if any(words in said for words in _UNREACHED):
        return SourceError(message, hint="see whether the package indexes can be reached, and try again")
    return LockError(
        message,
        hint="change a pin or constraint of the stack, or a requirement of a recipe; what cannot be used "
        "beside the rest belongs into a stack of its own",
    )
