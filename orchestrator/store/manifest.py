"""A manifest: which files an artifact holds, how they came to be, and what its audit said."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Literal

import msgspec

from orchestrator.errors import BuildFailedError, StoreError
from orchestrator.store.atomic import open_plain

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Literal["sparkbuild.manifest/1"] = "sparkbuild.manifest/1"
FILE_NAME = "manifest.json"
_RESERVED = (FILE_NAME, "simple")

_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}")
_FILE = re.compile(r"[^./\x00][^/\x00]{0,254}")


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an artifact; (size, mtime_ns, inode) is what a cheap look compares."""

    name: str
    sha256: str
    size: int
    """Bytes."""
    mtime_ns: int
    inode: int


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit said of the artifact, under the audit's own key."""

    key: str
    verdict: str
    """`pass` or `fail`."""
    coverage: str
    """One line for people."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the build took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    disk_bytes: int = 0
    """Its tree and wheels when it ended; 0: not measured."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact's story. `Store.put` fills in `key`, `files`, `created`."""

    schema: Literal["sparkbuild.manifest/1"] = SCHEMA
    key: str = ""
    """The build key."""
    name: str
    """The recipe's."""
    version: str
    files: tuple[StoredFile, ...] = ()
    ingredients: dict[str, str] = {}
    """What went into the key: name of the ingredient -> its value or digest."""
    audit: Audit | None = None
    cost: Cost = Cost()
    network: str = ""
    """What was between the build's commands and the network: `namespace`, `variables` or `open`."""
    created: str = ""
    """UTC, ISO 8601."""
    log: str | None = None
    """Path of the build's log, while it is kept."""
    seal: str = ""
    """On disk: sha256 of this manifest without it, so that a flipped bit shows. In memory: empty."""


class BadManifestError(Exception):
    """A manifest that cannot be believed; the text says why. Stays inside the store."""


def check_key(key: str) -> None:
    """Make sure that `key` is fit to name a folder.

    Raises:
        StoreError: it is not.
    """
    if not _KEY.fullmatch(key):
        raise StoreError(f"{key!r} cannot be a key", hint="keys are letters, digits, and _ . - inside")


def check_file_name(name: str) -> None:
    """Make sure that an artifact may hold a file of this name.

    Raises:
        BuildFailedError: a path, a hidden name, the manifest's own, or that of the index beside the files.
    """
    if not _FILE.fullmatch(name) or name in _RESERVED:
        raise BuildFailedError(
            f"the build left a file named {name!r}, which cannot be stored",
            hint="let the recipe name its outputs otherwise: plain file names, not hidden, and none of "
            f"{', '.join(_RESERVED)}",
        )


def encode(manifest: Manifest) -> bytes:
    """Return the canonical JSON of a manifest, sealed."""
    sealed = msgspec.structs.replace(manifest, seal=_seal(manifest))
    return msgspec.json.format(msgspec.json.encode(sealed, order="sorted"), indent=1) + b"\n"


def decode(data: bytes, key: str) -> Manifest:
    """Return the manifest that `data` holds.

    Args:
        data: the whole file.
        key: the key it must be of.

    Raises:
        BadManifestError: not JSON, not a manifest, altered, or of another key.
    """
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadManifestError(f"manifest unreadable: {error}") from error
    if manifest.seal != _seal(manifest):
        raise BadManifestError("manifest altered: its seal does not fit")
    if manifest.key != key:
        raise BadManifestError(f"manifest is of another key, {manifest.key[:12]}")
    return msgspec.structs.replace(manifest, seal="")


def read(folder: Path) -> Manifest:
    """Return the manifest in an artifact's folder, which is named by its key.

    Raises:
        BadManifestError: missing or not to be believed.
    """
    try:
        with open_plain(folder / FILE_NAME, follow_links=False) as stream:
            data = stream.read()
    except FileNotFoundError as error:
        raise BadManifestError(f"manifest missing: {error.strerror}") from error
    except OSError as error:
        raise BadManifestError(f"manifest cannot be read: {error.strerror}") from error
    return decode(data, folder.name)


def _seal(manifest: Manifest) -> str:
    bare = msgspec.structs.replace(manifest, seal="")
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()
