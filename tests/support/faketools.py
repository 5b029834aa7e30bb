"""Small scripts that stand where tools are looked for; they run as real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NVCC = """\
echo called >> {log}
case "$*" in
  *--version*) echo "Cuda compilation tools, release {release}, V{version}" ;;
  *-dryrun*) echo '#$ _SPACE_= '; echo '#$ TOP={root}/bin/..' ;;
  *) {assemble} ;;
esac
"""

ASSEMBLE = 'while [ "$1" != -o ]; do shift; done; echo image > "$2"'


def assembler(*able: str, calls: str = "/dev/null") -> str:
    """Return a script that takes the options of ptxas and assembles for these arches only.

    Args:
        able: such as `sm_121a`.
        calls: a file that gets a line for each call.
    """
    known = "|".join(able)
    refuse = "echo \"ptxas fatal   : Value '$2' is not defined for option 'gpu-name'\"; exit 255"
    return (
        f'#!/bin/sh\necho "$2" >> {calls}\ncase "$2" in\n  {known}) ;;\n  *) {refuse} ;;\nesac\n{ASSEMBLE}\n'
    )


def script(path: Path, body: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def toolkit(
    root: Path,
    *,
    version: str = "13.0.88",
    headers: Iterable[str] = (),
    libraries: Iterable[str] = (),
    assemble: str = ASSEMBLE,
) -> Path:
    """Make a folder that looks like a CUDA toolkit; its nvcc logs each call in `calls` beside it.

    Args:
        root: where.
        version: what nvcc says.
        headers: below `include`.
        libraries: below `lib64`.
        assemble: what nvcc does with a unit.
    """
    release = ".".join(version.split(".")[:2])
    body = NVCC.format(version=version, release=release, root=root, log=root / "calls", assemble=assemble)
    script(root / "bin/nvcc", body)
    for tool in ("bin/ptxas", "bin/fatbinary", "nvvm/bin/cicc"):
        script(root / tool, f"echo {tool}")
    for name in ("include/cuda.h", *(f"include/{header}" for header in headers)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"// {name}\n")
    (root / "lib64").mkdir()
    for name in libraries:
        (root / "lib64" / name).write_text(name)
    return root


def calls(log: Path) -> int:
    """Return how often a logging script ran."""
    return len(log.read_text().splitlines()) if log.exists() else 0
