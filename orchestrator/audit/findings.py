"""A finding: something about a file or a wheel that a person should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One finding. `error` makes the audit fail; `code` is stable and meant for programs."""

    level: Level
    code: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the three fields under their names."""
        return {"level": self.level, "code": self.code, "text": self.text}
