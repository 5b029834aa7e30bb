"""The text of a patch: a header that says why, then unified diffs. Pure: bytes in, values out."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import PatchError
from orchestrator.source.archive_judge import DEEPEST

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = ("Why", "Upstream", "Versions", "Seen-at", "Remove-when")
"""Of the header; each shipped patch has all of them."""
UNSEEN = "none"
"""What `Seen-at:` says when nobody has judged a patch anywhere yet."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FIELD = re.compile(r"([A-Z][A-Za-z-]*): *(.*)")
_MOST_DIGITS = 9
"""Of a line number; Python refuses to read thousands of them."""
_NO_NEWLINE = b"\\ "
_UNSUPPORTED = (
    *(b"rename from", b"rename to", b"copy from", b"copy to", b"GIT binary patch", b"Binary files "),
)


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk.

    Attributes:
        at: its first line in the patch file, from 1.
        old_start: line in the old file that it begins at, from 1 (0 for an empty file).
        old: lines that must be there, with their newlines.
        new: lines that will be there instead.
    """

    at: int
    old_start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    new_start: int


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happens to one file.

    Attributes:
        path: relative to the tree.
        creates: the file must not be there before.
        deletes: the file is gone afterwards.
        executable: the mode it gets; None leaves it.
        hunks: in order.
        at: its first line in the patch file, from 1.
    """

    path: str
    creates: bool
    deletes: bool
    executable: bool | None
    hunks: tuple[Hunk, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch file.

    Attributes:
        name: of the file, without `.patch`.
        header: `FIELDS` and what else stands before the diffs.
        files: in order.
        digest: sha256 of the diffs; the header does not count, so that a better reason rebuilds nothing.
        where: the file, for messages.
        seen_at: versions and full commits of its target at which somebody has judged it to apply.
    """

    name: str
    header: dict[str, str]
    files: tuple[FilePatch, ...]
    digest: str
    where: str
    seen_at: tuple[str, ...] = ()


def read_patch(path: Path) -> Patch:
    """Read a patch file.

    Raises:
        PatchError: it cannot be read, is malformed, or does not say why it is there.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PatchError(
            f"the patch cannot be read: {error.strerror}",
            where=str(path),
            hint="check its name in the recipe",
        ) from error
    return parse_patch(path.name.removesuffix(".patch"), data, where=str(path))


def parse_patch(name: str, data: bytes, *, where: str | None = None) -> Patch:
    """Return the patch that `data` holds.

    Args:
        name: what it is called in messages.
        data: the file's bytes.
        where: its path, for messages.

    Raises:
        PatchError: malformed, something that is not supported (renames, binary diffs), a path that leads
            out of the tree, no `Why:`, or a `Seen-at:` that names none; `where` gives the line.
    """
    where = where or name
    parser = _Parser(where, data)
    begin = next((i for i, line in enumerate(parser.lines) if _begins(parser.lines, i)), None)
    if begin is None:
        raise parser.malformed(0, "no diff stands in it", "a line `--- a/FILE` begins one")
    header = _header(parser.lines[:begin])
    if not header.get("Why"):
        raise parser.malformed(0, "it does not say why it is there", "begin it with a line `Why: …`")
    files = parser.files(begin)
    twice = next((file for i, file in enumerate(files) if file.path in {f.path for f in files[:i]}), None)
    if twice is not None:
        raise parser.malformed(
            twice.at - 1, f"{twice.path} stands in it twice", "join the two, or split the patch"
        )
    body = b"".join(parser.lines[begin:])
    digest = hashlib.sha256(body).hexdigest()
    return Patch(name, header, tuple(files), digest, where, _seen_at(header, parser))


def _begins(lines: list[bytes], index: int) -> bool:
    """Whether a file's diff begins here."""
    if lines[index].startswith(b"diff --git "):
        return True
    follows = lines[index + 1] if index + 1 < len(lines) else b""
    return lines[index].startswith(b"--- ") and follows.startswith(b"+++ ")


def _header(lines: list[bytes]) -> dict[str, str]:
    header: dict[str, str] = {}
    last: str | None = None
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip()
        if match := _FIELD.fullmatch(line):
            last = match[1]
            header[last] = match[2]
        elif last and line[:1] in {" ", "\t"}:
            header[last] = f"{header[last]} {line.strip()}".strip()
        else:
            last = None
    return header


def _seen_at(header: dict[str, str], parser: _Parser) -> tuple[str, ...]:
    from packaging.version import InvalidVersion, Version

    text = header.get("Seen-at", UNSEEN)
    names = () if text.strip() == UNSEEN else tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _COMMIT.fullmatch(name):
            try:
                Version(name)
            except InvalidVersion:
                raise parser.malformed(
                    0,
                    f"Seen-at names {name!r}",
                    f"versions or full commits, with commas between them; or `{UNSEEN}`",
                ) from None
    return names


class _Parser:
    def __init__(self, where: str, data: bytes) -> None:
        self.where = where
        self.lines = split_lines(data)

    def malformed(self, index: int, what: str, hint: str) -> PatchError:
        return PatchError(f"malformed patch: {what}", where=f"{self.where}:{index + 1}", hint=hint)

    def files(self, index: int) -> list[FilePatch]:
        files: list[FilePatch] = []
        while index < len(self.lines):
            if _begins(self.lines, index):
                file, index = self._file(index)
                files.append(file)
                continue
            line = self.lines[index]
            if line.startswith(b"@@") or (line[:1] in {b" ", b"+", b"-"} and line.rstrip() != b"--"):
                raise self.malformed(
                    index, "a line that belongs to no hunk", "do a hunk's counts (@@ … @@) fit its lines?"
                )
            index += 1
        return files

    def _file(self, begin: int) -> tuple[FilePatch, int]:
        index = begin
        modes: dict[bytes, bytes] = {}
        named: str | None = None
        if self.lines[index].startswith(b"diff --git "):
            named = self._named(index)
            index += 1
            while index < len(self.lines) and not self.lines[index].startswith(
                (b"--- ", b"diff --git ", b"-- ")
            ):
                self._extended(index, modes)
                index += 1
        if (
            index + 1 < len(self.lines)
            and _begins(self.lines, index)
            and self.lines[index].startswith(b"--- ")
        ):
            path, creates, deletes = self._paths(index)
            hunks, index = self._hunks(index + 2)
            if not hunks:
                raise self.malformed(
                    index - 1, f"no hunk follows for {path}", "a line `@@ -1,3 +1,4 @@` begins one"
                )
        elif named is not None and modes:
            path, hunks = named, []
            creates, deletes = b"new file" in modes, b"deleted file" in modes
        else:
            raise self.malformed(begin, "a diff that changes nothing", "remove it from the patch")
        mode = modes.get(b"new file", modes.get(b"new"))
        executable = None if mode is None else mode == b"100755"
        return FilePatch(path, creates, deletes, executable, tuple(hunks), begin + 1), index

    def _extended(self, index: int, modes: dict[bytes, bytes]) -> None:
        line = self.lines[index].rstrip()
        if line.startswith(_UNSUPPORTED):
            raise self.malformed(
                index,
                f"not supported: {line.decode('utf-8', 'replace')}",
                "make it with `git diff --no-renames`; binary files cannot be patched",
            )
        if match := re.fullmatch(rb"(old|new|new file|deleted file) mode (\d+)", line):
            if match[2] not in {b"100644", b"100755"}:
                raise self.malformed(
                    index, f"not supported: mode {match[2].decode()}", "patch plain files only"
                )
            modes[match[1]] = match[2]

    def _named(self, index: int) -> str:
        """Return the path of a `diff --git a/X b/X` line."""
        rest = self.lines[index].removeprefix(b"diff --git ").rstrip(b"\r\n")
        half = len(rest) // 2
        old, new = rest[:half], rest[half + 1 :]
        return self._common(old, new, index)

    def _paths(self, index: int) -> tuple[str, bool, bool]:
        old, new = (
            self.lines[at][len(b"--- ") :].partition(b"\t")[0].rstrip(b"\r\n") for at in (index, index + 1)
        )
        if old == b"/dev/null":
            return (
                self._common(b"a/" + new.removeprefix(b"b/"), b"b/" + new.removeprefix(b"b/"), index),
                True,
                False,
            )
        if new == b"/dev/null":
            return (
                self._common(b"a/" + old.removeprefix(b"a/"), b"b/" + old.removeprefix(b"a/"), index),
                False,
                True,
            )
        return self._common(old, new, index), False, False

    def _common(self, old: bytes, new: bytes, index: int) -> str:
        """Return the one path that both names mean, without `a/` and `b/` or two names of a folder."""
        _, slash, rest = old.partition(b"/")
        if slash and rest == new.partition(b"/")[2] and (old != new or old.startswith((b"a/", b"b/"))):
            found = rest
        elif old == new:
            found = old
        else:
            raise self.malformed(
                index,
                f"two names: {_name(old)} and {_name(new)}",
                "make it with `git diff --no-renames` (a/FILE, b/FILE)",
            )
        path = found.decode("utf-8", "surrogateescape")
        parts = path.split("/")
        if len(parts) > DEEPEST:
            raise self.malformed(index, f"a path of more than {DEEPEST} folders", "no tree is so deep")
        if (
            path.startswith(('"', "/"))
            or "\0" in path
            or any(part in {"", ".", "..", ".git"} for part in parts)
        ):
            raise self.malformed(
                index, f"{path!r} is no path inside the tree", "name files relative to the tree"
            )
        return path

    def _hunks(self, index: int) -> tuple[list[Hunk], int]:
        hunks: list[Hunk] = []
        while index < len(self.lines) and (match := _HUNK.match(self.lines[index])):
            if max(len(number or b"") for number in match.groups()) > _MOST_DIGITS:
                raise self.malformed(index, "a line number of too many digits", "make the patch anew")
            counts = [int(match[2]) if match[2] else 1, int(match[4]) if match[4] else 1]
            old, new, after = self._body(index, counts)
            hunks.append(Hunk(index + 1, int(match[1]), tuple(old), tuple(new), int(match[3])))
            index = after
        return hunks, index

    def _body(self, begin: int, counts: list[int]) -> tuple[list[bytes], list[bytes], int]:
        index = begin + 1
        old: list[bytes] = []
        new: list[bytes] = []
        while len(old) < counts[0] or len(new) < counts[1]:
            if index >= len(self.lines):
                raise self.malformed(begin, "the hunk ends too early", "the file seems cut off")
            line = self.lines[index]
            # Editors strip the blank that an empty context line consists of.
            tag, text = (b" ", line) if line in {b"\n", b"\r\n"} else (line[:1], line[1:])
            index += 1
            if tag not in {b" ", b"-", b"+"}:
                raise self.malformed(
                    index - 1, "a hunk's line begins with ' ', '-' or '+'", "do its counts fit?"
                )
            if index < len(self.lines) and self.lines[index].startswith(_NO_NEWLINE):
                text = text.removesuffix(b"\n")
                index += 1
            elif not text.endswith(b"\n"):
                text += b"\n"  # the patch file's own last line
            if tag in b" -":
                old.append(text)
            if tag in b" +":
                new.append(text)
        if (len(old), len(new)) != tuple(counts):
            raise self.malformed(begin, "the hunk's counts do not fit its lines", "make the patch anew")
        return old, new, index


def split_lines(data: bytes) -> list[bytes]:
    """Split at newlines only; a carriage return belongs to its line."""
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def _name(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
