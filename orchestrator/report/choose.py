"""Which renderer listens to a run's events."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, Protocol, TextIO, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.report.events import Event

LogFormat = Literal["auto", "board", "plain", "github", "gitlab", "jsonl"]
FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)


class Renderer(Protocol):
    """Listens to events from any thread until it is closed. Neither raises when its stream is gone."""

    def __call__(self, event: Event, /) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave a clean line to whoever writes next."""


def renderer(stream: TextIO, log_format: LogFormat = "auto") -> Renderer:
    """Return the renderer that writes `log_format` to `stream`.

    `auto` is groups in jobs of GitHub and GitLab, the board on a terminal that nobody calls CI, else plain
    lines. A board without a terminal becomes plain lines too.
    """
    from orchestrator.report.output import Output

    chosen = _automatic(os.environ) if log_format == "auto" else log_format
    if chosen == "github" or chosen == "gitlab":  # noqa: PLR1714 (mypy narrows only this)
        from orchestrator.report.groups import Groups

        return Groups(stream, chosen)
    if chosen == "jsonl":
        from orchestrator.report.jsonl import JsonLines

        return JsonLines(stream)
    if chosen == "board" and Output(stream).moves:
        from orchestrator.report.board import Board

        return Board(stream)
    from orchestrator.report.lines import Lines

    return Lines(stream)


def _automatic(environ: Mapping[str, str]) -> LogFormat:
    """Return what the environment asks for; the services say who they are."""
    if environ.get("GITHUB_ACTIONS") == "true":
        return "github"
    if environ.get("GITLAB_CI") == "true":
        return "gitlab"
    return "board" if environ.get("CI", "").lower() in ("", "0", "false") else "plain"
