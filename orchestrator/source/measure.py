"""How large a file at an address is, and what its sha256: what a lock needs and an index may not say."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import InterruptedRunError, SourceError
from orchestrator.source.index import redacted
from orchestrator.source.pipconfig import tls_context

if TYPE_CHECKING:
    from orchestrator.source.pipconfig import IndexConfig

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Measured:
    """Size in bytes; sha256 only where all bytes were read."""

    size: int
    sha256: str | None


def size_of(url: str, config: IndexConfig) -> int:
    """Return the size in bytes of the file at an address, reading it only if its server does not say.

    Raises:
        SourceError: it cannot be had.
    """
    return _measured(url, config, whole=False).size


def digest_of(url: str, config: IndexConfig) -> tuple[int, str]:
    """Return size and sha256 of the file at an address, from all its bytes.

    Raises:
        SourceError: it cannot be had.
    """
    measured = _measured(url, config, whole=True)
    return measured.size, measured.sha256 or ""


def _measured(url: str, config: IndexConfig, *, whole: bool) -> Measured:
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    where, hint = redacted(url), "look whether the address is right, and try again"
    # The server's own count must be that of the file, not of a compressed transfer.
    headers = {"User-Agent": "sparkbuild", "Accept-Encoding": "identity"}
    try:
        with PyPIClient(
            trusted_hosts=config.trusted_hosts,
            verify=tls_context(config),
            timeout=config.timeout_s,
            proxy=config.proxy,
            follow_redirects=True,
        ) as client:
            client.auth = MultiDomainBasicAuth(prompting=False, index_urls=list(config.index_urls))
            with client.get_stream(url, headers=headers) as answer:
                answer.raise_for_status()
                told = answer.headers.get("content-length")
                if told is not None and not whole:
                    return Measured(int(told), None)
                seen, size = hashlib.sha256(), 0
                for block in answer.iter_bytes(_BLOCK):
                    seen.update(block)
                    size += len(block)
    except InterruptedRunError:
        raise
    # Which exceptions come depends on unearth's HTTP client, which has changed before.
    except Exception as error:
        raise SourceError(
            f"cannot be had: {type(error).__name__}: {error}", where=where, hint=hint
        ) from error
    if told is not None and size != int(told):
        raise SourceError(f"the connection ended after {size} of {told} bytes", where=where, hint=hint)
    return Measured(size, seen.hexdigest())
