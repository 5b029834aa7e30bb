"""Where a locked file lies on the package indexes that the user's pip looks at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

from orchestrator.errors import InterruptedRunError, SourceError
from orchestrator.source.pipconfig import IndexConfig, index_config, tls_context

if TYPE_CHECKING:
    from collections.abc import Iterator
    from logging import LogRecord

    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import Fetcher, PyPIClient

    from orchestrator.model.lock import LockedFile

__all__ = ["IndexConfig", "IndexLink", "find", "index_config", "listed", "redacted"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
# Other refusals (403, 404) are how an index says that it does not have a project.
_UNASKED = frozenset({401, 407, 408, 429})
_SERVER = 500


@dataclass(frozen=True, slots=True)
class IndexLink:
    """One file that an index lists; `sha256` is None when the index does not say it."""

    url: str
    file: str
    version: str | None
    sha256: str | None
    yanked: bool = False
    """Its publisher took it back; it can still be had."""
    requires_python: str | None = None
    """The Pythons that it is for, such as `>=3.10,<3.15`; None where the index does not say it."""


def find(file: LockedFile, *, config: IndexConfig | None = None) -> str:
    """Return the address of a locked file: the first of its name, version and (if said) sha256.

    Raises:
        SourceError: no index has the file; says which were asked, and what else they had.
    """
    config = config or index_config()
    sources = (*config.index_urls, *config.find_links)
    reasons: list[str] = []
    for source in sources:
        try:
            for link in listed(file.name, source, config=config):
                if link.file != file.file:
                    continue
                if link.sha256 in {None, file.sha256}:
                    return link.url
                reasons.append(f"{redacted(source)} has one with sha256 {link.sha256}")
        except SourceError as error:
            reasons.append(error.message)
    raise SourceError(
        "; ".join([f"no package index has {file.file} with sha256 {file.sha256}", *reasons]),
        where=f"{file.name} {file.version}",
        hint=f"asked: {', '.join(map(redacted, sources)) or 'none'}; `python -m pip config list` says why "
        "these. Offline? Put the file into a folder that pip's find-links names",
    )


def listed(name: str, source: str, *, config: IndexConfig) -> Iterator[IndexLink]:
    """Yield the files of a distribution that one index, page or folder lists, best match first.

    Args:
        name: distribution name.
        source: one of the config's `index_urls` or `find_links`.
        config: says which of the two it is, and how to connect.

    Raises:
        SourceError: the source cannot be asked.
    """
    import logging

    from unearth import PackageFinder

    logging.getLogger("unearth.collector").addFilter(_worth_telling)
    is_index = source in config.index_urls
    if "://" not in source:
        if not Path(source).expanduser().exists():
            return
        source = str(Path(source).expanduser())
    with _client(config) as client:
        client.auth = _auth(config)
        finder = PackageFinder(
            cast("Fetcher", client),  # its declared type is wider than the protocol it fills
            index_urls=(source,) if is_index else (),
            find_links=() if is_index else (source,),
            ignore_compatibility=True,
        )
        try:
            packages = list(finder.find_all_packages(name, allow_yanked=True))
        except InterruptedRunError:
            raise
        # unearth lets through whatever its HTTP client raises, and which client that is has changed.
        except Exception as error:
            raise SourceError(
                f"{redacted(source)} cannot be asked: {type(error).__name__}: {error}"
            ) from error
    for package in packages:
        hashes = package.link.hash_option or {}
        sha256 = next(iter(hashes.get("sha256", ())), "").lower()
        yield IndexLink(
            url=package.link.url_without_fragment,
            file=package.link.filename,
            version=package.version,
            sha256=sha256 if _SHA256.fullmatch(sha256) else None,
            yanked=package.link.is_yanked,
            requires_python=package.link.requires_python or None,
        )


def redacted(url: str) -> str:
    """Return an address without the name and password in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))


def _worth_telling(record: LogRecord) -> bool:
    """Tell whether to pass on a warning of unearth's: not that one of several indexes lacks a project."""
    return "(404)" not in record.getMessage()


def _client(config: IndexConfig) -> PyPIClient:
    """Return an HTTP client that raises when a server does not answer what it was asked.

    unearth takes any refusal for an empty page, and an index in trouble must not look like one without files.
    """
    from unearth.fetchers import PyPIClient

    class Client(PyPIClient):
        def get(self, *positional: Any, **named: Any) -> Any:
            answer = super().get(*positional, **named)
            if answer.status_code in _UNASKED or answer.status_code >= _SERVER:
                raise ConnectionError(f"the server said {answer.status_code} {answer.reason_phrase}")
            return answer

    return Client(
        trusted_hosts=config.trusted_hosts,
        verify=tls_context(config),
        timeout=config.timeout_s,
        proxy=config.proxy,
    )


def _auth(config: IndexConfig) -> MultiDomainBasicAuth:
    from unearth.auth import MultiDomainBasicAuth

    return MultiDomainBasicAuth(prompting=False, index_urls=list(config.index_urls))
