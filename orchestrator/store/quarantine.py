"""Where bytes go that are not what they should be: kept for a look, never used again."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrator.store.atomic import disk_errors

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home


def quarantine(home: Home, path: Path, why: str) -> Path | None:
    """Move a folder or file of the store out of the way; call it under `locks.guard`.

    Returns:
        Where it lies now, beside a `.why` file; None when another process was faster.

    Raises:
        StoreError, NoSpaceError: it could not be moved.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = home.quarantine / f"{stamp}.{path.parent.name}.{path.name[:100]}.{secrets.token_hex(3)}"
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.rename(target)
        except FileNotFoundError:
            return None
    with suppress(OSError):  # the move is what counts; a full disk must not undo it
        os.utime(target)  # its age is counted from now
        target.with_name(f"{target.name}.why").write_text(f"{path}\n{why}\n", encoding="utf-8")
    return target
