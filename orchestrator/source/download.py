"""Downloads one file from an address: resumed, retried, verified, then moved to its place.

sdists and archives come this way. pip would run a project's own code to "download" its sdist.
"""

from __future__ import annotations

import base64
import hashlib
import netrc
import time
import urllib.error
import urllib.request
import urllib.response
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from orchestrator.errors import MismatchError, OfflineError, SourceError
from orchestrator.report.events import Progress, silent
from orchestrator.source import disk, index, pipconfig
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.store.atomic import remove_tree, sha256_file

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home

RETRY_WAITS_S = (1.0, 3.0, 9.0)
_BLOCK = 1 << 20
_PARTIAL, _TOO_MANY, _TIMED_OUT, _BAD_RANGE, _SERVER = 206, 429, 408, 416, 500


def fetch_file(
    file: LockedFile,
    *,
    home: Home,
    offline: bool = False,
    emit: Emit = silent,
    url: str | None = None,
    mirrors: Mirrors = NO_MIRRORS,
) -> Path:
    """Return a verified file, downloaded unless it is there; one that is there is hashed again.

    Args:
        file: name, size and sha256 as locked.
        home: where it is kept: `downloads/<sha256>/<file>`.
        offline: no network.
        emit: hears of progress, and a warning about a kept file that was damaged since.
        url: where it lies (http, https or file); None: the package index is asked.
        mirrors: other places to download from.

    Raises:
        OfflineError: it is not there or damaged, and the network is not allowed.
        MismatchError: other bytes came; nothing is kept.
        SourceError: it could not be had.
        NoSpaceError: the disk is, or would get, full.
    """
    path, fault = disk.kept(home, file)
    if path is not None:
        return path
    if offline:
        raise OfflineError(
            f"{file.file} is {f'damaged ({fault})' if fault else 'not here'}, and the network is not allowed",
            where=str(disk.place_of(home, file)) if fault else None,
            hint="run `sparkbuild fetch` once with the network",
        )
    from filelock import FileLock

    home.locks.mkdir(parents=True, exist_ok=True)
    part = home.downloads / ".parts" / file.sha256
    with FileLock(home.locks / f"download-{file.sha256}.lock"):
        path, fault = disk.kept(home, file)
        if path is not None:
            return path
        if fault:
            disk.discard(home, file, fault, emit)
        disk.only_plain(part)
        url = mirrors.file(url or index.find(file, config=mirrors.index(index.index_config())))
        emit(Progress(file.name, f"downloading {file.file} ({file.size / 2**20:.1f} MiB)"))
        part.parent.mkdir(parents=True, exist_ok=True)
        disk.need_space(home.downloads, file.size - (part.stat().st_size if part.exists() else 0))
        with disk.telling_full(home.downloads):
            return disk.keep(_verified(url, part, file), home, file)


def fetch_unhashed(
    url: str, *, name: str, version: str, file: str, size: int, home: Home, emit: Emit = silent
) -> Path:
    """Download a file whose sha256 nobody says, and keep it as it came, under the sha256 that it has.

    It is downloaded each time: nothing tells that what was kept is still what lies there.

    Args:
        url: where it lies.
        name: distribution, for who listens.
        version: of it.
        file: its name.
        size: bytes, as its server says.
        home: where it is kept: `downloads/<sha256>/<file>`.
        emit: hears of progress.

    Raises:
        MismatchError: more or fewer bytes came; nothing is kept.
        SourceError: it could not be had.
        NoSpaceError: the disk is, or would get, full.
    """
    from filelock import FileLock

    from orchestrator.model.lock import LockedFile

    mark = hashlib.sha256(url.encode()).hexdigest()
    home.locks.mkdir(parents=True, exist_ok=True)
    part = home.downloads / ".parts" / mark
    with FileLock(home.locks / f"download-{mark}.lock"):
        remove_tree(part)  # an earlier run's start could be that of another file
        emit(Progress(name, f"downloading {file} ({size / 2**20:.1f} MiB)"))
        part.parent.mkdir(parents=True, exist_ok=True)
        disk.need_space(home.downloads, size)
        with disk.telling_full(home.downloads):
            _filled(url, part, size=size)
            if (got := part.stat().st_size) != size:
                part.unlink()
                raise MismatchError(
                    f"{file} should have {size} bytes, and {got} came",
                    where=index.redacted(url),
                    hint="nothing was kept; try again, or look at the address",
                )
            came = LockedFile(name=name, version=version, file=file, sha256=sha256_file(part), size=size)
            path, fault = disk.kept(home, came)
            if path is not None:
                part.unlink()
                return path
            if fault:
                disk.discard(home, came, fault, emit)
            return disk.keep(part, home, came)


def _verified(url: str, part: Path, file: LockedFile) -> Path:
    """Fill `part`, verified; bytes left by an earlier run that prove wrong are fetched again."""
    resumed = part.exists()
    _filled(url, part, size=file.size)
    try:
        disk.verify(part, file, came_from=index.redacted(url))
    except MismatchError:
        part.unlink()
        if not resumed:
            raise
        return _verified(url, part, file)
    return part


def _filled(url: str, part: Path, *, size: int) -> None:
    """Try until `part` has all that the server gives, resuming where the last try stopped."""
    for wait_s in (*RETRY_WAITS_S, None):
        try:
            _transfer(url, part, size=size)
        except urllib.error.HTTPError as error:
            with error:
                reason = f"the server said {error.code} {error.reason}"
            lasting = error.code < _SERVER and error.code not in {_TIMED_OUT, _TOO_MANY}
            if error.code == _BAD_RANGE and part.exists():
                part.unlink()
                lasting = False
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            # A file:// link that is not there will not come by waiting.
            lasting = urlsplit(url).scheme == "file"
        else:
            return
        if lasting or wait_s is None:
            raise SourceError(
                f"could not be downloaded: {reason}",
                where=index.redacted(url),
                hint="check the network (proxy, certificates) and run it again: it goes on where it stopped",
            )
        time.sleep(wait_s)


def _transfer(url: str, part: Path, *, size: int) -> None:
    """One try. Appends if the server agrees to go on; a connection that ends early raises."""
    begun = part.stat().st_size if part.exists() else 0
    if begun >= size > 0:
        begun = 0
    with _opened(url, begun) as answer:
        goes_on = answer.status == _PARTIAL and _starts_at(answer.headers.get("Content-Range"), begun)
        told = answer.headers.get("Content-Length")
        total = int(told) + (begun if goes_on else 0) if told and told.isdigit() else None
        with part.open("ab" if goes_on else "wb") as sink:
            # One block past the promised size is enough to know that it is another file.
            while sink.tell() <= size and (block := answer.read(_BLOCK)):
                sink.write(block)
            got = sink.tell()
    if total is not None and got < min(total, size):
        raise ConnectionError(f"the connection ended after {got} of {total} bytes")


def _opened(url: str, begun: int) -> urllib.response.addinfourl:
    """Open an address as pip would: its certificates, proxy, timeout and credentials."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https", "file"}:
        raise SourceError(
            f"no address to download from: {parts.scheme or 'no scheme'}",
            where=index.redacted(url),
            hint="http, https and file addresses can be downloaded",
        )
    config = index.index_config()
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    request = urllib.request.Request(  # noqa: S310 - the scheme was judged above
        bare, headers={"User-Agent": "sparkbuild", "Accept-Encoding": "identity"}
    )
    if begun:
        request.add_header("Range", f"bytes={begun}-")
    if (credentials := _credentials(url, config)) is not None:
        encoded = base64.b64encode(":".join(credentials).encode()).decode()
        # Not sent along when the server redirects to another one.
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    proxy = urllib.request.ProxyHandler(
        {"http": config.proxy, "https": config.proxy} if config.proxy else None
    )
    tls = urllib.request.HTTPSHandler(context=pipconfig.tls_context(config, host=parts.hostname))
    opened: urllib.response.addinfourl = urllib.request.build_opener(proxy, tls).open(
        request, timeout=config.timeout_s
    )
    return opened


def _credentials(url: str, config: pipconfig.IndexConfig) -> tuple[str, str] | None:
    """Return user and password: in the address, in that of an index on the same host, or in netrc."""
    parts = urlsplit(url)
    if parts.hostname is None:
        return None
    for known in (parts, *map(urlsplit, config.index_urls)):
        if known.hostname == parts.hostname and known.username:
            return unquote(known.username), unquote(known.password or "")
    try:
        found = netrc.netrc().authenticators(parts.hostname)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


def _starts_at(content_range: str | None, begun: int) -> bool:
    return content_range is not None and content_range.startswith(f"bytes {begun}-")
