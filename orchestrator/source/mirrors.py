"""Mirrors: other places for what lies at an address, `--mirror FROM=TO`. What is fetched is verified alike.

FROM is how an address begins, or nothing for every address; TO is another beginning, or a folder: an
archive folder, in which repositories and files lie under their whole path, the rest of it, or their name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from orchestrator.source.pipconfig import IndexConfig

VARIABLE = "SPARKBUILD_MIRROR"
"""Mirrors in the environment, with spaces between them; those of `--mirror` go first."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """One of them: `begins` is how addresses begin, `to` an address or the absolute path of a folder."""

    begins: str
    to: str

    @property
    def is_folder(self) -> bool:
        """Whether `to` is a folder of this machine."""
        return self.to.startswith("/")


@dataclass(frozen=True, slots=True)
class Mirrors:
    """All of a run, in their order; the first that has something counts."""

    all: tuple[Mirror, ...] = ()

    def repository(self, url: str) -> str:
        """Return from where a repository is fetched: an address or a path; `url` itself without a mirror.

        A folder that does not hold it is passed over.
        """
        for mirror, rest in self._of(url):
            if not mirror.is_folder:
                return mirror.to + rest
            for path in _places(mirror, url, rest):
                for each in (path, path.with_name(f"{path.name}.git")):
                    if (each / "HEAD").is_file() or (each / ".git").exists():
                        return str(each)
        return url

    def file(self, url: str) -> str:
        """Return from where a file is downloaded, as `repository` does for repositories."""
        for mirror, rest in self._of(url):
            if not mirror.is_folder:
                return mirror.to + rest
            for path in _places(mirror, url, rest):
                if path.is_file():
                    return path.as_uri()
        return url

    def index(self, config: IndexConfig) -> IndexConfig:
        """Return where wheels and sdists are looked for: a folder is a place of links, asked beside the rest.

        An index whose address a mirror changes is asked at its new one.
        """
        urls = []
        for url in config.index_urls:
            changed = next((m.to + rest for m, rest in self._of(url) if not m.is_folder), url)
            urls.append(changed)
        folders = [mirror.to for mirror in self.all if mirror.is_folder and Path(mirror.to).is_dir()]
        links = tuple(dict.fromkeys((*folders, *config.find_links)))
        return replace(config, index_urls=tuple(dict.fromkeys(urls)), find_links=links)

    def _of(self, url: str) -> Iterator[tuple[Mirror, str]]:
        for mirror in self.all:
            if url.startswith(mirror.begins):
                yield mirror, url.removeprefix(mirror.begins)


NO_MIRRORS = Mirrors()


def parse_mirrors(given: Iterable[str]) -> Mirrors:
    """Return the mirrors of `--mirror` and then those of SPARKBUILD_MIRROR.

    Raises:
        UsageError: one is not FROM=TO, or its folder is not there.
    """
    named = [(text, "--mirror") for text in given]
    named += [(text, VARIABLE) for text in os.environ.get(VARIABLE, "").split()]
    return Mirrors(tuple(_parsed(text, origin) for text, origin in named))


def _parsed(text: str, origin: str) -> Mirror:
    begins, equals, to = text.partition("=")
    if not equals or not to.strip():
        raise UsageError(
            f"{origin} {text[:80]!r} is not FROM=TO",
            hint="such as https://github.com/=https://git.example.org/mirror/; or =/mnt/archive for all",
        )
    if to.startswith("file://"):
        to = unquote(urlsplit(to).path)
    if "://" in to:
        return Mirror(begins, to)
    folder = Path(to).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(
            f"{origin}: {folder} is no folder", hint="name a folder that is there, or an address"
        )
    return Mirror(begins, str(folder))


def _places(mirror: Mirror, url: str, rest: str) -> Iterator[Path]:
    """Yield where in a folder something may lie, the longest path first; never outside of it."""
    root = Path(mirror.to)
    whole = rest if mirror.begins else url.partition("://")[2] or url
    parts = [part for part in unquote(whole.partition("?")[0]).split("/") if part]
    if not parts or any(part in {".", ".."} or "\0" in part for part in parts):
        return
    yield root.joinpath(*parts)
    if len(parts) > 1:
        yield root / parts[-1]
