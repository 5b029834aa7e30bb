"""What audits said of published wheels, each under its audit key: `audits/<audit key>.json`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from orchestrator.errors import NoSpaceError, StoreError
from orchestrator.store.atomic import write_bytes
from orchestrator.store.manifest import Audit, check_key

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home


def read_audit(home: Home, key: str) -> Audit | None:
    """Return what an audit said, or None when it was never made, or the file cannot be believed."""
    try:
        audit = msgspec.json.decode(_path(home, key).read_bytes(), type=Audit)
    except (OSError, ValueError):  # DecodeError is a ValueError
        return None
    return audit if audit.key == key else None


def keep_audit(home: Home, audit: Audit) -> None:
    """Keep what an audit said; where nothing can be written, the next run audits again."""
    with suppress(StoreError, NoSpaceError):
        write_bytes(_path(home, audit.key), msgspec.json.encode(audit) + b"\n", durable=False)


def _path(home: Home, key: str) -> Path:
    check_key(key)
    return home.audits / f"{key}.json"
