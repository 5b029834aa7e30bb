"""The JSON schema of the audit's JSON, shipped with the package."""

from __future__ import annotations

from importlib.resources import files


def schema_text() -> str:
    """Return the schema of `sparkbuild.audit/1` as JSON."""
    return files(__name__).joinpath("audit-1.json").read_text(encoding="utf-8")
