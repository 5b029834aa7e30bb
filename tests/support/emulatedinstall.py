"""sparkbuild of this checkout, installed on an emulated machine as a person would install it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from debiantree import run

if TYPE_CHECKING:
    from emulation import Emulation

PLACE = Path("/opt/sparkbuild")
"""Its virtual environment, as seen from inside."""
SPARKBUILD = PLACE / "bin" / "sparkbuild"
_CHECKOUT = Path(__file__).resolve().parents[2]
_PIP = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check")
_GLIBC = range(36, 16, -1)
"""Minor numbers of the manylinux tags that Debian 12 carries."""


def install(machine: Emulation, wheels: Path) -> None:
    """Install sparkbuild and what it needs by the machine's own Python; what it needs only if that changed.

    Args:
        machine: where.
        wheels: a folder for them.
    """
    shutil.rmtree(wheels, ignore_errors=True)
    run(*_PIP, "wheel", "-q", "--no-deps", "-w", wheels / "own", _CHECKOUT)
    (own,) = (wheels / "own").glob("*.whl")
    tags = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in _GLIBC))
    target = ("--only-binary", ":all:", "--python-version", machine.python, "--implementation", "cp")
    platforms = [f"--platform={tag}" for tag in tags]
    run(*_PIP, "download", "-q", "-d", wheels / "needed", *target, *platforms, own)
    needed = sorted(path for path in (wheels / "needed").glob("*.whl") if path.name != own.name)
    (pip,) = (path for path in needed if path.name.startswith("pip-"))
    options = ("--python", PLACE / "bin" / "python", "install", "-q", "--no-index", "--no-deps")
    installer = ("/usr/bin/python3", pip / "pip", *options)
    place = machine.tree / PLACE.relative_to("/")
    marker = place / "needed"
    names = "\n".join(path.name for path in needed)
    if not marker.exists() or marker.read_text() != names:
        shutil.rmtree(place, ignore_errors=True)
        run(*machine.command("/usr/bin/python3", "-m", "venv", "--without-pip", PLACE))
        run(*machine.command(*installer, *needed, shared=(wheels,)))
        marker.write_text(names)
    run(*machine.command(*installer, "--force-reinstall", own, shared=(wheels,)))
