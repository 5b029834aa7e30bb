"""A SPEC that names a package of the index: `vllm==0.33.0`, for a platform and a Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from orchestrator.errors import MismatchError, SourceError, SpecError
from orchestrator.report.events import Note, silent

if TYPE_CHECKING:
    from orchestrator.report.events import Emit
    from orchestrator.source.index import IndexConfig, IndexLink
    from orchestrator.store.home import Home

# Only what cannot be a path: a name, then nothing, or extras, or the start of a requirement.
_NAME = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<rest>(?:[\[=<>!~@;].*)?)", re.DOTALL
)
_FILE = re.compile(r".*\.(?:whl|zip|gz|so[\d.]*|a|o|cubin|fatbin)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IndexName:
    """One version of one project."""

    name: str
    """Normalized (PEP 503)."""
    version: str
    """Normalized (PEP 440), such as `2.14.1+cu130`."""

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def parse_index_name(spec: str) -> IndexName | None:
    """Return what a SPEC asks the index for, or None when it can only be meant as a path.

    Extras are passed over: they name more packages, and nothing of this one's wheel.

    Raises:
        SpecError: it looks like a package, and does not name one version of it.
    """
    found = _NAME.fullmatch(spec)
    if found is None or (not found["rest"] and _FILE.fullmatch(spec)):
        return None
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    try:
        asked = Requirement(spec)
        (pin,) = asked.specifier
        if pin.operator == "==" and asked.marker is None and asked.url is None:
            return IndexName(canonicalize_name(asked.name), str(Version(pin.version)))
    except (InvalidRequirement, InvalidVersion, ValueError):
        pass
    raise SpecError(
        f"it names no single version of {found['name']}"
        if found["rest"]
        else "there is no such file or folder, and for a package of the index its version is missing",
        where=spec,
        hint=f"write {found['name']}=={_version_in(found['rest'])}"
        + ("" if found["rest"] else ", or the path of a wheel, folder or file"),
    )


def _version_in(text: str) -> str:
    """Return the version that may be meant; the word VERSION without one."""
    from packaging.version import InvalidVersion, Version

    found = re.search(r"\d[\w.+!-]*", text.rpartition("]")[2])
    try:
        return str(Version(found.group().rstrip("."))) if found else "VERSION"
    except InvalidVersion:
        return "VERSION"


def fetch_index_wheel(
    name: IndexName, *, platform: str | None, python: str | None, home: Home, emit: Emit = silent
) -> Path:
    """Return the best wheel of a package, verified; downloaded unless it was kept before.

    All indexes that the user's pip looks at are asked. A wheel in a folder of theirs that says no sha256 is
    returned from where it lies.

    Args:
        name: what to look for.
        platform: see `choose_wheel`.
        python: see `choose_wheel`.
        home: where it is kept: `downloads/<sha256>/<file>`.
        emit: hears which wheel it is, and of progress.

    Raises:
        SpecError: there is no such project or version, or no wheel of it fits.
        SourceError: an index, or the file, could not be had.
        MismatchError: other bytes came than the index says.
        UsageError: no such platform or Python.
        NoSpaceError, StoreError: the state folder cannot be written.
    """
    from orchestrator.inspect.choose import choose_wheel
    from orchestrator.source.index import index_config
    from orchestrator.store.atomic import disk_errors
    from orchestrator.store.stamps import mark_used

    config = index_config()
    links, troubles = _offered(name, config)
    link = choose_wheel(links, name, platform=platform, python=python, troubles=troubles)
    taken_back = ", which its publisher took back" if link.yanked else ""
    emit(Note("warning" if link.yanked else "info", f"{name} is {link.file}{taken_back}"))
    parts = urlsplit(link.url)
    if link.sha256 is None and parts.scheme == "file":
        return Path(url2pathname(parts.path))
    with disk_errors(home.root):
        home.claim()
        path = _fetched(link, name, config, home, emit)
        mark_used(path.parent)
    return path


def _offered(name: IndexName, config: IndexConfig) -> tuple[list[IndexLink], list[str]]:
    """Return all files of a project, and which indexes could not be asked, and why."""
    from orchestrator.source.index import listed, redacted

    links: list[IndexLink] = []
    troubles: list[str] = []
    asked = (*config.index_urls, *config.find_links)
    for source in asked:
        try:
            links += listed(name.name, source, config=config)
        except SourceError as error:
            troubles.append(error.message)
    if links:
        return links, troubles
    places = f"asked: {', '.join(map(redacted, asked)) or 'none'}; `python -m pip config list` says why these"
    if troubles:
        raise SourceError("; ".join(troubles), where=str(name), hint=f"check the network; {places}")
    raise SpecError(f"no package index has a project {name.name!r}", where=str(name), hint=places)


def _fetched(link: IndexLink, name: IndexName, config: IndexConfig, home: Home, emit: Emit) -> Path:
    from orchestrator.model.lock import LockedFile
    from orchestrator.source.download import fetch_file, fetch_unhashed
    from orchestrator.source.index import redacted
    from orchestrator.source.measure import size_of

    version = link.version or name.version
    size = size_of(link.url, config)
    if link.sha256 is None:
        return fetch_unhashed(
            link.url, name=name.name, version=version, file=link.file, size=size, home=home, emit=emit
        )
    file = LockedFile(name=name.name, version=version, file=link.file, sha256=link.sha256, size=size)
    try:
        return fetch_file(file, home=home, emit=emit, url=link.url)
    except MismatchError as error:
        raise MismatchError(
            f"{link.file} is not the one that the index lists: its sha256 should be {link.sha256}",
            where=redacted(link.url),
            hint="nothing was kept; try again, or ask who runs the index",
        ) from error
