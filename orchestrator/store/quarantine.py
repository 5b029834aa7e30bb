"""Where bytes go that are not what they should be: kept for a look, never used again."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrator.store import trees
from orchestrator.store.atomic import disk_errors, temporary_name

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
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)  # a locked folder cannot be moved
            path.rename(target)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            if (hidden := _across(path, target)) is not None:
                return hidden
    with suppress(OSError):  # the move is what counts; a full disk must not undo it
        os.utime(target, follow_symlinks=False)  # its age is counted from now
        target.with_name(f"{target.name}.why").write_text(f"{path}\n{why}\n", encoding="utf-8")
    return target


def _across(path: Path, target: Path) -> Path | None:
    """Move to another disk: out of sight by one rename, then copied; where it lies if it got no further.

    Raises:
        OSError: it could not be renamed.
    """
    hidden = path.rename(path.with_name(temporary_name(path.name)))
    try:
        if hidden.is_dir() and not hidden.is_symlink():
            shutil.copytree(hidden, target, symlinks=True)
        else:
            shutil.copy2(hidden, target, follow_symlinks=False)
    except (OSError, RecursionError):
        trees.remove(target)
        return hidden  # not lost yet, and never used: a temporary that gc removes
    trees.remove(hidden)
    return None
