"""What went wrong, by the table of rules: the first cause first.

The order, and what is left out:

1. Faults stand in the order in which their first lines stand in the log. Lines that say the same are one
   fault with a count, and its evidence is the first line that is more than an echo (`FAILED:`, make's
   `Error 137`).
2. An echo is a fault only when its exit code says what happened, or when no line says more.
3. An error of no known class is left out when a fault stands before it, or when it only begins the message
   that a known fault ends; a compiler's own message is kept, for it is a cause of its own.
4. What another fault brings about (`EXPLAINS`) is left out after it.
5. A kernel that is not built stops nothing: it comes after what stops a build, but before what it explains.
6. An exit code that tells of a kill or a crash without a line that does so comes after the known faults, and
   before the unknown.
7. What a command that ended well has written is no fault, except for what lets a build go on.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Final

from orchestrator.machine.faults import Diagnosis, Fault, FaultClass
from orchestrator.machine.listing import Listing
from orchestrator.machine.loglines import End, Hit, LogLines
from orchestrator.machine.rules import Found
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEVICE: Final = Device(12, 1)
"""Whom pasted output is judged for when nobody says: a DGX Spark."""
NO_FAULT: Final = "no fault found"

EXPLAINS: Final[Mapping[FaultClass, frozenset[FaultClass]]] = {
    "network": frozenset({"bad-pin", "network"}),
    "disk-full": frozenset({"unknown", "compiler-crash"}),
    "arch-corruption": frozenset({"arch-dropped"}),
    "timeout": frozenset({"oom"}),
    "oom": frozenset({"compiler-crash"}),
}
"""Class -> classes that come of it, and are left out after it."""

_LED_BY_DROPPED: Final = frozenset({"own-symbol", "wrong-arch-image", "runtime-guard"})
_MESSAGE_LINES: Final = 12
"""So many lines a message may have from its head to the line that says what is wrong."""
_MOST_NAMES: Final = 40
_SURE_DEATHS: Final = frozenset({137, -9, 247})
_BY_OTHERS: Final = re.compile(r"\b143\b|SIGTERM|Terminated")
"""Such a death can also come of a build system that stops its jobs."""


@dataclass(slots=True)
class _Group:
    """One fault in the making."""

    hit: Hit
    first: int
    count: int = 1
    names: dict[str, None] = field(default_factory=dict)

    @property
    def fault(self) -> FaultClass:
        return self.hit.rule.fault

    @property
    def echo(self) -> bool:
        return self.hit.rule.role == "echo"

    @property
    def known(self) -> bool:
        return self.fault != "unknown"

    @property
    def diagnostic(self) -> bool:
        from orchestrator.machine.rules_general import diagnostic

        return self.hit.rule.advice is diagnostic

    def take(self, hit: Hit) -> None:
        if self.echo and hit.rule.role != "echo":
            self.hit, self.count = hit, 1
        elif self.echo or hit.rule.role != "echo":
            self.count += 1


class _Collector:
    """Gathers hits; holds no more than the table has rows."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.groups: dict[object, _Group] = {}
        self.notes: dict[str, list[Hit]] = {}
        self.ended: int | None = None

    def take(self, hit: Hit | End) -> None:
        if isinstance(hit, End):
            self.ended = hit.returncode
            if hit.returncode == 0:
                self.keep_silent()
            return
        self.ended = None  # of the command before
        rule = hit.rule
        if rule.role == "note":
            kept = self.notes.setdefault(rule.name, [])
            if len(kept) < _MOST_NAMES:
                kept.append(hit)
            return
        if rule.concerns is not None and not rule.concerns(hit.what, self.device):
            return
        key = (rule.fault, rule.advice, rule.role == "echo" and rule.fault == "unknown")
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(hit, hit.number)
        else:
            group.take(hit)
        if hit.what and len(group.names) < _MOST_NAMES:
            group.names.setdefault(hit.what.strip())

    def keep_silent(self) -> None:
        self.groups = {key: group for key, group in self.groups.items() if group.hit.rule.role == "silent"}


def diagnose_log(
    log: Path, *, start: int = 0, returncode: int | None = None, device: Device = DEVICE
) -> Diagnosis:
    """Say what went wrong in a log.

    Args:
        log: the file.
        start: lines before this byte are passed over.
        returncode: exit code of the command, or minus the number of a signal; None: what the log's foot says.
        device: the device that listings and arches are judged for.

    Raises:
        OSError: it cannot be read.
    """
    with log.open("rb") as stream:
        return diagnose(stream, start=start, returncode=returncode, device=device)


def diagnose(
    stream: IO[bytes], *, start: int = 0, returncode: int | None = None, device: Device = DEVICE
) -> Diagnosis:
    """Say what went wrong in output that is read from a stream; otherwise as `diagnose_log`."""
    listing = Listing()
    lines = LogLines(stream, start=start, listing=listing)
    collector = _Collector(device)
    for hit in lines.hits():
        collector.take(hit)
    code = collector.ended if returncode is None else returncode
    if code == 0:
        collector.keep_silent()
    _judge_kept_arches(collector)
    ordered = _ordered(list(collector.groups.values()))
    faults = [_made(group, collector) for group in ordered]
    if code:
        faults = _with_code(faults, code, lines.last_line, device)
    summary = _warning_line(collector) or _arches_line(collector)
    if listing:
        fault, told = listing.judge(device)
        summary = told
        if fault is not None and not faults:
            faults = [fault]
    if faults and not (listing and faults[0].fault_class == "wrong-arch-image"):
        summary = (
            faults[0].fault_class if len(faults) == 1 else f"{len(faults)} faults, the first cause first"
        )
    return Diagnosis(tuple(faults), summary, lines.last_line, blank=lines.blank)


def _ordered(groups: list[_Group]) -> list[_Group]:
    """Return what remains, first cause first: rules 1 to 5 of the module."""
    groups = sorted(groups, key=lambda group: group.first)
    echoes = [group for group in groups if group.echo and not group.known]
    groups = [group for group in groups if group not in echoes]
    if any(not group.echo and group.hit.rule.role != "silent" for group in groups):
        groups = [group for group in groups if not (group.echo and _BY_OTHERS.search(group.hit.text))]
    kept: list[_Group] = []
    for group in groups:
        before = [other for other in kept if other.fault != "arch-dropped"]
        if any(group.fault in EXPLAINS.get(other.fault, ()) for other in kept):
            continue
        if not group.known and not group.diagnostic and (before or _begins(group, groups)):
            continue
        kept.append(group)
    late = [group for group in kept if group.fault == "arch-dropped"]
    kept = [group for group in kept if group not in late]
    at = next((n for n, group in enumerate(kept) if group.fault in _LED_BY_DROPPED), len(kept))
    kept[at:at] = late
    return kept or echoes[:1]


def _begins(group: _Group, groups: list[_Group]) -> bool:
    """Say whether an unknown error only begins the message that a known fault ends."""
    return any(
        other.known and other is not group and 0 <= other.first - group.first <= _MESSAGE_LINES
        for other in groups
    )


def _made(group: _Group, collector: _Collector) -> Fault:
    rule, hit = group.hit.rule, group.hit
    found = Found(
        text=hit.text,
        names=tuple(group.names),
        notes={name: tuple(note.what for note in notes) for name, notes in collector.notes.items()},
        device=collector.device,
    )
    return Fault(rule.fault, hit.text, rule.advice(found), rule.retry, hit.number, group.count)


def _with_code(faults: list[Fault], code: int, last_line: str | None, device: Device) -> list[Fault]:
    """Add what an exit code says when no line says it: rule 6 of the module."""
    from orchestrator.machine import rules_general, rules_machine

    known = [fault for fault in faults if fault.fault_class != "unknown"]
    stopped = [fault for fault in known if fault.fault_class not in ("arch-dropped", "arch-corruption")]
    rest = [fault for fault in faults if fault.fault_class == "unknown"]
    text = f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"
    found = Found(text=text, names=(), notes={}, device=device)
    classes = {fault.fault_class for fault in faults}
    sure = code in _SURE_DEATHS or code in rules_machine.CRASH_CODES
    if code in rules_machine.MEMORY_CODES and "oom" not in classes and (sure or not (stopped or rest)):
        return [*known, Fault("oom", text, rules_machine.memory(found), retry=True), *rest]
    if code in rules_machine.CRASH_CODES and not classes & {"compiler-crash", "oom", "disk-full"}:
        return [*known, Fault("compiler-crash", text, rules_machine.crash(found), retry=True), *rest]
    if stopped or rest:
        return faults
    if code == rules_machine.TIME_CODE:
        return [Fault("timeout", text, rules_machine.timed_out(found), retry=False), *known]
    return [Fault("unknown", last_line or text, rules_general.unknown(found), retry=False), *known]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _arches(text: str) -> tuple[str, ...]:
    from orchestrator.errors import ArchError
    from orchestrator.model.arch import parse_request

    try:
        return tuple(str(entry.arch) for entry in parse_request(text).entries)
    except ArchError:
        return ()


def _loads(names: tuple[str, ...], device: Device) -> str | None:
    """Return how the best of these arches loads on a device; None when none does."""
    from orchestrator.model.arch import loads_sass, parse_arch

    ways = {loads_sass(parse_arch(name), device) for name in names}
    return next((way for way in ("exact", "compatible") if way in ways), None)


def _judge_kept_arches(collector: _Collector) -> None:
    """Find a configure step that leaves nothing for the device of all that was asked for."""
    from orchestrator.machine.rules_device import dropped

    for hit in collector.notes.get("kept", ())[:1]:
        if _loads(_arches(hit.what), collector.device) is None:
            rule = replace(hit.rule, fault="arch-dropped", advice=dropped, role="silent")
            collector.take(Hit(hit.number, hit.text, rule))


def _warning_line(collector: _Collector) -> str | None:
    """Tell when torch warns of a GPU that is newer than its range, and its code loads there all the same."""
    notes = collector.notes
    for hit, limits in zip(notes.get("capability", ()), notes.get("range", ()), strict=False):
        device, newest = Device.parse(hit.what), limits.what.rpartition("(")[2]
        way = _loads((newest,), device)
        if way is not None:
            sm = newest.replace(".", "")
            return (
                f"{NO_FAULT}: torch's warning about compute capability {device} is harmless, as its code for"
                f" sm_{sm} runs on {device} ({'exact' if way == 'exact' else 'compatible, not exact'})"
            )
    return None


def _arches_line(collector: _Collector) -> str:
    """Tell when the configure step made another arch of the one that was asked for, and that one loads."""
    asked = {arch for hit in collector.notes.get("asked", ()) for arch in _arches(hit.what)}
    used = [*collector.notes.get("kept", ()), *collector.notes.get("built", ())]
    now = tuple(dict.fromkeys(arch for hit in used for arch in _arches(hit.what)))
    if not asked or not now or asked & set(now):
        return NO_FAULT
    way = _loads(now, collector.device)
    if way is None:
        return NO_FAULT
    told = "exact" if way == "exact" else "compatible, not exact"
    return (
        f"{NO_FAULT}: {', '.join(sorted(asked))} was asked for, and became {', '.join(now)},"
        f" which loads on {collector.device} ({told})"
    )
