"""A built wheel made ready to be served: our local version, and a zip that depends on its content only."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import lzma
import os
import re
import time
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from orchestrator.errors import BuildFailedError, UsageError

_CHUNK = 1 << 20
_FIRST, _LAST = 315532800, 4354819198
# What zipfile raises for damaged data, unknown methods and encrypted members.
UNREADABLE = (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError, ValueError)


def local_version(*, toolkit: str | None, torch: str | None, arches: tuple[str, ...]) -> str | None:
    """Return what a built wheel's version carries, such as `cu130.torch2141.sm121a`, or None.

    Args:
        toolkit: nvcc's version, such as `13.0.88`; None for a wheel without device code.
        torch: version of the torch that it was built against, if any.
        arches: `sm_` names of the effective arches.
    """
    if toolkit is None or not arches:
        return None
    parts = ["cu" + "".join(toolkit.split(".")[:2])]
    if torch is not None:
        parts.append("torch" + torch.split("+")[0].replace(".", ""))
    parts += [arch.replace("_", "") for arch in arches]
    return ".".join(parts)


def finish_wheel(wheel: Path, *, local: str | None, epoch: int, out: Path) -> Path:
    """Write `wheel` into folder `out` with local version `local` and every time set to `epoch`.

    Members keep their order, bytes and permissions, except METADATA (its Version line), RECORD
    (written anew), and the names of the dist-info and data folders.

    Returns:
        The new wheel.

    Raises:
        BuildFailedError: the file is no wheel (name, dist-info or METADATA).
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import Version

    try:
        _, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise BuildFailedError(f"the build made {wheel.name}, which is no wheel's name: {error}") from error
    new_version = str(Version(f"{version.public}+{local}")) if local else str(version)
    stem, old_version, *tags = wheel.name.removesuffix(".whl").split("-")
    new_name = "-".join([stem, new_version, *tags]) + ".whl"
    folders = {
        f"{stem}-{old_version}{suffix}": f"{stem}-{new_version}{suffix}" for suffix in (".dist-info", ".data")
    }
    stamp = time.gmtime(max(epoch, _FIRST))[:6]
    target = out / new_name
    rows: list[tuple[str, str, str]] = []
    try:
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
            info_folder = _dist_info(old, f"{stem}-{old_version}.dist-info", wheel)
            folders[info_folder] = f"{stem}-{new_version}.dist-info"
            record = f"{folders[info_folder]}/RECORD"
            for item in old.infolist():
                _check_member(item.filename, wheel)
                top, _, rest = item.filename.partition("/")
                name = f"{folders.get(top, top)}/{rest}" if rest else item.filename
                if name in {record, f"{record}.jws", f"{record}.p7s"} or item.is_dir():
                    continue
                entry = zipfile.ZipInfo(name, stamp)
                entry.external_attr = item.external_attr
                entry.compress_type = zipfile.ZIP_DEFLATED
                if name == f"{folders[info_folder]}/METADATA":
                    rows.append(
                        write_member(
                            new, entry, io.BytesIO(_versioned(old.read(item), stem, new_version, wheel))
                        )
                    )
                else:
                    with old.open(item) as data:
                        rows.append(write_member(new, entry, data, size=item.file_size))
            if not any(row[0] == f"{folders[info_folder]}/METADATA" for row in rows):
                raise BuildFailedError(f"{wheel.name} has no METADATA", where=str(wheel))
            entry = zipfile.ZipInfo(record, stamp)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, record_text(rows, record))
    except UNREADABLE as error:
        raise BuildFailedError(f"the build made {wheel.name}, which is no readable zip: {error}") from error
    return target


def _dist_info(wheel: zipfile.ZipFile, expected: str, path: Path) -> str:
    """Return the dist-info folder; its spelling may differ from the file name's."""
    found = {PurePosixPath(name).parts[0] for name in wheel.namelist() if ".dist-info/" in name}
    if len(found) != 1:
        raise BuildFailedError(
            f"{path.name} holds {len(found)} dist-info folders instead of one", where=str(path)
        )
    return expected if expected in found else found.pop()


def _check_member(name: str, wheel: Path) -> None:
    """Refuse names that an installer would refuse, or write outside of the environment."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise BuildFailedError(f"{wheel.name} holds a member named {name!r}", where=str(wheel))


def _versioned(metadata: bytes, stem: str, version: str, path: Path) -> bytes:
    """Return METADATA with its Version line set; only headers are touched, byte for byte.

    Raises:
        BuildFailedError: it has another number of Version lines than one, or the name of another project.
    """
    from packaging.utils import canonicalize_name

    head, blank, body = metadata.partition(b"\n\n")
    lines = head.split(b"\n")
    places = [i for i, line in enumerate(lines) if line.lower().startswith(b"version:")]
    if len(places) != 1:
        raise BuildFailedError(f"METADATA of {path.name} has {len(places)} Version lines", where=str(path))
    names = [
        line.partition(b":")[2].decode("utf-8", "replace") for line in lines if line.lower()[:5] == b"name:"
    ]
    if [canonicalize_name(name.strip()) for name in names] != [canonicalize_name(stem)]:
        said = ", ".join(name.strip() for name in names) or "none"
        raise BuildFailedError(f"METADATA of {path.name} names another project: {said}", where=str(path))
    lines[places[0]] = f"Version: {version}".encode()
    return b"\n".join(lines) + blank + body


def write_member(
    target: zipfile.ZipFile, entry: zipfile.ZipInfo, data: IO[bytes], size: int = 0
) -> tuple[str, str, str]:
    """Copy one member in blocks and return its RECORD row."""
    hasher = hashlib.sha256()
    length = 0
    with target.open(entry, "w", force_zip64=size > zipfile.ZIP64_LIMIT // 2) as out:
        while block := data.read(_CHUNK):
            hasher.update(block)
            length += out.write(block)
    encoded = base64.urlsafe_b64encode(hasher.digest()).rstrip(b"=").decode()
    return entry.filename, f"sha256={encoded}", str(length)


def record_text(rows: list[tuple[str, str, str]], record: str) -> str:
    """Return RECORD: the rows of all members, and one of its own, without a hash."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
    return text.getvalue()


def epoch_of_commands() -> int:
    """Return SOURCE_DATE_EPOCH for builds, in seconds: the caller's, or 1980-01-01, the first day of zip.

    Raises:
        UsageError: the variable holds no time that a zip can say (1980 to 2107).
    """
    text = os.environ.get("SOURCE_DATE_EPOCH", str(_FIRST))
    if not re.fullmatch(r"[0-9]{1,10}", text) or not _FIRST <= int(text) <= _LAST:
        raise UsageError(
            f"SOURCE_DATE_EPOCH={text[:40]!r} is no time between 1980 and 2107",
            hint="unset it, or give seconds since 1970, such as 1700000000",
        )
    return int(text)
