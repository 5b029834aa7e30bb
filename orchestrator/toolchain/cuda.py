"""Which CUDA toolkit a run uses: one that is installed, or the lock's wheels as a layer.

`decide_toolkit` says which, and what it is, before anything is downloaded; `provide_toolkit` brings it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import LockError, ToolkitError, UsageError, near_miss
from orchestrator.report.events import Note, silent
from orchestrator.toolchain.probe import check_assembles
from orchestrator.toolchain.system import candidates, examine, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchestrator.model.lock import LockedFile
    from orchestrator.model.stack import Toolkit as Spec
    from orchestrator.report.events import Emit
    from orchestrator.store.facts import Facts
    from orchestrator.store.home import Home
    from orchestrator.toolchain.compiler import Compiler

NVCC_WHEEL = "nvidia-cuda-nvcc"
_NAMED = 6


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The toolkit of a run."""

    kind: Literal["pip", "system"]
    version: str
    """Of nvcc, such as `13.0.88`."""
    identity: str
    """For keys: equal texts mean equal tools."""
    why: str
    root: Path | None = None
    """A system toolkit's folder; that of a pip one is known once it is provided."""

    @property
    def text(self) -> str:
        """One line for people."""
        source = "from wheels" if self.root is None else f"at {self.root}"
        return f"CUDA {self.version} {source}: {self.why}"


def decide_toolkit(
    choice: str,
    *,
    spec: Spec,
    files: Sequence[LockedFile],
    facts: Facts,
    emit: Emit = silent,
    archs: Sequence[str] = (),
    compiler: Compiler | None = None,
    environ: Mapping[str, str] | None = None,
) -> Toolkit:
    """Choose a toolkit. Downloads nothing, and starts no process for what `facts` knows.

    Args:
        choice: `auto`: an installed one that serves, else wheels; `system`: an installed one; `pip`: wheels;
            or the path of an installed one.
        spec: what the stack asks of it.
        files: the toolkit's wheels in the lock.
        facts: cache of what nvcc says and of digests.
        emit: told what an installed toolkit lacks when it is passed over.
        archs: with `compiler`: an installed one must assemble these too (`sm_121a`, `compute_121`).
        compiler: the host compiler.
        environ: where CUDA_HOME, CUDA_PATH and PATH are looked up; `os.environ` by default.

    Raises:
        ToolkitError: the one that was insisted on does not serve; says what is missing.
        LockError: wheels are wanted, and the lock's are none or of another version.
    """
    if choice == "pip":
        return _from_wheels(spec, files, "as asked for")
    if choice not in {"auto", "system"}:
        guess = near_miss(choice, ("auto", "system", "pip"))
        if "/" not in choice and guess and not Path(choice).exists():
            raise UsageError(f"--cuda {choice!r} is no choice and no path", hint=f"did you mean {guess}?")
        root = _given_root(choice)
        faults = _faults(root, spec, facts, archs, compiler)
        if faults:
            raise ToolkitError(
                f"this CUDA toolkit does not serve: it lacks {', '.join(faults)}", where=str(root), hint=_HINT
            )
        return _installed(root, spec, facts, "as asked for")
    complaints: list[str] = []
    for found in candidates(facts, environ=environ):
        faults = _faults(found.root, spec, facts, archs, compiler)
        if not faults:
            return _installed(found.root, spec, facts, f"found by {found.origin}")
        complaints.append(f"{found.root} lacks {_some(faults) if choice == 'auto' else ', '.join(faults)}")
    if choice == "auto" and files:
        if complaints:
            emit(Note("info", f"CUDA is taken from wheels: {'; '.join(complaints)}"))
        return _from_wheels(spec, files, "; ".join(complaints) or "no CUDA toolkit is installed")
    told = "; ".join(complaints) or "none is installed (CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda*)"
    raise ToolkitError(f"no CUDA toolkit of this machine serves: {told}", hint=_HINT)


def provide_toolkit(
    toolkit: Toolkit,
    *,
    spec: Spec,
    files: Sequence[LockedFile],
    home: Home,
    emit: Emit,
    fetch: Callable[[Sequence[LockedFile]], Mapping[str, Path]],
    compiler: Compiler,
    facts: Facts,
    archs: Sequence[str] = (),
) -> Path:
    """Return the toolkit's folder, after it assembled an empty kernel for each arch.

    Args:
        toolkit: from `decide_toolkit`.
        spec: what the stack asks of it; what wheels lack of it is told as a warning.
        files: the toolkit's wheels in the lock.
        home: where the layer goes.
        emit: told of long work.
        fetch: downloads and verifies wheels; returns sha256 -> path. Not called when none is needed.
        compiler: makes stubs, and is what nvcc works with.
        facts: cache.
        archs: such as `sm_121a`, `compute_121`.

    Raises:
        ToolkitError: it cannot assemble an arch, or the wheels make no toolkit.
        SparkbuildError: what `fetch` and `ensure_layer` raise.
    """
    root = toolkit.root
    if root is None:
        from orchestrator.build.layers import ensure_layer, needs
        from orchestrator.toolchain.repairs import SALT, cuda_root, repair

        wanted = needs(files, home=home, salt=SALT)
        layer = ensure_layer(
            files,
            fetch(wanted) if wanted else {},
            home=home,
            emit=emit,
            finish=lambda tree: repair(tree, compiler.cc),
            salt=SALT,
            label="CUDA toolkit",
        )
        root = cuda_root(layer.site)
        if faults := examine(root, spec, facts).faults:
            raise ToolkitError(
                f"the toolkit's wheels lack {', '.join(faults)}, which the stack names",
                where=str(root),
                hint="add what brings it to the stack's `toolkit.packages`, then `sparkbuild lock`",
            )
    check_assembles(root, archs, identity=toolkit.identity, facts=facts, compiler=compiler)
    return root


def wheels_identity(files: Sequence[LockedFile]) -> str:
    """Return `pip-` and one sha256 over the lock lines of the toolkit's wheels."""
    lines = sorted(f"{file.name}=={file.version} {file.sha256}" for file in files)
    return f"pip-{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


_HINT = (
    "install what is missing, name another toolkit with --cuda PATH, or let --cuda pip take the lock's wheels"
)


def _given_root(choice: str) -> Path:
    path = Path(choice).expanduser().absolute()
    if path.name == "nvcc" and not path.is_dir():
        path = path.parent.parent
    if not path.is_dir():
        raise ToolkitError(
            "there is no such CUDA toolkit",
            where=str(path),
            hint="--cuda takes auto, system, pip, or the folder that holds bin/nvcc",
        )
    return path


def _faults(
    root: Path, spec: Spec, facts: Facts, archs: Sequence[str], compiler: Compiler | None
) -> tuple[str, ...]:
    fitness = examine(root, spec, facts)
    if fitness.faults or not archs or compiler is None:
        return fitness.faults
    try:
        check_assembles(root, archs, identity=identity(root, facts), facts=facts, compiler=compiler)
    except ToolkitError as error:
        return (f"the means: {error.message}",)
    return ()


def _installed(root: Path, spec: Spec, facts: Facts, why: str) -> Toolkit:
    version = examine(root, spec, facts).version
    return Toolkit("system", version or "unknown", identity(root, facts), why, root.resolve())


def _from_wheels(spec: Spec, files: Sequence[LockedFile], why: str) -> Toolkit:
    from packaging.specifiers import SpecifierSet

    version = next((file.version for file in files if file.name == NVCC_WHEEL), None)
    if version is None:
        raise LockError(
            f"the lock holds no {NVCC_WHEEL}, so there is no toolkit to take from wheels",
            hint="`sparkbuild lock` makes a new one; or name an installed toolkit with --cuda",
        )
    if not SpecifierSet(spec.version).contains(version):
        raise LockError(
            f"the stack wants CUDA {spec.version}, the lock holds {version}",
            hint="`sparkbuild lock` makes a new one",
        )
    return Toolkit("pip", version, wheels_identity(files), why)


def _some(faults: Sequence[str]) -> str:
    more = len(faults) - _NAMED
    return ", ".join(faults[:_NAMED]) + (f" and {more} more" if more > 0 else "")
