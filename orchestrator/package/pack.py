"""A wheel packed from files that a build left, and from texts of ours; its bytes follow from those alone.

The format is that of the packaging specifications: binary distribution format 1.0, core metadata 2.4, entry
points.
"""

from __future__ import annotations

import io
import stat
import time
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from orchestrator.errors import BuildFailedError
from orchestrator.model.placeholders import filled
from orchestrator.package.rewrite import record_text, write_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from orchestrator.model.recipe import PackedWheel

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a wheel is packed from, besides what its recipe says."""

    version: str
    """Of the wheel, with its local part, normalized (PEP 440)."""
    sm: str
    """The effective arches, such as `sm121a` or `sm90a_sm121a`."""
    platform: str
    """As in a wheel's tag, such as `linux_aarch64`."""
    roots: Mapping[str, Path]
    """`out` and `src` -> folder that globs are relative to."""
    texts: Mapping[str, Path]
    """Name in the recipe -> file of ours."""


def pack_wheel(wheel: PackedWheel, parcel: Parcel, *, epoch: int, into: Path) -> Path:
    """Write the wheel into folder `into` and return it; all its times are `epoch`, seconds since 1970.

    Raises:
        BuildFailedError: a glob matches nothing, two files have one place, or the wheel is there already.
    """
    from packaging.utils import canonicalize_name

    words = {"sm": parcel.sm, "version": parcel.version, "platform": parcel.platform}
    name = filled(wheel.distribution, words)
    stem = f"{canonicalize_name(name).replace('-', '_')}-{parcel.version}"
    tag = filled(wheel.tag, words)
    words["info"] = info = f"{stem}.dist-info"
    target = into / f"{stem}-{tag}.whl"
    if target.exists():
        raise BuildFailedError(
            f"{target.name} is packed twice, or was built too",
            where=str(into),
            hint="give each of the recipe's `wheels` a name of its own, and let `outputs` name the others",
        )
    members: dict[str, Path | bytes] = {}
    for place, source in _places(wheel, parcel, words):
        if place in members:
            raise BuildFailedError(
                f"{place} of {target.name} comes from {source} and another file",
                where=str(source),
                hint="let the recipe's `files` and `texts` name each place once",
            )
        members[place] = source
    licenses = sorted(
        place.removeprefix(f"{info}/licenses/") for place in members if place.startswith(f"{info}/licenses/")
    )
    members[f"{info}/METADATA"] = _metadata(wheel, name, words, licenses)
    members[f"{info}/WHEEL"] = _wheel_file(tag)
    if wheel.entry_points:
        members[f"{info}/entry_points.txt"] = _entry_points(wheel.entry_points, words)
    _write(target, members, record=f"{info}/RECORD", epoch=epoch)
    return target


def _places(wheel: PackedWheel, parcel: Parcel, words: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield each file's place in the wheel and where it comes from."""
    for glob, folder in wheel.files.items():
        root, _, pattern = glob.removeprefix("{").partition("}/")
        found = sorted(path for path in parcel.roots[root].glob(pattern) if path.is_file())
        # A link could lead anywhere.
        found = [path for path in found if not path.is_symlink()]
        if not found:
            raise BuildFailedError(
                f"the build left nothing that matches {glob}",
                where=str(parcel.roots[root]),
                hint="the recipe's `wheels` say what is packed; see the log for what was built",
            )
        fixed = parcel.roots[root].joinpath(*_fixed(pattern))
        for path in found:
            parts = [filled(folder, words).strip("/"), path.relative_to(fixed).as_posix()]
            yield "/".join(part for part in parts if part not in {"", "."}), path
    for place, text in wheel.texts.items():
        yield filled(place, words), parcel.texts[text]


def _fixed(pattern: str) -> list[str]:
    """Return the folders that a glob spells out before its first wildcard."""
    folders = pattern.split("/")[:-1]
    wild = next((index for index, part in enumerate(folders) if _WILD & set(part)), len(folders))
    return folders[:wild]


def _metadata(wheel: PackedWheel, name: str, words: Mapping[str, str], licenses: Iterable[str]) -> bytes:
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", name),
        ("Version", words["version"]),
        ("Summary", wheel.summary),
    ]
    fields += [("License-Expression", wheel.license)] if wheel.license else []
    fields += [("License-File", file) for file in licenses]
    fields += [("Requires-Python", wheel.python)] if wheel.python else []
    fields += [("Requires-Dist", filled(text, words)) for text in wheel.requires]
    return "".join(f"{field}: {value}\n" for field, value in fields).encode()


def _wheel_file(tag: str) -> bytes:
    from packaging.tags import parse_tag

    pure = "true" if tag.endswith("-none-any") else "false"
    tags = "".join(f"Tag: {each}\n" for each in sorted(map(str, parse_tag(tag))))
    return f"Wheel-Version: 1.0\nGenerator: sparkbuild\nRoot-Is-Purelib: {pure}\n{tags}".encode()


def _entry_points(groups: Mapping[str, Mapping[str, str]], words: Mapping[str, str]) -> bytes:
    blocks = []
    for group, entries in sorted(groups.items()):
        lines = [
            f"{filled(name, words)} = {filled(value, words)}\n" for name, value in sorted(entries.items())
        ]
        blocks.append(f"[{group}]\n{''.join(lines)}")
    return "\n".join(blocks).encode()


def _write(target: Path, members: Mapping[str, Path | bytes], *, record: str, epoch: int) -> None:
    """Write the zip: files by name, what describes them last, as the format recommends."""
    info = record.rpartition("/")[0]
    stamp = time.gmtime(epoch)[:6]
    rows: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(target, "w") as archive:
        for place in sorted(members, key=lambda place: (place.startswith(f"{info}/"), place)):
            source = members[place]
            entry = _entry(place, stamp, 0o755 if _is_program(source) else 0o644)
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            with _opened(source) as data:
                rows.append(write_member(archive, entry, data, size=size))
        archive.writestr(_entry(record, stamp, 0o644), record_text(rows, record))


def _entry(place: str, stamp: tuple[int, ...], mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(place, (stamp[0], stamp[1], stamp[2], stamp[3], stamp[4], stamp[5]))
    entry.external_attr = (stat.S_IFREG | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _is_program(source: Path | bytes) -> bool:
    return not isinstance(source, bytes) and bool(source.stat().st_mode & stat.S_IXUSR)


def _opened(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
