"""When a folder of the store was last of use: the time of a stamp file in it, renewed once a day."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STAMP = ".used"
DAY_S = 24 * 60 * 60


def mark_used(folder: Path) -> None:
    """Note that `folder` was of use now; one stat and no write when that was noted within a day."""
    stamp = folder / STAMP
    with suppress(OSError):  # a store that may only be read is still of use
        try:
            if time.time() - stamp.stat().st_mtime < DAY_S:
                return
        except FileNotFoundError:
            stamp.touch()
        else:
            os.utime(stamp)


def last_used(path: Path) -> float:
    """Return when `path` was last of use or made, in seconds since the epoch.

    Raises:
        OSError: it is gone.
    """
    latest = path.lstat().st_mtime
    for name in (STAMP, "used"):
        with suppress(OSError):
            latest = max(latest, (path / name).stat().st_mtime)
    return latest
