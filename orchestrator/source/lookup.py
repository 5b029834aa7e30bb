"""Sources as a lock holds them: what the package index, an address or a repository shows of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import LockError
from orchestrator.model.lock import LockedFile, LockedSource
from orchestrator.model.lockinputs import locked_sources
from orchestrator.report.events import Progress, silent
from orchestrator.source.index import listed
from orchestrator.source.measure import digest_of, size_of
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.refs import lock_git

if TYPE_CHECKING:
    from orchestrator.model.lock import Lock
    from orchestrator.model.platform import Target
    from orchestrator.model.recipe import Recipe, Source
    from orchestrator.model.stack import Component
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.source.pipconfig import IndexConfig
    from orchestrator.store.home import Home

_SDIST_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Where sources are looked up, for one lock.

    Attributes:
        target: the platform and Python of the lock.
        config: the package indexes.
        home: where repositories are mirrored.
        emit: hears of progress, and warnings about commits that could not be read.
        mirrors: other places to fetch from.
        former: the lock that is replaced.
    """

    target: Target
    config: IndexConfig
    home: Home
    emit: Emit = silent
    mirrors: Mirrors = NO_MIRRORS
    former: Lock | None = None

    def say(self, text: str) -> None:
        """Tell of progress."""
        self.emit(Progress("lock", f"{self.target.tag}: {text}"))

    def sources(self, recipe: Recipe, component: Component) -> dict[str, LockedSource]:
        """Return what the lock holds of a component's sources, by name.

        Args:
            recipe: with the stack's own sources in it, see `recipe_in`.
            component: its version and commits.

        Raises:
            RecipeError: the stack names no commit.
            LockError: an index has no such sdist, or no sha256 of it.
            SourceError: something cannot be had.
        """
        wanted = locked_sources(recipe, version=component.version, platform=self.target.platform)
        return {
            name: self._source(recipe, name, source, component) for name, source in sorted(wanted.items())
        }

    def _source(self, recipe: Recipe, name: str, source: Source, component: Component) -> LockedSource:
        self.say(f"looking up source {name} of {recipe.name}")
        if source.sdist is not None:
            return LockedSource(file=sdist_file(source.sdist, component.version, self.config))
        if source.archive is not None:
            url = source.archive.replace("{version}", component.version)
            size, sha256 = digest_of(self.mirrors.file(url), self.config)
            file = url.partition("?")[0].rpartition("/")[2]
            return LockedSource(
                file=LockedFile(
                    name=recipe.name, version=component.version, file=file, sha256=sha256, size=size
                )
            )
        if source.git is None:
            return LockedSource()
        before = self.former.components.get(recipe.name) if self.former else None
        return lock_git(
            recipe.name,
            name,
            source,
            component,
            home=self.home,
            former=before.sources.get(name) if before else None,
            emit=self.emit,
            mirrors=self.mirrors,
        )


def sdist_file(name: str, version: str, config: IndexConfig) -> LockedFile:
    """Return the sdist that the indexes list. The first index that has it counts, as in a download."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    unhashed = False
    for place in (*config.index_urls, *config.find_links):
        for link in listed(name, place, config=config):
            if not link.file.endswith(_SDIST_SUFFIXES) or link.version is None:
                continue
            if Version(link.version) != Version(version):
                continue
            if link.sha256 is None:
                unhashed = True
                continue
            return LockedFile(
                name=canonicalize_name(name),
                version=version,
                file=link.file,
                sha256=link.sha256,
                size=size_of(link.url, config),
            )
    raise LockError(
        f"the sdist of {name} {version} has no sha256"
        if unhashed
        else f"there is no sdist of {name} {version}",
        hint="see which versions the index has, and change the pin in the stack",
    )
