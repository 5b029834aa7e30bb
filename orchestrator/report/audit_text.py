"""The audit for a terminal: what to do first, then a table, the worst first. 80 columns are enough."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from orchestrator.audit.names import short
from orchestrator.audit.stablenames import stable
from orchestrator.report import audit_words as words
from orchestrator.report.audit_words import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from orchestrator.audit.against import Change, Comparison
    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.coverage import Counts
    from orchestrator.audit.findings import Finding
    from orchestrator.audit.report import AuditReport, DeviceReport, ModuleReport, SpecReport

PIPE_WIDTH = 100
_LEAST = 60
_ABI = re.compile(r"\.cpython-[^/]*\.so$")
_TIED = "\xa0"
_WIDE = 110
"""From here on the images have a column of their own."""
_STYLES = {
    "PASS": "bold green", "FAIL": "bold red", "native": "green", "exact": "green", "compatible": "green",
    "partial": "yellow", "jit": "yellow", "none": "red", "error": "red", "warning": "yellow",
}  # fmt: skip
_HEAD = ("verdict", "exact", "compat", "jit", "none", "total")
_BESIDE = 24
"""Columns that the images get at the least."""
_ROWS = 20
"""With more modules than this, the good ones are counted in one line."""
_KERNELS = 3
"""Kernels that name one container."""
_CHANGES = 8
"""Containers that a comparison lists when it is to be short."""


def width_of(stream: TextIO) -> int:
    """Return how many columns to fill: those of a terminal, else `PIPE_WIDTH`."""
    return max(_LEAST, shutil.get_terminal_size().columns) if stream.isatty() else PIPE_WIDTH


def audit_text(
    report: AuditReport,
    *,
    width: int = PIPE_WIDTH,
    verbose: bool = False,
    recipes: Mapping[str, str] | None = None,
) -> Iterator[Text]:
    """Yield the report on all SPECs, line by line, styled.

    Args:
        report: the audit.
        width: columns that may be filled.
        verbose: also name the containers that fall short, and cut nothing.
        recipes: name of a distribution -> the recipe that builds it, for the advice.
    """
    for number, spec in enumerate(report.specs):
        if number:
            yield Text()
        yield from _Page(width, verbose=verbose).spec(spec, recipes or {})


class _Page:
    def __init__(self, width: int, *, verbose: bool) -> None:
        self._width = width
        self._verbose = verbose

    def spec(self, spec: SpecReport, recipes: Mapping[str, str]) -> Iterator[Text]:
        name = printable(spec.spec)
        if spec.error is not None:
            yield _line("FAIL", f"  {self._path(name, self._width - 6)}")
            yield from self._wrapped(spec.error, "      ")
            return
        for number, report in enumerate(spec.devices):
            if number:
                yield Text()
            end = f" on {report.device}"
            yield _line(
                "FAIL" if report.failed else "PASS", f"  {self._path(name, self._width - 6 - len(end))}{end}"
            )
            yield from self._wrapped(words.headline(report), "      ")
            advice = words.advice(spec, report, recipes)
            if advice is not None:
                yield from self._wrapped(f"To do: {advice}", "      ", style="bold")
            yield from self._table(report)
            yield from self._findings(report.findings, "  ")
            if report.against is not None:
                yield from self._against(report.against)

    def _table(self, report: DeviceReport) -> Iterator[Text]:
        shown = [one for one in words.ordered(report.modules) if one.verdict != "host" or self._told(one)]
        silent = len(report.modules) - len(shown)
        good = [one for one in shown if one.verdict == "native" and not self._told(one)]
        folded = good if len(shown) > _ROWS and not self._verbose else []
        shown = [one for one in shown if one not in folded]
        rows = [(str(one.verdict), one.counts, printable(one.path)) for one in shown]
        cubins = [box for held in report.bare.values() for box in held]
        if cubins:
            rows.append((_verdict(report.cubins), report.cubins, "(cubins outside containers)"))
        if rows:
            yield Text()
            yield from self._rows(rows, [(one, words.held(one, report.device)) for one in shown], cubins)
        if folded:
            many = sum(one.counts.total for one in folded)
            text = f"{len(folded):,} modules are native: all of their {many:,} containers load; -v lists them"
            yield from self._wrapped(text, "  ")
        if silent:
            more = "more " if shown or folded else ""
            yield Text(
                f"  {silent:,} {more}{'modules hold' if silent > 1 else 'module holds'} no device code"
            )

    def _rows(
        self,
        rows: Sequence[tuple[str, Counts, str]],
        modules: Sequence[tuple[ModuleReport, list[str]]],
        cubins: Sequence[ContainerReport],
    ) -> Iterator[Text]:
        numbers = [
            (verdict, *(f"{n:,}" for n in (c.exact, c.compatible, c.jit, c.none, c.total)))
            for verdict, c, _ in rows
        ]
        widths = [max(map(len, column)) for column in zip(_HEAD, *numbers, strict=True)]
        at = 2 + sum(widths) + len(widths)  # where the path begins, less one
        room = self._width - at - 1
        wide = self._width >= _WIDE
        longest = max(cell_len(path) for _, _, path in rows)
        column = min(longest, room - 3 - _BESIDE if wide else room)
        head = self._cells(_HEAD, widths) + "  " + ("module".ljust(column) + "  images" if wide else "module")
        yield Text(head, style="bold")
        for number, (verdict, _, path) in enumerate(rows):
            module, images = modules[number] if number < len(modules) else (None, [])
            beside = self._beside(images, room - column - 3) if wide else []
            line = f"{self._cells(numbers[number], widths)}  {self._path(path, column)}"
            for rank, text in enumerate(beside or [""]):
                begin = line if not rank else ""
                full = f"{set_cell_size(begin, at + 1 + column)}  {text}" if text else begin
                yield _painted(full, verdict if not rank else None)
            yield from self._why(module, cubins, images=[] if beside else images)

    def _cells(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return f"  {first[0]:<{first[1]}}" + "".join(f" {cell:>{width}}" for cell, width in rest)

    def _beside(self, images: Sequence[str], room: int) -> list[str]:
        """Return the images in a column; nothing when it would take more than two lines, or not fit."""
        text = _tied(printable(", ".join(images)))
        found = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        if len(found) > 2 or any(len(line) > room for line in found):  # noqa: PLR2004 - two lines
            return []
        return [line.replace(_TIED, " ") for line in found]

    def _why(
        self, module: ModuleReport | None, cubins: Sequence[ContainerReport], images: Sequence[str]
    ) -> Iterator[Text]:
        boxes = cubins if module is None else module.containers
        told = list(words.why(boxes, every=self._verbose))
        if module is None:
            told = [(how, text) for how, text in told if how != "none"]  # the finding says it, by path
        for how, text in told:
            yield from self._wrapped(text, "      ", style=_STYLES[how], mark=len(text.partition(":")[0]))
        for reason in module.reasons if module is not None else ():
            yield from self._wrapped(reason, "        ")
        wide = self._width >= _WIDE
        if images and (wide or self._verbose or len({box.arches for box in boxes}) != 1):
            yield from self._wrapped(f"images: {', '.join(images)}", "      ", style="dim")
        if module is None:
            return
        if self._verbose and module.kernels is not None:
            yield from self._wrapped(words.kernels(module.kernels), "      ", style="dim")
        if module.failed and module.expected is not None:
            yield from self._wrapped(f"error: should be {module.expected}", "      ", style="red", mark=5)
        yield from self._findings(self._told(module), "      ")
        if self._verbose:
            yield from self._named(module.short)

    def _named(self, boxes: Sequence[ContainerReport]) -> Iterator[Text]:
        """Name the containers that fall short by their kernels."""
        if boxes and all(box.kernels is None for box in boxes):
            yield Text("      their kernels were not read", style="dim")
            return
        alike: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[ContainerReport]] = {}
        for box in boxes:
            alike.setdefault((box.coverage, box.arches, self._kernels(box.kernels or ())), []).append(box)
        for (how, arches, names), held in alike.items():
            where = f"at {held[0].offset or 0:#x}" + (f" and {len(held) - 1:,} more" if len(held) > 1 else "")
            yield from self._wrapped(f"{how}, {words.listed(arches, 4)}, {where}:", "        ")
            yield from (Text(f"          {name}", style="dim") for name in names)

    def _kernels(self, names: Collection[str]) -> tuple[str, ...]:
        """Name a few kernels, a line each."""
        first = sorted(map(stable, names), key=lambda name: ("EmptyKernel" in name, name))
        shown = list(dict.fromkeys(printable(short(name, self._width - 10)) for name in first))
        if len(shown) > _KERNELS:
            shown[_KERNELS:] = [f"and more: {len(names):,} kernels in all"]
        return tuple(shown) or ("no kernel",)

    def _told(self, module: ModuleReport) -> list[Finding]:
        return [
            finding
            for finding in words.sorted_findings(module.findings)
            if finding.code not in words.TOLD and (self._verbose or finding.level != "info")
        ]

    def _findings(self, findings: Iterable[Finding], indent: str) -> Iterator[Text]:
        for finding in words.sorted_findings(findings):
            if self._verbose or finding.level != "info":
                style = _STYLES.get(finding.level, "dim")
                text = f"{finding.level}: {finding.text}"
                yield from self._wrapped(text, indent, style=style, mark=len(finding.level))

    def _against(self, found: Comparison) -> Iterator[Text]:
        yield Text()
        if not found.lost and not found.gained and not found.modules:
            yield from self._wrapped(f"Since {found.spec} no coverage was gained or lost.", "  ")
            return
        yield from self._wrapped(f"Since {found.spec}:", "  ", style="bold")
        for module in found.modules:
            yield from self._wrapped(words.changed(module), "    ")
        for word, style, changes in (("lost", "red", found.lost), ("gained", "green", found.gained)):
            yield from self._changes(word, style, changes)
        if found.renamed:
            yield from self._wrapped(
                f"only renamed: {words.many(found.renamed, 'kernel')}", "    ", style="dim"
            )
        if found.unread:
            text = (
                f"compared by number only, as kernels are not known: {words.many(found.unread, 'container')}"
            )
            yield from self._wrapped(text, "    ", style="dim")

    def _changes(self, word: str, style: str, changes: Sequence[Change]) -> Iterator[Text]:
        if not changes:
            return
        total = f"{word}: {words.changes(changes)}"
        yield from self._wrapped(total, "    ", style=style, mark=len(word))
        most = len(changes) if self._verbose else _CHANGES
        for change in changes[:most]:
            holds = (
                f", holds {words.listed(change.holds, 4)}" if change.holds and change.after == "none" else ""
            )
            text = f"{words.title(change.module)}: {change.before} -> {change.after}{holds}"
            many = len(change.kernels)
            first = short(change.kernels[0], 60) if many else ""
            named = f"; {first}{f' and {many - 1:,} more' if many > 1 else ''}" if many else ""
            yield from self._wrapped(f"{text}{named}", "      ")
            if self._verbose and many > 1:
                yield from (Text(f"          {name}", style="dim") for name in self._kernels(change.kernels))
        if len(changes) > most:
            yield Text(f"      and {len(changes) - most:,} more containers; -v names all", style="dim")

    def _path(self, path: str, room: int) -> str:
        """Cut a path that is too long: first its ABI tag, then its folders, last the name of the file."""
        if cell_len(path) > room:
            path = _ABI.sub("….so", path)
        if cell_len(path) <= room:
            return path
        name = path[path.rfind("/") + 1 :]
        most = max(room * 2 // 3, cell_len(name) + 1 if cell_len(name) + 2 <= room else 0)
        tail = path[-most:]
        while cell_len(tail) > most:
            tail = tail[1:]
        return set_cell_size(path, room - 1 - cell_len(tail)).rstrip() + "…" + tail

    def _wrapped(self, text: str, indent: str, *, style: str = "", mark: int | None = None) -> Iterator[Text]:
        """Yield a text in lines; `style` is for all of it, or for its first `mark` characters."""
        room = self._width - len(indent) - 2
        words = (
            self._path(word, room) if len(word) > room else word for word in _tied(printable(text)).split(" ")
        )
        lines = textwrap.wrap(
            " ".join(words),
            self._width,
            initial_indent=indent,
            subsequent_indent=indent + ("  " if mark is not None else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for number, line in enumerate(lines):
            shown = Text(line.replace(_TIED, " "), style=style if mark is None else "")
            if mark is not None and not number:
                shown.stylize(style, len(indent), len(indent) + mark)
            yield shown


def _tied(text: str) -> str:
    """Keep `sm_90a (53)` on one line."""
    return re.sub(r" (?=\([\d,]+\))", _TIED, text)


def _line(word: str, rest: str) -> Text:
    return Text(word, style=_STYLES[word]) + Text(rest, style="bold")


def _painted(line: str, verdict: str | None) -> Text:
    shown = Text(line)
    if verdict is not None:
        shown.stylize(_STYLES.get(verdict, ""), 2, 2 + len(verdict))
    return shown


def _verdict(counts: Counts) -> str:
    if counts.native:
        return "native" if counts.native == counts.total else "partial"
    return "jit" if counts.jit else "none"
