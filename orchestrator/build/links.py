"""Links in a step's scratch folder: other names for files of layers, which are read-only and shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import BuildFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def make_links(links: Mapping[str, str], work: Path) -> None:
    """Make links, anew where a former run left them.

    Args:
        links: path below `work` -> the file or folder it points to.
        work: the step's scratch folder, `{work}`.

    Raises:
        BuildFailedError: a target is not there, or a place is taken by something else.
    """
    for name, target in links.items():
        place = work / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        elif place.exists():
            raise BuildFailedError(
                f"the link {name} of the recipe has no room: something lies there",
                where=str(place),
                hint="give it another name in `build.links`",
            )
        place.symlink_to(target)
        if not place.exists():
            raise BuildFailedError(
                f"the link {name} of the recipe leads to nothing",
                where=target,
                hint="let `build.requires` name what holds it, or mend `build.links`, and lock again",
            )
