"""An environment that packages are installed in: `--env [PYTHON]` of an audit. Its interpreter is asked."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import MachineError, SpecError

# -I: neither the user's variables nor the folder where they stand change the answer. It hides the user's
# own site-packages too, which this interpreter has unless it is a virtual environment's.
_QUESTION = """
import json, os, site, sys, sysconfig
user = [] if sys.prefix != sys.base_prefix else [site.getusersitepackages()]
standard = {os.path.realpath(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib")}
standard |= {os.path.join(path, "lib-dynload") for path in standard}
paths = [*user, *sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
roots = [path for path in paths if path and os.path.isdir(path) and os.path.realpath(path) not in standard]
print("\\nsparkbuild:" + json.dumps([sys.version.split()[0], roots]))
"""
_MARK = "sparkbuild:"


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter, and the folders that it imports packages from, in its order."""

    python: Path
    version: str
    """Such as `3.12.4`."""
    roots: tuple[Path, ...]

    @property
    def torch(self) -> Path | None:
        """The folder whose `torch` is imported; None without one."""
        return next((root for root in self.roots if (root / "torch" / "lib").is_dir()), None)


def find_python(named: str | None) -> Path:
    """Return the interpreter that is meant.

    Args:
        named: a path of one, the folder of a virtual environment, or a command; None is the one of the
            active environment (VIRTUAL_ENV), else the `python3` or `python` on PATH.

    Raises:
        SpecError: there is none.
    """
    folder = named or os.environ.get("VIRTUAL_ENV")
    if folder and Path(folder).expanduser().is_dir():
        for name in ("python3", "python"):
            path = Path(folder).expanduser().absolute() / "bin" / name
            if path.exists():
                return path
        what = "no interpreter is in its bin folder"
    elif named is None and not folder:
        for name in ("python3", "python"):
            if (found := shutil.which(name)) is not None:
                return Path(found)
        what = "there is no python3 or python on PATH"
    else:
        # which() takes a path as well, and tells whether it may be run. A link stays one: it makes the venv.
        if named and (found := shutil.which(Path(named).expanduser())) is not None:
            return Path(found).absolute()
        what = "there is no such interpreter or environment"
    raise SpecError(
        what, where=folder, hint="--env takes an interpreter, or the folder of a virtual environment"
    )


def environment_of(python: Path) -> Environment:
    """Ask an interpreter where it imports packages from; takes as long as it needs to start.

    Raises:
        SpecError: it does not answer.
    """
    from orchestrator.toolchain.ask import ask

    hint = f"try `{python} -I -c pass`"
    try:
        answer = ask([python, "-I", "-c", _QUESTION])
    except MachineError as error:
        raise SpecError(f"it cannot be asked: {error.message}", where=str(python), hint=hint) from error
    said = [line for line in answer.text.splitlines() if line.startswith(_MARK)]
    if answer.code or not said:
        raise SpecError(
            f"it is no Python that answers: {answer.telling_line or f'it ended with {answer.code}'}",
            where=str(python),
            hint=hint,
        )
    version, paths = json.loads(said[-1].removeprefix(_MARK))
    roots: dict[str, Path] = {}
    for path in paths:  # lib and lib64 can be one folder; the first place counts
        roots.setdefault(os.path.realpath(path), Path(path))
    return Environment(python, version, tuple(roots.values()))
