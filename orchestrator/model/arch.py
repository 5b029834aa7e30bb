"""The one place that reads arch lists; values and coverage are handed on from `archvalues`.

Every spelling in use is read: `12.1a` and `12.1a+PTX` (PyTorch), `121a`, `121a-real`, `121a-virtual`
(CMake), `sm_121a`, `sm121a`, `compute_121a` (nvcc); separated by `;`, `,` or space; in either case.
Standard library only: the audit imports this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import ArchError, near_miss
from orchestrator.model.archnotes import ArchNote, advise, best_for, check_device
from orchestrator.model.archvalues import (
    ARCHES,
    DEVICES,
    DROPPED_DEVICES,
    FAMILIES,
    Arch,
    Device,
    Entry,
    Suffix,
    image_names,
    in_family,
    jits_ptx,
    loads_sass,
    runs_on,
)
from orchestrator.model.archwords import HOW_TO_ASK, refuse_word

__all__ = [
    "ARCHES",
    "DEVICES",
    "DROPPED_DEVICES",
    "FAMILIES",
    "Arch",
    "ArchNote",
    "ArchRequest",
    "Device",
    "Entry",
    "Suffix",
    "best_for",
    "devices_served",
    "image_names",
    "in_family",
    "jits_ptx",
    "loads_sass",
    "merge",
    "normal_form",
    "parse_arch",
    "parse_request",
    "runs_on",
]

_TOKEN: Final = re.compile(
    r"""(?: (?P<major>[1-9][0-9]?) \. (?P<minor>[0-9])
          | (?P<kind>sm_?|compute_?)? (?P<number>[1-9][0-9]{1,2}) )
        (?P<suffix>[a-z]?)
        (?P<mode>-real|-virtual|\+ptx)?""",
    re.VERBOSE | re.ASCII,
)

_CODE: Final = {
    ("dotted", ""): (True, False),
    ("dotted", "+ptx"): (True, True),
    ("number", ""): (True, False),
    ("number", "+ptx"): (True, True),
    ("number", "-real"): (True, False),
    ("number", "-virtual"): (False, True),
    ("sm", ""): (True, False),
    ("sm", "+ptx"): (True, True),
    ("compute", ""): (False, True),
}
"""(form, mode) -> (SASS, PTX); what is missing mixes two notations and is refused."""

_SUFFIXES: Final[dict[str, Suffix]] = {"": "", "a": "a", "f": "f"}

_RENAMED: Final = {101: 110}
"""CUDA 13 renamed Thor (CUDA 13.0 release notes)."""


@dataclass(frozen=True, slots=True)
class ArchRequest:
    """What to compile for: `entries` sorted, one for each arch, never empty."""

    input: str
    entries: tuple[Entry, ...]
    notes: tuple[ArchNote, ...] = ()

    @property
    def normal(self) -> str:
        """The normal form, such as `12.0f;12.1a+PTX`; reading it again gives the same entries."""
        return normal_form(self.entries)


def normal_form(entries: tuple[Entry, ...]) -> str:
    """Spell entries as one list, such as `12.0f;12.1a+PTX`."""
    return ";".join(map(str, entries))


def merge(entries: list[Entry]) -> tuple[Entry, ...]:
    """Sort entries, and make one of those with the same arch."""
    return tuple(
        Entry(
            arch,
            sass=any(entry.sass for entry in entries if entry.arch == arch),
            ptx=any(entry.ptx for entry in entries if entry.arch == arch),
        )
        for arch in sorted({entry.arch for entry in entries})
    )


def parse_request(text: str, device: Device | None = None) -> ArchRequest:
    """Read an arch list.

    Args:
        text: the list, in any of the spellings above.
        device: the device to be served; None: each entry serves the one it names.

    Raises:
        ArchError: a token is no known arch, the list is empty or contradicts itself, or nothing in it
            runs on `device`. The message names the token, the hint says what to write.
    """
    tokens = [token for token in re.split(r"[;,\s]+", text) if token]
    if not tokens:
        raise ArchError("the arch list is empty", hint=f"name the arch, such as 12.1a; {HOW_TO_ASK}")
    notes: list[ArchNote] = []
    read: list[Entry] = []
    for token in tokens:
        entry = _read(token)
        if entry.arch.sm in _RENAMED:
            old, new = entry.arch, Arch.from_sm(_RENAMED[entry.arch.sm], entry.arch.suffix)
            notes.append(ArchNote("info", "renamed", f"{old} is called {new} since CUDA 13"))
            entry = Entry(new, sass=entry.sass, ptx=entry.ptx)
        read.append(_checked(token, entry))
    entries = merge(read)
    _refuse_twins(entries)
    if device is not None:
        check_device(entries, device)
    for entry in entries:
        notes.extend(advise(entry, device))
    return ArchRequest(text, entries, tuple(dict.fromkeys(notes)))


def parse_arch(text: str) -> Arch:
    """Read exactly one arch without PTX, as recipes name them: `9.0a`.

    Raises:
        ArchError: it is none, or more than that.
    """
    entries = parse_request(text).entries
    if len(entries) != 1 or entries[0].ptx:
        raise ArchError(f"{text!r} is not one arch", hint="write a single arch without PTX, such as 9.0a")
    return entries[0].arch


def devices_served(request: ArchRequest, device: Device | None = None) -> tuple[Device, ...]:
    """Return the devices to judge results for: `device` alone, else those that the entries name."""
    if device is not None:
        return (device,)
    return tuple(sorted({entry.arch.device for entry in request.entries}))


def _read(token: str) -> Entry:
    found = _TOKEN.fullmatch(token.lower())
    if found is None:
        refuse_word(token)
        guess = _squeezed(token)
        known = ", ".join(map(str, ARCHES))
        raise ArchError(
            f"{_shown(token)} is no arch",
            hint=f"did you mean {guess}?" if guess else f"write it like 12.1a; known: {known}",
        )
    form = "dotted" if found["major"] else (found["kind"] or "number").rstrip("_")
    sm = int(found["number"] or found["major"] + found["minor"])
    code = _CODE.get((form, found["mode"] or ""))
    suffix = _SUFFIXES.get(found["suffix"])
    if suffix is None:
        raise ArchError(
            f"{_shown(token)} has a suffix that does not exist: {found['suffix']}",
            hint="a suffix is a (one chip only) or f (family), as in 12.1a and 12.0f",
        )
    arch = Arch.from_sm(sm, suffix)
    if code is None:
        raise ArchError(
            f"{_shown(token)} mixes two notations",
            hint=f"write {Entry(arch)}, {Entry(arch, ptx=True)} or {Entry(arch, sass=False, ptx=True)}",
        )
    return Entry(arch, sass=code[0], ptx=code[1])


def _checked(token: str, entry: Entry) -> Entry:
    arch = entry.arch
    if arch in ARCHES:
        return entry
    if arch.device in DROPPED_DEVICES:
        raise ArchError(f"{_shown(token)}: CUDA 13 dropped {arch.device}", hint="the oldest arch is 7.5")
    siblings = [known for known in ARCHES if known.device == arch.device]
    if siblings:
        raise ArchError(
            f"{_shown(token)}: {arch.device} has no variant {arch.suffix}",
            hint=f"known: {', '.join(map(str, siblings))}",
        )
    known = [str(other) for other in ARCHES]
    near = [str(other) for other in ARCHES if other.major == arch.major and other.suffix == arch.suffix]
    guess = " or ".join(near) or near_miss(str(arch), known)
    listed = f"nvcc 13.0 knows {', '.join(known)}"
    raise ArchError(
        f"{_shown(token)}: there is no arch {arch}",
        hint=f"did you mean {guess}? {listed}" if guess else listed,
    )


def _refuse_twins(entries: tuple[Entry, ...]) -> None:
    compiled = {entry.arch for entry in entries if entry.sass}
    for arch in sorted(compiled):
        family = Arch(arch.major, arch.minor, "f")
        if not arch.suffix and family in compiled:
            raise ArchError(
                f"{arch} and {family} together are refused by nvcc: both yield sm_{arch.sm}",
                hint=f"keep {family} alone: it runs on the same devices",
            )


def _squeezed(token: str) -> Arch | None:
    """Guess what a malformed token was meant to be: `9.0.a` -> 9.0a."""
    plain = re.sub(r"[^0-9a-z]", "", token.lower()[-40:])
    found = re.search(r"(?<![0-9])([1-9][0-9]{1,2})([af]?)(?:real|virtual|ptx)?$", plain)
    if found is None:
        return None
    return next((arch for arch in ARCHES if arch.number == found[1] + found[2]), None)


def _shown(token: str, limit: int = 40) -> str:
    return repr(token if len(token) <= limit else token[:limit] + "…")
