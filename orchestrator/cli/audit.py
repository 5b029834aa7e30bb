"""`sparkbuild audit SPEC...`: read which GPUs a wheel, folder or file holds machine code for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import json_option

if TYPE_CHECKING:
    from orchestrator.model.arch import Device


@click.command("audit")
@click.argument("specs", metavar="SPEC...", nargs=-1)
@click.option("--arch", metavar="LIST", help="What it should serve, such as 12.1a (DGX Spark).")
@click.option("--device", metavar="CC", help="The device to be served, such as 12.1; else those in --arch.")
@json_option
def command(specs: tuple[str, ...], arch: str | None, device: str | None, *, as_json: bool) -> None:
    """Read which GPUs wheels, folders or single files hold machine code for.

    Only headers are read: no GPU, no CUDA toolkit, nothing is unpacked. Fails (3) when something that is
    device code has no SASS that loads on the device.
    """
    from orchestrator.audit.question import Question
    from orchestrator.audit.report import AuditReport, SpecReport
    from orchestrator.audit.summary import lines
    from orchestrator.errors import AuditFailedError, SpecError, UsageError
    from orchestrator.inspect.specs import audit_spec

    if not all(specs):
        raise UsageError("a SPEC is empty", hint="name a wheel, folder or file; is a variable unset?")
    if not specs:
        raise UsageError(
            "nothing to audit", hint="name wheels, folders or files: sparkbuild audit X.whl --arch 12.1a"
        )
    devices = _devices(arch, device)
    question = Question(devices=devices)
    reports: list[SpecReport] = []
    unread: list[SpecError] = []
    for spec in specs:
        try:
            reports.append(audit_spec(spec, question))
        except SpecError as error:
            unread.append(error)
            reports.append(SpecReport(spec, error=error.message))
    report = AuditReport(devices, tuple(reports))
    if as_json:
        import json

        click.echo(json.dumps(report.to_json(), indent=2))
    elif len(reports) > len(unread) or len(reports) > 1:
        click.echo("\n\n".join("\n".join(lines(spec)) for spec in reports))
    if len(unread) == 1 and all(spec.verdict == "pass" or spec.error for spec in reports):
        raise unread[0]
    if report.failed:
        failed = sum(spec.verdict == "fail" for spec in reports)
        who = f"{failed} of {len(reports)} fail" if len(reports) > 1 else f"{specs[0]} fails"
        raise AuditFailedError(
            f"{who} the audit for {', '.join(map(str, devices))}",
            hint="each line marked error says what is missing; build for the device, or take another wheel",
        )


def _devices(arch: str | None, device: str | None) -> tuple[Device, ...]:
    from orchestrator.errors import UsageError
    from orchestrator.model.arch import Device, devices_served, parse_request

    served = None if device is None else Device.parse(device)
    if arch is not None:
        return devices_served(parse_request(arch, served), served)
    if served is None:
        raise UsageError(
            "--arch is missing", hint="name what it should serve, such as --arch 12.1a for a DGX Spark"
        )
    return (served,)
