"""What a recipe refuses although it could be compiled: entries that leave kernels without code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import ArchError
from orchestrator.model.arch import normal_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.model.arch import Entry
    from orchestrator.model.recipe import ArchLimit


def refuse_beyond(entries: tuple[Entry, ...], limits: Sequence[ArchLimit], *, name: str) -> None:
    """Refuse effective entries that a recipe's limits do not allow.

    Args:
        entries: what the component would be built for.
        limits: the recipe's.
        name: the recipe.

    Raises:
        ArchError: with the recipe's reason, and what to ask for.
    """
    for limit in limits:
        own = tuple(entry for entry in entries if entry.arch.major == limit.major)
        wrong = tuple(entry for entry in own if (entry.arch.suffix or "none") not in limit.suffixes)
        if wrong and limit.suffixes:
            what = f"of {limit.major}.x it takes {_told(limit)} only, not {normal_form(wrong)}"
        elif limit.at_most is not None and len(own) > limit.at_most:
            what = f"{normal_form(own)} are {len(own)} entries, and it takes at most {limit.at_most}"
        else:
            continue
        raise ArchError(
            f"{name} cannot be built for {normal_form(entries)}: {what}: {limit.reason}",
            where=f"recipe {name}, arch.limits",
            hint=f"ask for {limit.instead}",
        )


def _told(limit: ArchLimit) -> str:
    words = (
        "what has no suffix" if suffix == "none" else f"{limit.major}.x{suffix}" for suffix in limit.suffixes
    )
    return " or ".join(words)
