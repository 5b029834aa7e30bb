"""One line about a wheel that a person can act on, and the lines below it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.audit.report import DeviceReport, ModuleReport, SpecReport

WIDTH = 80
_COLUMNS = "  {:<8}{:>6}{:>7}{:>6}{:>6}{:>7}  {}"


def headline(report: DeviceReport) -> str:
    """Say in one sentence what a wheel is worth on a device."""
    device = report.device
    held = [module for module in report.modules if module.verdict != "host"]
    total = sum(module.counts.total for module in held) + report.cubins.total
    exact = sum(module.counts.exact for module in held) + report.cubins.exact
    native = sum(module.counts.native for module in held) + report.cubins.native
    jit = sum(module.counts.jit for module in held)
    errors = [finding for module in report.modules for finding in module.findings if finding.level == "error"]
    errors += [finding for finding in report.findings if finding.level == "error"]
    if not held and not total:
        text = "no device code"
    else:
        text = f"machine code for {device} in {native:,} of {total:,} {_what(report)}"
        rest = total - native - jit
        excused = sum(module.excepted for module in held)
        parts = [(exact, "exact"), (native - exact, "compatible"), (jit, "only by JIT"), (rest, "not at all")]
        parts.append((excused, "excused by the policy"))
        told = ", ".join(f"{many:,} {how}" for many, how in parts if many)
        text = f"{text} ({told})" if told else text
    if errors and native == total:
        more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
        text = f"{text}, but {errors[0].text}{more}"
    return text


def _what(report: DeviceReport) -> str:
    if not report.cubins.total:
        return "containers"
    return "pieces of device code" if any(module.counts.total for module in report.modules) else "cubins"


def lines(spec: SpecReport) -> Iterator[str]:
    """Yield the report on one SPEC for a terminal of 80 columns; it starts with one line that says all."""
    name = printable(spec.spec)
    if spec.error is not None:
        yield f"FAIL  {name}"
        yield from _wrapped(spec.error, "      ")
        return
    for report in spec.devices:
        yield f"{'FAIL' if report.failed else 'PASS'}  {name}"
        yield from _wrapped(headline(report), "      ")
        yield from _table(report)
        for finding in report.findings:
            yield from _wrapped(f"{finding.level}: {finding.text}", "  ")
    if spec.bare_cubins:
        listed = ", ".join(f"{arch} ({many:,})" for arch, many in spec.bare_cubins.items())
        yield from _wrapped(f"cubins outside containers: {listed}", "  ")


def _table(report: DeviceReport) -> Iterator[str]:
    shown = [module for module in report.modules if module.verdict != "host" or module.findings]
    if shown:
        yield ""
        yield _COLUMNS.format("verdict", "exact", "compat", "jit", "none", "total", "module")
    for module in shown:
        counts = module.counts
        numbers = (f"{n:,}" for n in (counts.exact, counts.compatible, counts.jit, counts.none, counts.total))
        yield _COLUMNS.format(module.verdict, *numbers, printable(module.path))
        yield from _wrapped(_held(module), "    ")
        for finding in module.findings:
            yield from _wrapped(f"{finding.level}: {finding.text}", "    ")
    if shown:
        yield ""
    silent = len(report.modules) - len(shown)
    if silent:
        yield f"  {silent:,} more {'modules hold' if silent > 1 else 'module holds'} no device code"


def _held(module: ModuleReport) -> str:
    images = [f"{name} ({many:,})" for held in module.images.values() for name, many in held.items()]
    if module.relocatable:
        apart = ", ".join(f"{name} ({many:,})" for name, many in module.relocatable.items())
        images.append(f"to be linked first: {apart}")
    if module.cubins:
        images.append("cubins: " + ", ".join(f"{name} ({many:,})" for name, many in module.cubins.items()))
    return ", ".join(images)


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal: names come from files that nobody vouched for."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        printable(text.replace("\n", " ")),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
