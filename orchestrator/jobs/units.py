"""A unit: one compiler call, what it is asked to make, and what it cost."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, overload

from orchestrator.jobs.command import OBJECTS, SOURCES, own_words

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["compile", "link"]
How = Literal["ran", "hit", "failed", "refused", "lost"]
"""`hit`: ccache had its object. `refused`: it was not run. `lost`: its launcher was killed."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one compiler is asked for."""

    number: int
    step: str
    folder: str
    kind: Kind
    compiler: str
    arguments: tuple[str, ...]
    """With those from nvcc's variables and from response files. Bytes that are no UTF-8 are surrogates."""

    @property
    def source(self) -> str | None:
        """The source file, as it is named in the command; None of a link."""
        if self.kind == "link":
            return None
        return next((w for w in own_words(self.arguments) if w[:1] != "-" and w.endswith(SOURCES)), None)

    @property
    def output(self) -> str | None:
        """The object, as it is named in the command."""
        words = iter(self.arguments)
        found = None
        for word in words:
            if word in {"-o", "--output-file"}:
                found = next(words, None)
            elif word.startswith("--output-file="):
                found = word.partition("=")[2]
            elif word.startswith("-o") and word.endswith(OBJECTS):
                found = word[2:]
        return found

    @property
    def made(self) -> str:
        """The path of what it makes: what -o names, or where compilers put an object otherwise."""
        there = (
            self.output
            or PurePosixPath(self.source or "a").with_suffix(".out" if self.source is None else ".o").name
        )
        return posixpath.normpath(posixpath.join(self.folder, there))

    @property
    def is_cuda(self) -> bool:
        """Whether nvcc is asked to compile device code."""
        if self.kind == "link" or not PurePosixPath(self.compiler).name.startswith("nvcc"):
            return False
        pairs = zip(self.arguments, (*self.arguments[1:], ""), strict=True)
        language = [two for one, two in pairs if one in {"-x", "--x"}]
        language += [word.partition("=")[2] for word in self.arguments if word.startswith(("-x=", "--x="))]
        return language[-1] == "cu" if language else (self.source or "").endswith((".cu", ".ptx"))

    @property
    def name(self) -> str:
        """How it is called in reports: the end of its source's path, or its output's."""
        return printable("/".join(PurePosixPath(self.source or self.output or self.compiler).parts[-2:]))


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one unit."""

    unit: Unit
    how: How
    code: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    """Of its whole tree, the sum; 0 when it was too quick to be measured."""
    images: tuple[str, ...] = ()
    """What nvcc was asked to make: `sm_121a`, `compute_121a`."""
    tries: int = 0
    """How often it was run; more than once when memory ran out or the compiler crashed."""
    why: str = ""
    """Why it was refused."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a line of `units.jsonl`."""
        unit = self.unit
        return {
            "unit": unit.name,
            "source": printable(unit.source),
            "output": printable(unit.output),
            "kind": unit.kind,
            "compiler": printable(unit.compiler),
            "images": list(self.images),
            "how": self.how,
            "code": self.code,
            "tries": self.tries,
            "cpu_s": round(self.cpu_s, 3),
            "wall_s": round(self.wall_s, 3),
            "peak_bytes": self.peak_bytes,
            "why": self.why,
            "folder": printable(unit.folder),
            "arguments": [printable(word) for word in unit.arguments],
        }


@overload
def printable(text: str) -> str: ...
@overload
def printable(text: None) -> None: ...
def printable(text: str | None) -> str | None:
    """Return a text that any encoder takes: what came as bytes that are no UTF-8 is replaced."""
    return text if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def hit_rate(records: Iterable[Record]) -> float | None:
    """Return the share of compilations that ccache had, of those that ended well; None of none."""
    kept = [
        record.how for record in records if record.unit.kind == "compile" and record.how in {"hit", "ran"}
    ]
    return kept.count("hit") / len(kept) if kept else None
