"""The audit as one HTML page that a person can send to another: no script, nothing from elsewhere."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from orchestrator.audit.names import short
from orchestrator.audit.stablenames import stable
from orchestrator.report import audit_words as words
from orchestrator.report.units import show_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from orchestrator.audit.against import Change, Comparison
    from orchestrator.audit.containers import ContainerReport
    from orchestrator.audit.coverage import Counts
    from orchestrator.audit.findings import Finding
    from orchestrator.audit.report import AuditReport, DeviceReport, ModuleReport, SpecReport
    from orchestrator.model.archvalues import Device

_KERNELS = 8
"""Kernels that are named of one container."""
_NAME = 160
"""Letters of a kernel's name."""
_BOXES = 400
"""Containers that a page names of one module."""
_WAYS = ("exact", "compatible", "jit", "none")
_COLUMNS = {"exact": "exact", "compatible": "compat.", "jit": "jit", "none": "none", "total": "total"}


def audit_html(
    report: AuditReport, *, when: datetime, version: str, recipes: Mapping[str, str] | None = None
) -> str:
    """Return the page.

    Args:
        report: the audit.
        when: it was made, with its time zone.
        version: of this program.
        recipes: name of a distribution -> the recipe that builds it, for the advice.
    """
    body: list[str] = []
    for spec in report.specs:
        body += ["<section>", *_spec(spec, recipes or {}, when, version), "</section>"]
    body += _legend()
    title = "; ".join(f"{spec.verdict.upper()} {spec.spec}" for spec in report.specs)
    page = files("orchestrator.report").joinpath("audit_page.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        title=_text(f"{title} on {', '.join(map(str, report.devices))}"),
        generator=_text(f"sparkbuild {version}"),
        body="\n".join(body),
    )


def _text(text: object) -> str:
    return escape(words.printable(str(text)))


def _code(text: object) -> str:
    return f"<code>{_text(text)}</code>"


def _items(items: Iterable[str], kind: str = "") -> str:
    """Return a list; the items are HTML already."""
    start = f'<ul class="{kind}">' if kind else "<ul>"
    return f"{start}{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{_text(summary)}</summary><div>{inside}</div></details>"


def _spec(spec: SpecReport, recipes: Mapping[str, str], when: datetime, version: str) -> Iterator[str]:
    yield f'<h1><span class="verdict {spec.verdict}">{spec.verdict.upper()}</span> {_text(spec.spec)}</h1>'
    if spec.error is not None:
        yield f'<p class="say error">{_text(spec.error)}</p>'
    for report in spec.devices:
        yield f'<p class="say">On <strong>{report.device}</strong>: {_text(words.headline(report))}.</p>'
        advice = words.advice(spec, report, recipes)
        if advice is not None:
            yield f'<p class="do">To do: {_text(advice)}</p>'
    yield "<dl>"
    for file in spec.files:
        yield f"<dt>File</dt><dd>{_code(file.name)}, {show_bytes(file.size)}</dd>"
        if file.sha256 is not None:
            yield f"<dt>SHA-256</dt><dd>{_code(file.sha256)}</dd>"
    stamp = when.isoformat(sep=" ", timespec="minutes")
    yield f"<dt>Audited</dt><dd>{_text(stamp)} by sparkbuild {_text(version)}</dd>"
    yield "</dl>"
    for report in spec.devices:
        yield from _device(report)


def _device(report: DeviceReport) -> Iterator[str]:
    cubins = [box for held in report.bare.values() for box in held]
    shown = [one for one in words.ordered(report.modules) if one.verdict != "host" or one.findings]
    yield f"<h2>Modules on {report.device}</h2>"
    if shown or cubins:
        heads = "".join(f'<th class="n">{word}</th>' for word in _COLUMNS.values())
        yield f"<table><thead><tr><th>verdict</th><th>module</th>{heads}</tr></thead><tbody>"
        for module in shown:
            yield _row(module.verdict, module.counts, "".join(_module(module, report.device)))
        if cubins:
            inside = f"<div>cubins outside containers</div>{_bar(report.cubins)}{_why(cubins)}"
            yield _row(
                "native" if report.cubins.native == report.cubins.total else "none", report.cubins, inside
            )
        yield "</tbody></table>"
    if silent := [one.path for one in report.modules if one not in shown]:
        text = (
            f"{len(silent):,} modules hold no device code"
            if len(silent) > 1
            else "1 module holds no device code"
        )
        yield _folded(text, _items(map(_code, silent)))
    if report.findings:
        yield f"<h2>Findings about all of it on {report.device}</h2>"
        yield _findings(report.findings)
    if report.against is not None:
        yield from _against(report.against, report)


def _row(verdict: str, counts: Counts, inside: str) -> str:
    style = {"jit": "v-jit", "none": "v-none"}.get(verdict, verdict)
    numbers = "".join(
        f'<td class="n" data-l="{word}">{getattr(counts, way):,}</td>' for way, word in _COLUMNS.items()
    )
    return (
        f'<tr><td class="v"><span class="verdict {style}">{verdict}</span></td>'
        f'<td class="m">{inside}</td>{numbers}</tr>'
    )


def _module(module: ModuleReport, device: Device) -> Iterator[str]:
    yield f'<div class="path">{_text(module.path)}</div>'
    yield _bar(module.counts)
    yield _why(module.containers)
    if module.reasons:
        yield _items(map(_text, module.reasons))
    if module.expected is not None:
        excused = f", {module.excepted:,} excused" if module.excepted else ""
        style = ' class="error"' if module.failed else ""
        yield f"<div{style}>It should be {_text(module.expected)}{excused}.</div>"
    yield _findings(module.findings)
    if images := words.held(module, device):
        yield _folded("Images by arch", _text(", ".join(images)))
    if module.kernels is not None:
        yield _folded("Kernels", "".join(_kernels(module)))
    if module.short and any(box.kernels is not None for box in module.short):
        boxes = [_box(box) for box in module.short[:_BOXES]]
        if len(module.short) > _BOXES:
            boxes.append(f"and {len(module.short) - _BOXES:,} more")
        yield _folded(f"Containers that fall short: {len(module.short):,}", _items(boxes))


def _kernels(module: ModuleReport) -> Iterator[str]:
    facts = module.kernels
    if facts is None:
        return
    yield f"{_text(words.kernels(facts))}."
    for what, names in (
        ("do no work here", facts.hollow or ()),
        ("only for other arches", facts.elsewhere_only),
    ):
        if names:
            yield f"<p>{what}:</p>{_named(names, 100)}"


def _named(names: Iterable[str], most: int) -> str:
    shown = list(dict.fromkeys(short(stable(name), _NAME) for name in sorted(names)))
    more = [f"and {len(shown) - most:,} more"] if len(shown) > most else []
    return _items([*map(_code, shown[:most]), *more])


def _box(box: ContainerReport) -> str:
    names = _named(box.kernels, _KERNELS) if box.kernels else " no kernel"
    return f"at {box.offset or 0:#x}, {box.coverage}, {_text(', '.join(box.arches))}{names}"


def _bar(counts: Counts) -> str:
    if not counts.total:
        return ""
    parts = [(way, getattr(counts, way)) for way in _WAYS]
    told = ", ".join(f"{many:,} {way}" for way, many in parts if many)
    inside = "".join(
        f'<i class="{way}" style="width:{100 * many / counts.total:.2f}%"></i>' for way, many in parts if many
    )
    return f'<div class="bar" role="img" aria-label="{told}" title="{told}">{inside}</div>'


def _why(boxes: Sequence[ContainerReport]) -> str:
    told = [f'<b class="{how}"></b>{_text(text)}' for how, text in words.why(boxes, every=True)]
    return _items(told, "why") if told else ""


def _findings(findings: Iterable[Finding]) -> str:
    told = [
        f'<span class="{one.level}">{one.level}</span>: {_text(one.text)}'
        for one in words.sorted_findings(findings)
        if one.code not in words.TOLD
    ]
    return _items(told) if told else ""


def _against(found: Comparison, report: DeviceReport) -> Iterator[str]:
    yield f"<h2>Since {_text(found.spec)} on {report.device}</h2>"
    if not found.lost and not found.gained and not found.modules:
        yield "<p>No coverage was gained or lost.</p>"
    if found.modules:
        yield _items(_text(words.changed(module)) for module in found.modules)
    for word, changes in (("lost", found.lost), ("gained", found.gained)):
        if changes:
            yield _folded(f"{word}: {words.changes(changes)}", _items(map(_change, changes)))
    if found.renamed:
        yield f"<p>Only renamed: {words.many(found.renamed, 'kernel')}.</p>"
    if found.unread:
        yield f"<p>Compared by number only (kernels unread): {words.many(found.unread, 'container')}.</p>"


def _change(change: Change) -> str:
    holds = f", holds {', '.join(change.holds)}" if change.holds else ""
    text = f"{change.module}: {change.before} -> {change.after}{holds}"
    return f"{_text(text)}{_named(change.kernels, _KERNELS) if change.kernels else ''}"


def _legend() -> Iterator[str]:
    yield "<h2>What the words mean</h2><dl>"
    for word, text in words.LEGEND.items():
        yield f"<dt>{word}</dt><dd>{text}</dd>"
    yield "</dl>"
    yield (
        "<footer><p>A container is the device code of one compiled source file, for one or more GPUs. "
        "Everything on this page was read from the binaries themselves.</p></footer>"
    )
