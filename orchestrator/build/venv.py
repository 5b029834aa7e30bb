"""Build environments: a venv without pip, and a `.pth` line for each read-only layer it sees."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import BuildFailedError, MachineError, NoSpaceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import SimpleNamespace
    from typing import BinaryIO

    from installer.records import RecordEntry
    from installer.utils import Scheme

PTH_NAME = "sparkbuild-layers.pth"
_INTERPRETER = re.compile(r"python[\d.]*")


@dataclass(frozen=True, slots=True)
class Environment:
    """A build environment."""

    prefix: Path
    python: Path
    site: Path
    """Its own site-packages; searched before the layers."""
    bin: Path
    layers: tuple[Path, ...]
    """Folders with `site`, and maybe `scripts` and `data`; the first has precedence."""

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Folders in which its Python looks for distributions, in order."""
        return (self.site, *(layer / "site" for layer in self.layers))


def make_environment(dest: Path, *, layers: Sequence[Path] = ()) -> Environment:
    """Make a venv of the running Python at `dest`, which must be missing or empty, and return it.

    Costs about 2 ms and no process. Console scripts of the layers' distributions are written into `bin`,
    files of `<layer>/scripts` are linked there, and files of `<layer>/data` below the prefix.

    Raises:
        NoSpaceError: the disk is full.
        MachineError: the folder cannot be made, or is not empty.
    """
    import errno

    try:
        if dest.exists() and any(dest.iterdir()):
            raise MachineError("the folder is not empty", where=str(dest), hint="remove it")
        environment = _bare(dest, tuple(layers))
        # addsitedir, not a plain line: .pth files inside a layer count too.
        lines = [f"import site; site.addsitedir({str(layer / 'site')!r})\n" for layer in layers]
        (environment.site / PTH_NAME).write_text("".join(lines), encoding="utf-8")
        for layer in reversed(layers):  # the first layer has the last word
            _scripts(environment, layer / "scripts")
            _entry_points(environment, layer / "site")
            _data(environment, layer / "data")
    except OSError as error:
        kind = NoSpaceError if error.errno in (errno.ENOSPC, errno.EDQUOT) else MachineError
        raise kind(
            f"the build environment cannot be made: {error.strerror}",
            where=str(error.filename or dest),
            hint="free some space or check the folder's permissions",
        ) from error
    return environment


def environment_at(prefix: Path, layers: Sequence[Path]) -> Environment:
    """Return the environment that `make_environment` made at `prefix`; nothing is read or written."""
    folder = prefix.absolute()
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    programs = folder / "bin"
    return Environment(folder, programs / "python", site, programs, tuple(layers))


def add_wheels(environment: Environment, wheels: Sequence[Path]) -> None:
    """Unpack built wheels into the environment's own site-packages, with their scripts.

    Raises:
        BuildFailedError: a file is no wheel, or holds a file that is there already.
    """
    if not wheels:
        return
    import zipfile

    import installer
    from installer.destinations import SchemeDictionaryDestination
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile

    class Destination(SchemeDictionaryDestination):
        """Its scripts and data replace those of layers, which are links and must not be written through."""

        def write_to_fs(
            self,
            scheme: Scheme,
            path: str,
            stream: BinaryIO,
            is_executable: bool,  # noqa: FBT001 - the library's
        ) -> RecordEntry:
            if scheme in ("scripts", "data") and ".." not in Path(path).parts:
                _replace(Path(self.scheme_dict[scheme], path))
            return super().write_to_fs(scheme, path, stream, is_executable or scheme == "scripts")

    site, prefix = str(environment.site), str(environment.prefix)
    schemes = {"purelib": site, "platlib": site, "scripts": str(environment.bin), "data": prefix}
    for wheel in wheels:
        scheme = {
            **schemes,
            "headers": str(environment.prefix / "include" / "site" / wheel.name.split("-")[0]),
        }
        destination = Destination(scheme, interpreter=str(environment.python), script_kind="posix")
        try:
            with WheelFile.open(wheel) as source:
                installer.install(source, destination, additional_metadata={"INSTALLER": b"sparkbuild\n"})
        except (InstallerError, ValueError, KeyError, FileExistsError, zipfile.BadZipFile) as error:
            raise BuildFailedError(
                f"the wheel cannot be unpacked into the build environment: {error}",
                where=str(wheel),
                hint="build the recipe that made it again",
            ) from error


def _bare(dest: Path, layers: tuple[Path, ...]) -> Environment:
    import venv

    class Builder(venv.EnvBuilder):
        """Without the activation scripts: nobody activates it."""

        def setup_scripts(self, context: SimpleNamespace) -> None:
            del context

    try:
        Builder(with_pip=False, symlinks=True).create(dest)
    except ValueError as error:  # a path with `:` in it
        raise MachineError(
            str(error), where=str(dest), hint="choose another folder by SPARKBUILD_HOME"
        ) from error
    return environment_at(dest, layers)


def _replace(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


def _scripts(environment: Environment, folder: Path) -> None:
    """Link files; those with the placeholder `#!python` (wheel format specification) are written anew."""
    if not folder.is_dir():
        return
    from installer.utils import fix_shebang

    for file in sorted(folder.iterdir()):
        if _INTERPRETER.fullmatch(file.name):
            continue  # the environment's own
        target = _replace(environment.bin / file.name)
        with file.open("rb") as stream:
            begin = stream.read(8)
            stream.seek(0)
            if begin == b"#!python":
                with fix_shebang(stream, str(environment.python)) as fixed, target.open("wb") as out:
                    shutil.copyfileobj(fixed, out)
                target.chmod(0o755)
                continue
        target.symlink_to(file)


def _entry_points(environment: Environment, site: Path) -> None:
    """Write the console and GUI scripts of all distributions in `site`."""
    if not site.is_dir():
        return
    found = sorted(entry.path for entry in os.scandir(site) if entry.name.endswith(".dist-info"))
    texts = [
        (folder, path.read_text("utf-8"))
        for folder in found
        if (path := Path(folder, "entry_points.txt")).is_file()
    ]
    if not texts:
        return
    from configparser import Error as IniError

    from installer.scripts import Script
    from installer.utils import parse_entrypoints

    for folder, text in texts:
        try:
            entries = list(parse_entrypoints(text))
        except (ValueError, AssertionError, IniError) as error:
            raise MachineError(
                f"entry_points.txt: {error}", where=folder, hint="the wheel is malformed"
            ) from error
        for name, module, attribute, section in entries:
            if "/" in name or name.startswith("."):
                raise MachineError(f"a script named {name!r}", where=folder, hint="the wheel is malformed")
            if _INTERPRETER.fullmatch(name):
                continue
            _, data = Script(name, module, attribute, section).generate(str(environment.python), "posix")
            target = _replace(environment.bin / name)
            target.write_bytes(data)
            target.chmod(0o755)


def _data(environment: Environment, folder: Path) -> None:
    """Link each file of a layer's data folder to its place below the prefix."""
    for parent, _, names in os.walk(folder):
        place = environment.prefix / os.path.relpath(parent, folder)
        for name in names:
            place.mkdir(parents=True, exist_ok=True)
            if not (place / name).exists():
                (place / name).symlink_to(Path(parent, name))
