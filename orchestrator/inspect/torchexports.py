"""The names that a torch exports: what wheels built against it may leave undefined."""

from __future__ import annotations

import mmap
import re
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.audit.scan import scan
from orchestrator.audit.stream import MappedStream
from orchestrator.errors import SpecError
from orchestrator.inspect.zipped import Damage, WheelFile

if TYPE_CHECKING:
    import zipfile
    from pathlib import Path

    from orchestrator.audit.dynamic import Linkage
    from orchestrator.audit.facts import FileFacts

_LIBRARY = re.compile(r"lib(?:torch|c10|shm|caffe2)\w*\.so")
_HINT = "name a torch wheel, the folder of an installed torch, or the site-packages that it lies in"


def torch_exports(place: Path) -> frozenset[str]:
    """Return the names, mangled, that the libraries of a torch export: libtorch*, libc10*, libshm.

    A wheel is streamed, which takes seconds; keep the answer.

    Args:
        place: a torch wheel, an installed `torch` folder, or the folder that holds that one.

    Raises:
        SpecError: there is no torch, or one of its libraries cannot be read.
    """
    if place.is_file():
        found = _of_wheel(place)
    else:
        folder = next(
            (path for path in (place / "torch" / "lib", place / "lib") if (path / "libc10.so").is_file()),
            None,
        )
        found = _of_folder(folder) if folder else []
    if not any(linkage.soname == "libc10.so" for linkage in found):
        raise SpecError("it holds no torch with libraries", where=str(place), hint=_HINT)
    return frozenset[str]().union(*(linkage.defined for linkage in found))


def _of_folder(folder: Path) -> list[Linkage]:
    return [_of_file(path) for path in sorted(folder.iterdir()) if _LIBRARY.fullmatch(path.name)]


def _of_file(path: Path) -> Linkage:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _checked(scan(path.name, lambda: MappedStream(data), linked=True), str(path))
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise SpecError(f"it cannot be read: {error}", where=str(path), hint=_HINT) from error


def _of_wheel(path: Path) -> list[Linkage]:
    with WheelFile(path) as wheel:
        return [
            _of_member(wheel, info)
            for info in wheel.members
            if info.filename.startswith("torch/lib/") and _LIBRARY.fullmatch(info.filename[10:])
        ]


def _of_member(wheel: WheelFile, info: zipfile.ZipInfo) -> Linkage:
    where = f"{wheel.path}: {info.filename}"
    damage = Damage()
    facts = scan(info.filename, partial(wheel.stream, info, damage), linked=True)
    if damage.text:
        raise SpecError(damage.text, where=where, hint="get the wheel again")
    return _checked(facts, where)


def _checked(facts: FileFacts, where: str) -> Linkage:
    if facts.linkage is not None:
        return facts.linkage
    raise SpecError("it is no library that can be read", where=where, hint=_HINT)
