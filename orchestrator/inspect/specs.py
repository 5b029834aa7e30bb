"""What `sparkbuild audit` can read: a wheel, a folder, a file, a package of the index, an environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.report import judge_spec
from orchestrator.errors import SpecError
from orchestrator.inspect.folder import read_file, read_found, walk
from orchestrator.inspect.misplaced import check_tree
from orchestrator.inspect.torchexports import torch_exports
from orchestrator.inspect.wheel import audit_wheels, linked_together
from orchestrator.report.events import silent

if TYPE_CHECKING:
    from orchestrator.audit.findings import Finding
    from orchestrator.audit.question import Question
    from orchestrator.audit.report import SpecReport
    from orchestrator.inspect.installed import Installed
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home


def audit_spec(
    spec: str,
    question: Question,
    *,
    platform: str | None = None,
    python: str | None = None,
    home: Home | None = None,
    emit: Emit = silent,
) -> SpecReport:
    """Audit whatever `spec` names.

    Args:
        spec: the path of a wheel (`.whl` or `.zip`), of a folder that is searched, or of one file; or, when
            there is no such path, `name==version` of a package on the index.
        question: what is asked.
        platform: of a package, such as `manylinux_2_28_aarch64`; this machine's by default.
        python: of a package, such as `3.12`; this interpreter's version by default.
        home: where a package's wheel is kept; `Home.default()` by default.
        emit: hears of a download.

    Raises:
        SpecError: it is not there, cannot be read, or is no wheel though its name says so.
        SourceError: a package could not be had.
        UsageError: no such platform or Python.
    """
    path = Path(spec)
    if not _exists(path):
        from orchestrator.inspect.indexed import fetch_index_wheel, parse_index_name
        from orchestrator.store.home import Home

        if (name := parse_index_name(spec)) is None:
            raise SpecError(
                "there is no such file or folder",
                where=spec,
                hint="name the wheel, folder or file to audit, or a package of the index as name==version",
            )
        path = fetch_index_wheel(
            name, platform=platform, python=python, home=home or Home.default(), emit=emit
        )
    if path.is_file() and path.suffix in (".whl", ".zip"):
        return audit_wheels([path], question, spec=spec)
    findings: list[Finding] = []
    if path.is_dir():
        files = sorted(walk(path, findings))
        facts = [found for name in files for found in read_found(path / name, name, findings, question)]
    elif path.is_file():
        # alone it cannot be held against others, and half of the time would go into that
        linked = question.torch is not None
        files, facts = [path.name], [read_file(path, path.name, question, linked=linked)]
    else:
        raise SpecError(
            "it is neither a file nor a folder", where=spec, hint="name a wheel, a folder, or a file"
        )
    if path.is_dir():
        findings += check_tree(path)
    kept = [found for found in facts if found.kind != "other" or found.findings]
    if not kept and not findings:
        raise SpecError(
            "nothing in it can hold device code"
            if path.is_dir()
            else "it is nothing that can hold device code",
            where=spec,
            hint="name wheels, folders with them or with .so files, or a .so, .o, .a, .cubin or .fatbin file",
        )
    return judge_spec(spec, linked_together(kept, question), question, files=files, findings=findings)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # longer than a path can be, or in a folder that may not be entered
        return False


def audit_environment(python: str | None, question: Question) -> tuple[SpecReport, ...]:
    """Audit what is installed, one report a distribution that has binaries, by name; called `torch 2.14.1`.

    Args:
        python: an interpreter, the folder of a virtual environment, or None for the active one.
        question: what is asked.

    Raises:
        SpecError: there is no such environment, it cannot be asked, or it has no binaries.
    """
    from orchestrator.inspect.environment import environment_of, find_python
    from orchestrator.inspect.installed import distributions

    found = find_python(python)
    environment = environment_of(found)
    if question.torch is None and environment.torch is not None:
        question = replace(question, torch=torch_exports(environment.torch))
    reports = [_installed(one, question) for one in distributions(environment)]
    there = tuple(report for report in reports if report is not None)
    if not there:
        raise SpecError(
            "nothing that is installed there can hold device code",
            where=str(found),
            hint="name another environment: an interpreter, or the folder of a virtual environment",
        )
    return there


def audit_distribution(root: Path, name: str, question: Question) -> SpecReport:
    """Audit one distribution that is installed in a folder, called `torch 2.14.1`.

    Args:
        root: a folder that packages are imported from.
        name: its normalized name.
        question: what is asked.

    Raises:
        SpecError: it is not there.
    """
    from orchestrator.inspect.installed import distribution

    one = distribution(root, name)
    if one is None:
        raise SpecError(f"{name} is not installed there", where=str(root))
    return _installed(one, question) or judge_spec(str(one), [], question, files=one.files)


def _installed(one: Installed, question: Question) -> SpecReport | None:
    """Judge a distribution; None when its files only had the names of binaries."""
    facts = [read_file(one.root / file, file, question) for file in one.files]
    kept = [found for found in facts if found.kind != "other" or found.findings]
    if not kept and not one.at_fault:
        return None
    kept = linked_together(kept, question)
    return judge_spec(str(one), kept, question, files=one.files, findings=one.findings)
