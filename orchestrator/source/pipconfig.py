"""What the user's pip is configured for: indexes, link pages, certificates.

pip's own configuration holds (its files, `PIP_*` variables); it is read by asking pip. No address of
an index stands here: pip knows its default one.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from orchestrator.errors import SourceError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

# -P: a folder named `pip` where the user stands must not be taken for pip.
PIP = (sys.executable, "-P", "-m", "pip")
# In pip's order of precedence, weakest first; files are fetched with `pip download`.
_SECTIONS = ("global", "download", ":env:")
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """Where pip looks.

    Attributes:
        index_urls: indexes in the simple layout (PEP 503), the main one first; empty with `no-index`.
        find_links: folders, `file://` addresses or pages that list files.
        trusted_hosts: hosts that need no valid certificate.
        cert: a bundle of certificate authorities, if pip is told one.
        proxy: the proxy for all connections; None leaves it to the environment.
        timeout_s: seconds a connection may be silent.
    """

    index_urls: tuple[str, ...]
    find_links: tuple[str, ...]
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    proxy: str | None = None
    timeout_s: float = _TIMEOUT_S


@lru_cache(maxsize=1)
def index_config() -> IndexConfig:
    """Return where the pip of this interpreter looks (asked once per process).

    Raises:
        SourceError: pip does not answer, or its configuration cannot be read.
    """
    try:
        asked = subprocess.run(
            [*PIP, "config", "list"], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        last = (str(error.stderr).strip().splitlines() or ["it said nothing"])[-1]
        raise SourceError(
            f"pip's configuration cannot be read: {last}", hint="mend what `python -m pip config list` says"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"pip does not answer: {error}", hint="try `python -m pip --version`") from error
    return config_from(parse_config(asked.stdout), default_index=default_index())


def default_index() -> str:
    """Return the index that pip takes when it is told none."""
    # pip has no public way to say it, and an address of ours could differ from a distributor's pip.
    return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)


def parse_config(text: str) -> dict[str, str]:
    """Return the effective options, without sections, of what `pip config list` printed.

    Args:
        text: lines such as `global.index-url='https://…'` or `:env:.find-links='/wheels'`.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section, dot, option = key.rpartition(".")
        if not equals or not dot or section not in found:
            continue
        try:
            plain = str(ast.literal_eval(value))
        except (SyntaxError, ValueError):
            continue
        # pip ignores an option that is set to nothing.
        if plain:
            found[section][option.replace("_", "-")] = plain
    merged: dict[str, str] = {}
    for section in _SECTIONS:
        merged |= found[section]
    return merged


def config_from(options: Mapping[str, str], *, default_index: str) -> IndexConfig:
    """Return where pip looks under these options."""
    urls = (options.get("index-url", default_index), *options.get("extra-index-url", "").split())
    if options.get("no-index", "").lower() in _TRUE:
        urls = ()
    return IndexConfig(
        index_urls=tuple(dict.fromkeys(urls)),
        find_links=tuple(dict.fromkeys(options.get("find-links", "").split())),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        cert=options.get("cert"),
        proxy=options.get("proxy"),
        timeout_s=_seconds(options.get("default-timeout") or options.get("timeout")),
    )


def tls_context(config: IndexConfig, *, host: str | None = None) -> ssl.SSLContext:
    """Return how a server's certificate is checked: pip's bundle, else the system's, else the one in pip."""
    import ssl

    if host is not None and host in config.trusted_hosts:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    paths = ssl.get_default_verify_paths()
    bundle = config.cert
    if bundle is None and not any((paths.cafile, paths.capath)):
        bundle = str(importlib.import_module("pip._vendor.certifi").where())
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:
        raise SourceError(
            f"certificates cannot be read from {bundle}: {error}", hint="mend `cert` in pip's configuration"
        ) from error


def _seconds(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        return _TIMEOUT_S
    return value if value > 0 else _TIMEOUT_S
