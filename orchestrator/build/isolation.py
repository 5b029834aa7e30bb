"""How the network is kept from commands of an `--offline` run: by a network namespace, else by variables.

A namespace holds whatever a build tries. Many systems forbid it to users (Ubuntu 24.04, most containers);
there, the tools that builds download with are told not to, and a proxy that does not answer stops the rest
that asks for one.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from orchestrator.build import nonet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Held = Literal["namespace", "variables", "open"]

_SCRIPT = Path(nonet.__file__)
_LIMIT_S = 20.0
_ONLY_LOOPBACK = """\
import sys
with open("/proc/self/net/dev") as file:
    sys.exit({line.split(":")[0].strip() for line in file if ":" in line} != {"lo"})
"""
_DEAD_PROXY = "http://127.0.0.1:9"
_TOLD = {"CARGO_NET_OFFLINE": "true", "GOPROXY": "off", "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
"""Tools that then say at once what they lack, instead of looking for a server."""
_STOPPED = {
    "GIT_ALLOW_PROTOCOL": "file",
    "npm_config_offline": "true",
    **{
        name: _DEAD_PROXY
        for kind in ("http", "https", "ftp", "all")
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
    },
    "no_proxy": "localhost,127.0.0.1,::1",
    "NO_PROXY": "localhost,127.0.0.1,::1",
}
_CMAKE = "-DFETCHCONTENT_FULLY_DISCONNECTED=ON"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What stands between the commands of a run and the network. None of it reaches a key.

    Attributes:
        held: `namespace`, `variables`, or `open`: nothing does.
        why: why there is no namespace; empty otherwise.
    """

    held: Held
    why: str = ""
    _prefix: tuple[str, ...] = ()
    _variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the argument list that runs a command so."""
        return [*self._prefix, *argv]

    def into(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return a command's environment with what it needs of this."""
        told = {**env, **self._variables}
        if self.held == "variables":
            told["CMAKE_ARGS"] = f"{env.get('CMAKE_ARGS', '')} {_CMAKE}".lstrip()
        return told

    @property
    def text(self) -> str:
        """What holds, for people: a line of the plan, and of the manifest."""
        if self.held == "namespace":
            return "no network: commands run in a network namespace of their own"
        if self.held == "variables":
            return f"no network by variables only, which a command can pass over; no namespace: {self.why}"
        return "network allowed"


OPEN = Isolation("open")


def isolation(*, offline: bool) -> Isolation:
    """Return what keeps the network from commands; what this system allows is tried once per process.

    Args:
        offline: whether anything should.
    """
    return _strictest() if offline else OPEN


@lru_cache(maxsize=1)
def _strictest() -> Isolation:
    python = getattr(sys, "_base_executable", None) or sys.executable
    prefix = (python, "-I", "-S", str(_SCRIPT))
    why = _fault(prefix, python)
    if not why:
        return Isolation("namespace", "", prefix, MappingProxyType(_TOLD))
    return Isolation("variables", why, (), MappingProxyType(_TOLD | _STOPPED))


def _fault(prefix: Sequence[str], python: str) -> str:
    """Return why commands cannot run behind this prefix without a network; empty when they can."""
    try:
        tried = subprocess.run(
            [*prefix, python, "-I", "-S", "-c", _ONLY_LOOPBACK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines()
    return said[-1] if said else "other interfaces than loopback are seen in it"
