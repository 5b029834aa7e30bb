"""Which file of an index an audit reads, and what to say when none will do."""

from __future__ import annotations

import re
from bisect import bisect
from typing import TYPE_CHECKING

from orchestrator.errors import SpecError
from orchestrator.inspect.targets import python_version, supported_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.tags import Tag

    from orchestrator.inspect.indexed import IndexName
    from orchestrator.source.index import IndexLink

_SHOWN = 8
_NEAR = 2


def choose_wheel(
    links: Sequence[IndexLink],
    name: IndexName,
    *,
    platform: str | None,
    python: str | None,
    troubles: Sequence[str] = (),
) -> IndexLink:
    """Return the wheel that pip would install: not taken back, highest version, best tag, highest build.

    Args:
        links: all files of the project, on all indexes; the first of equals wins.
        name: the version; without a local part it stands for those with one too (PEP 440).
        platform: see `targets.platform_tags`; None is this machine.
        python: such as `3.12`; None is the version of this interpreter.
        troubles: why some index could not be asked; told when nothing is found.

    Raises:
        SpecError: nothing fits; the hint says what there is.
        UsageError: no such platform or Python.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.utils import parse_wheel_filename

    rank = {tag: at for at, tag in reversed(list(enumerate(supported_tags(platform, python))))}
    pin = SpecifierSet(f"=={name.version}")
    found = [link for link in links if link.version and pin.contains(link.version, prereleases=True)]
    if not found:
        raise _unknown(name, links, troubles)
    parsed = [(link, parse_wheel_filename(link.file)) for link in found if link.file.endswith(".whl")]
    fitting = [
        (link, version, min(rank[tag] for tag in tags if tag in rank), build)
        for link, (_, version, build, tags) in parsed
        if not rank.keys().isdisjoint(tags)
    ]
    running = ".".join(map(str, python_version(python)))
    allowed = [entry for entry in fitting if _allows(entry[0].requires_python, running)]
    if allowed:
        return max(allowed, key=lambda entry: (not entry[0].yanked, entry[1], -entry[2], entry[3]))[0]
    if not parsed:
        raise SpecError(
            "the index has no wheel of this version, only its source",
            where=str(name),
            hint="build it, then audit the wheel",
        )
    if fitting:
        raise SpecError(
            f"it does not serve Python {running}, but {fitting[0][0].requires_python}",
            where=str(name),
            hint="name a Python that it serves, such as --python 3.12",
        )
    raise _unfit(name, [tags for _, (*_, tags) in parsed], platform, python)


def _allows(requires: str | None, python: str) -> bool:
    """Tell whether a Python is served; what cannot be read forbids nothing, as with pip."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if requires is None:
        return True
    try:
        served = SpecifierSet(requires)
    except InvalidSpecifier:
        return True
    # Any patch release counts: both `>=3.10.2` and `<=3.10` serve 3.10.
    return served.contains(python) or served.contains(f"{python}.999")


def _unknown(name: IndexName, links: Iterable[IndexLink], troubles: Sequence[str]) -> SpecError:
    from packaging.version import Version

    wanted = Version(name.version)
    known = sorted({Version(link.version) for link in links if link.version})
    final = [version for version in known if not version.is_prerelease] or known
    at = bisect(final, wanted)
    near = [str(version) for version in final[max(0, at - _NEAR) : at + _NEAR]]
    return SpecError(
        "; ".join([f"the index has no version {name.version} of {name.name}", *troubles]),
        where=str(name),
        hint=f"the nearest are {', '.join(near)}; the latest is {final[-1]}",
    )


def _unfit(
    name: IndexName, offered: Sequence[frozenset[Tag]], platform: str | None, python: str | None
) -> SpecError:
    """Return the error that says for which platforms, or else for which Pythons, there are wheels."""
    platforms = {tag.platform for tag in supported_tags(platform, python)}
    running = ".".join(map(str, python_version(python)))
    here = [tags for tags in offered if any(tag.platform in platforms for tag in tags)]
    if here:
        pythons = sorted({f"{tag.interpreter}-{tag.abi}" for tags in here for tag in tags})
        minors = [found[1] for word in pythons if (found := re.match(r"cp3(\d+)-", word))]
        return SpecError(
            f"no wheel of it is for Python {running}: there are {_few(pythons)}",
            where=str(name),
            hint=f"name one of these: --python 3.{max(minors, key=int, default='12')}",
        )
    # One wheel may bear several names of one platform; the longest is the one with the C library's version.
    names = sorted({max((tag.platform for tag in tags), key=len) for tags in offered})
    linux = [platform for platform in names if "linux" in platform]
    wanted = f"--platform {platform}" if platform else "this machine"
    return SpecError(
        f"no wheel of it is for {wanted}: there are {_few(names)}",
        where=str(name),
        hint=f"name one of these: --platform {linux[0]}" if linux else "sparkbuild reads wheels for Linux",
    )


def _few(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
