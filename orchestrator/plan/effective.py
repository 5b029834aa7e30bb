"""Effective arches: what is left of a request when a recipe names the arches it can be built for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import ArchError
from orchestrator.model.arch import Arch, ArchNote, Entry, in_family, merge, normal_form, parse_arch

if TYPE_CHECKING:
    from orchestrator.model.arch import ArchRequest


@dataclass(frozen=True, slots=True)
class Dropped:
    """An entry that the recipe cannot be built for, and why."""

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class Effective:
    """What a recipe is built for; only this reaches build, key and policy. No entries: not applicable."""

    entries: tuple[Entry, ...]
    notes: tuple[ArchNote, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def normal(self) -> str:
        """The normal form of what is left; empty when nothing is."""
        return normal_form(self.entries)

    @property
    def reason(self) -> str | None:
        """A sentence why nothing is left; None when something is."""
        return None if self.entries else "; ".join(dict.fromkeys(drop.reason for drop in self.dropped))


def effective(request: ArchRequest, applies: tuple[str, ...], *, where: str | None = None) -> Effective:
    """Intersect a request with the arches that a recipe can be built for.

    An entry that `applies` names stays; one whose device a family there covers becomes that family; one
    that only lacks the suffix is an error; any other drops out.

    Args:
        request: what was asked for.
        applies: arches such as `9.0a` and `10.0f`; empty means all.
        where: the recipe, for messages.

    Raises:
        ArchError: an entry lacks a suffix that `applies` has, or `applies` holds what is no arch.
    """
    if not applies:
        return Effective(request.entries)
    able = tuple(sorted({_able(text, where) for text in applies}))
    target = {entry.arch: _arch_for(entry.arch, able, where) for entry in request.entries}
    for asked, arch in target.items():
        # nvcc refuses 12.0 beside 12.0f; the family serves the same devices
        if arch and not arch.suffix and Arch(arch.major, arch.minor, "f") in target.values():
            target[asked] = Arch(arch.major, arch.minor, "f")
    kept: list[Entry] = []
    notes: list[ArchNote] = []
    dropped: list[Dropped] = []
    for entry in request.entries:
        arch = target[entry.arch]
        if arch is None:
            dropped.append(Dropped(entry, f"made for {', '.join(map(str, able))} only"))
            continue
        if arch != entry.arch:
            notes.append(ArchNote("info", "family", f"{entry.arch} is built as {arch}"))
        kept.append(Entry(arch, sass=entry.sass, ptx=entry.ptx))
    return Effective(merge(kept), tuple(notes), tuple(dropped))


def _able(text: str, where: str | None) -> Arch:
    try:
        return parse_arch(text)
    except ArchError as error:
        raise ArchError(error.message, where=where, hint=error.hint) from error


def _arch_for(arch: Arch, able: tuple[Arch, ...], where: str | None) -> Arch | None:
    if arch in able:
        return arch
    families = [family for family in able if family.suffix == "f" and in_family(family, arch.device)]
    if families:
        return families[-1]
    own = Arch(arch.major, arch.minor, "a")
    if not arch.suffix and own in able:
        raise ArchError(f"{arch} lacks the suffix that this needs", where=where, hint=f"write {own}")
    return None
