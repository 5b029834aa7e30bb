"""The lines of a log that mean something: streamed, in little memory, whatever the bytes.

A line ends at a newline, and also at a bare carriage return; lines are counted by newlines, as editors do.

A log can have hundreds of MB. So stems of the rules' hints are searched in whole blocks, only lines that hold
one are looked at, and only the rules are tried whose hints a line holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from orchestrator.machine.rules_general import RAISED
from orchestrator.machine.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.machine.listing import Listing
    from orchestrator.machine.rules import Rule

# fmt: off
STEMS: Final = (
    "rror:", "rror ", "rror[", "rror(", "rror\n", "rror\x1b", "cudaError", "ERROR:", "ERROR ",
    "ERROR_", "ERROR\n", "nternal compiler", "fatal:", "fatal ", "died ", "FAILED", "ailed", "ailure",
    "xception", "Killed", "ndefined", "annot ", "*** ", "ninja: ", "not ", "Not ", "NOT ", "No ",
    "no kernel", "denied", "panicked", "nterrupt", "SystemExit", "Unavailable", " fault", "Abort",
    "Illegal", "memory", "MEMORY", "onnect", "imeout", "Timeout", "imed out", "upported", "unreachable",
    "Had to git", "404", "onflict in", "unable to ", "FLASHINFER_", "requires", "required", "bad_alloc",
    "oom-kill", "exit ", "exited ", "PLEASE", "quota", "ot enough", "ENOSPC", "TIME LIMIT", "exceeded",
    "target arch", "for archs", "/ptxas", "torch.ops", "(2.", "arch_bin", "Arch cond", "Unknown CUDA",
    "only support", "exactly by", "UNSUPPORTED", "built for", "expects arch", "kernel image", "torch 2",
    "torch==2", "torch-2", "uninstalled", "detected CUDA", "Did you run", "mismatch", "matching platform",
    "too old", "nsufficient", "cuda capability", ") - (",
)
# fmt: on
"""Each hint of the table meets one of these (`meets`). They are fewer, and it is their number that costs
time; they are no parts of file names, which stand in every command line."""
MARK: Final = b"[sparkbuild] "
"""Begins each line of ours in a log."""
BLOCK: Final = 1 << 20
LINE_LIMIT: Final = 4096
"""Bytes of a line that are looked at, at its begin and at its end: linker command lines run to megabytes."""
SHOWN: Final = 300
"""Characters of a line that are shown."""
_TAIL: Final = 64 << 10
_LEAD: Final = 40
"""Characters that are shown before what a rule found far out in a line."""
_CUT: Final = "\N{HORIZONTAL ELLIPSIS} "
_LEAST_STEM: Final = 4
_MOST_CHOICES: Final = 4096

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\))")
_PREFIX: Final = re.compile(
    r"\A(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z |#\d{1,4} [\d.]{1,12} |\([\w ]{1,40} pid=\d{1,9}\) "
    r"|(?:ERROR|INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,80}\] )+"
)
"""What CI services, docker and servers put before every line."""
_CODE: Final = re.compile(r"raise |throw |warnings\.warn|#|//|\d{1,7} \||assert ")
"""Begins a line of source code, quoted in a traceback or a message."""
_FOOT: Final = re.compile(rb"\[sparkbuild\] (?:stopped, )?(?:exit (\d{1,3})|SIG([A-Z]{2,6})), wall ")
_STOPPED: Final = re.compile(rb"\[sparkbuild\] stopped after [\d.]{1,12} s")
_TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a rule fits."""

    number: int
    """Counted from 1 in the whole log."""
    text: str
    """Without escapes, surrounding space and what cannot be printed; at most 300 characters."""
    rule: Rule
    what: str = ""
    """What the line names."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a command of ours ended, as the log's foot says."""

    returncode: int
    """Exit code, or minus the number of a signal."""


class LogLines:
    """One reading of a log, or of pasted text; `hits` is called once."""

    def __init__(self, stream: IO[bytes], *, start: int = 0, listing: Listing | None = None) -> None:
        """Take a stream that stands at its begin; lines before byte `start` are passed over."""
        self._stream = stream
        self._start = start
        self._listing = listing
        self.blank = True
        """Nothing but space was read so far."""
        self._tail = b""
        self._margin: int | None = None
        """Indentation of the traceback that the lines are in."""
        more = listing.hints if listing is not None else ()
        self._stems = (MARK, _TRACEBACK.encode(), *(stem.encode() for stem in STEMS), *more)
        self._choices: dict[tuple[bytes, ...], tuple[Rule, ...]] = {}

    @property
    def last_line(self) -> str | None:
        """The last line that is not empty and none of ours; None without one. To be asked after `hits`."""
        for raw in reversed(_flat(self._tail).split(b"\n")):
            text = _shown(_plain(raw).strip())
            if text.strip() and not raw.startswith(MARK):
                return text
        return None

    def hits(self) -> Iterator[Hit | End]:
        """Yield what the rules say of the lines, in order."""
        for number, read in self._blocks():
            block = _flat(read)
            hinted = self._hinted(block)
            first, counted, at = number, 0, 0
            for start in sorted(hinted):
                while self._follows and at < start:
                    first, counted = first + read.count(b"\n", counted, at), at
                    yield from self._judge(first, block, at, ())
                    at = _next(block, at)
                if start >= at:
                    first, counted, at = first + read.count(b"\n", counted, start), start, start
                    yield from self._judge(first, block, at, hinted[start])
                    at = _next(block, at)
            while self._follows and at <= len(block):
                first, counted = first + read.count(b"\n", counted, at), at
                yield from self._judge(first, block, at, ())
                at = _next(block, at)

    @property
    def _follows(self) -> bool:
        """Whether the next line is looked at even without a hint: the end of a traceback holds none."""
        return self._margin is not None or (self._listing is not None and self._listing.open)

    def _hinted(self, block: bytes) -> dict[int, tuple[bytes, ...]]:
        """Return the lines of a block that hold stems of hints: offset of the line -> its stems."""
        probe = block.replace(b"-Werror", b"-W     ") + b"\n"  # stands in every second command line
        found: dict[int, tuple[bytes, ...]] = {}
        for stem in self._stems:
            at = probe.find(stem)
            while at >= 0:
                start = probe.rfind(b"\n", 0, at) + 1
                found[start] = (*found.get(start, ()), stem)
                end = probe.find(b"\n", at)
                at = probe.find(stem, end) if end >= 0 else -1
        return found

    def _chosen(self, stems: tuple[bytes, ...]) -> tuple[Rule, ...]:
        """Return the rules that a line with these stems can fit, in the order of the table."""
        chosen = self._choices.get(stems)
        if chosen is None:
            words = [stem.decode() for stem in stems]
            chosen = tuple(
                rule for rule in table() if any(meets(hint, word) for hint in rule.hints for word in words)
            )
            if len(self._choices) < _MOST_CHOICES:
                self._choices[stems] = chosen
        return chosen

    def _judge(self, number: int, block: bytes, at: int, stems: tuple[bytes, ...]) -> Sequence[Hit | End]:
        end = block.find(b"\n", at, at + LINE_LIMIT)
        raw = block[at : end if end >= 0 else at + LINE_LIMIT]
        far = _far_end(block, at) if end < 0 and stems else b""
        if raw.startswith(MARK):
            return _end(raw)
        line = _plain(raw)
        text = line.strip()
        if not text:
            if self._listing is not None:
                self._listing.open = False
            return ()
        indent = len(line) - len(line.lstrip())
        if text.startswith(_TRACEBACK):
            self._margin = indent
            return ()
        margin, in_frame = self._margin, False
        if margin is not None:
            in_frame = indent > margin
            self._margin = margin if in_frame else None
        if self._is_listed(number, text, stems):
            return ()
        quoted = in_frame or _CODE.match(text) is not None
        hits = self._fitting(number, text, stems, quoted=quoted, indented=indent > 0)
        if far and all(hit.rule.role == "note" for hit in hits):
            ending = _CUT + _plain(far).strip()
            hits += self._fitting(number, ending, stems, quoted=quoted, indented=True)
        raised = margin is not None and not in_frame
        if raised and all(hit.rule.role == "note" for hit in hits) and RAISED.match(text):
            hits.append(Hit(number, _shown(text), table()[-1]))
        return hits

    def _is_listed(self, number: int, text: str, stems: tuple[bytes, ...]) -> bool:
        """Offer a line to the listing where it can be part of one."""
        listing = self._listing
        if listing is None or not (listing or listing.open or not listing.hints.isdisjoint(stems)):
            return False
        return listing.feed(number, text)

    def _fitting(
        self, number: int, text: str, stems: tuple[bytes, ...], *, quoted: bool, indented: bool
    ) -> list[Hit]:
        """Return the notes of a line, and the first rule of another role that fits it."""
        hits = []
        for rule in self._chosen(stems):
            if (quoted and rule.role != "note") or (rule.flush and indented):
                continue
            found = None
            for hint in rule.hints:  # a loop, not `any`: this runs for every line
                if hint in text:
                    found = rule.pattern.search(text)
                    break
            if found is None:
                continue
            hits.append(Hit(number, _shown(text, found), rule, found.groupdict().get("what") or ""))
            if rule.role != "note":
                break
        return hits

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines from byte `start` on, about 1 MiB at a time, with the number of the first.

        Where 1 MiB holds no end of a line, it ends at what a progress bar overwrote; of a line that is longer
        still, begin and end remain.
        """
        number, left = 1, self._start
        while left:
            before = self._stream.read(min(left, BLOCK))
            if not before:
                return
            left -= len(before)
            number += before.count(b"\n")
        carry = b""
        while block := self._stream.read(BLOCK):
            self._tail = (self._tail + block)[-_TAIL:]
            self.blank = self.blank and block.isspace()
            whole, end, rest = block.rpartition(b"\n")
            if not end:
                whole, end, rest = block.rpartition(b"\r")
            if not end:
                carry += block
                if len(carry) > 2 * BLOCK:
                    carry = carry[:BLOCK] + carry[-BLOCK:]
                continue
            lines = carry + whole
            yield number, lines
            number += lines.count(b"\n") + (end == b"\n")
            carry = rest
        if carry:
            yield number, carry


def meets(hint: str, stem: str) -> bool:
    """Say whether `stem` can find a line with `hint`: one holds the other, or it begins where that ends."""
    if stem in hint or hint in stem:
        return True
    return any(hint.endswith(stem[:length]) for length in range(_LEAST_STEM, len(stem)))


def _flat(block: bytes) -> bytes:
    """End a line where a terminal overwrites it, too (a progress bar); every offset stays as it is."""
    if b"\r" not in block:
        return block
    return block.replace(b"\r\r\n", b"  \n").replace(b"\r\n", b" \n").replace(b"\r", b"\n")


def _far_end(block: bytes, at: int) -> bytes:
    """Return the end of the line that begins at `at`, as far as `LINE_LIMIT` does not show it."""
    end = block.find(b"\n", at)
    end = end if end >= 0 else len(block)
    return block[max(at + LINE_LIMIT - SHOWN, end - LINE_LIMIT) : end]


def _plain(raw: bytes) -> str:
    """Decode a line, without escapes and without what a server or docker puts before it."""
    line = raw[:LINE_LIMIT].decode("utf-8", "replace")
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    line = line.rstrip()
    return _PREFIX.sub("", line) if line[:1] in "#(12EIW" else line


def _shown(text: str, found: re.Match[str] | None = None) -> str:
    """Return what can be shown of a line: its begin, or what was found when that stands further out."""
    if found is not None and found.start() >= SHOWN - _LEAD:
        text = _CUT + text[found.start() - _LEAD :]
    text = text[:SHOWN]
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _end(raw: bytes) -> Sequence[End]:
    import signal

    from orchestrator.machine.rules_machine import TIME_CODE

    if _STOPPED.match(raw):
        return (End(TIME_CODE),)
    foot = _FOOT.match(raw)
    if foot is None:
        return ()
    number = getattr(signal, f"SIG{foot[2].decode()}", None) if foot[2] else None
    return (End(int(foot[1]) if foot[1] else -int(number or 0)),)


def _next(block: bytes, at: int) -> int:
    """Return where the next line begins; beyond the block after the last."""
    end = block.find(b"\n", at)
    return end + 1 if end >= 0 else len(block) + 1
