"""Wheels through PEP 517 hooks, without isolation: nothing is installed into the environment."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.build import supervisor
from orchestrator.errors import BuildFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyproject_hooks import BuildBackendHookCaller

    from orchestrator.build.supervisor import Finished
    from orchestrator.build.venv import Environment

LEGACY = "setuptools.build_meta:__legacy__"
"""The backend of a project that names none (PEP 517)."""


@dataclass(frozen=True, slots=True)
class BuildSystem:
    """The `build-system` table of a pyproject.toml, as far as a build without isolation needs it."""

    backend: str
    backend_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A wheel, and what the commands that made it cost."""

    path: Path
    commands: tuple[Finished, ...]


def read_build_system(project: Path) -> BuildSystem:
    """Return which backend builds `project`, a source tree.

    Raises:
        BuildFailedError: pyproject.toml is malformed, or there is nothing to build.
    """
    file = project / "pyproject.toml"
    if not file.is_file():
        if not (project / "setup.py").is_file():
            raise BuildFailedError(
                "neither pyproject.toml nor setup.py is there",
                where=str(project),
                hint="the recipe's build.directory says where the project lies in its source",
            )
        return BuildSystem(LEGACY, ())
    import tomllib

    problem = "build-backend must be a string, backend-path a list of strings"
    try:
        table = tomllib.loads(file.read_text("utf-8")).get("build-system", {})
    except ValueError as error:  # TOML or UTF-8
        table, problem = None, str(error)
    if isinstance(table, dict):
        backend, path = table.get("build-backend", LEGACY), table.get("backend-path", [])
        if isinstance(backend, str) and isinstance(path, list) and all(isinstance(p, str) for p in path):
            return BuildSystem(backend, tuple(path))
    raise BuildFailedError(
        f"pyproject.toml is malformed: {problem}", where=str(file), hint="patch the project's pyproject.toml"
    )


def build_wheel(
    project: Path,
    *,
    environment: Environment,
    env: Mapping[str, str],
    out: Path,
    log: Path,
    config_settings: Mapping[str, str] | None = None,
    wrap: Callable[[Sequence[str]], Sequence[str]] = lambda argv: argv,
    on_line: Callable[[str], None] | None = None,
    after: Callable[[], None] | None = None,
    timeout_s: float | None = None,
) -> BuiltWheel:
    """Build one wheel of `project` into folder `out`, which must hold no wheel yet.

    Args:
        project: the source tree.
        environment: has all build requirements.
        env: the whole environment of the hooks.
        out: made when missing.
        log: gets the output of all hooks.
        config_settings: handed to the backend.
        wrap: makes of a command the one that is run.
        on_line: the newest line of output, now and then.
        after: called after each hook, for instance to see that it replaced no package.
        timeout_s: limit of one hook.

    Raises:
        BuildFailedError: the backend is missing or fails, asks for what is not there, or yields no wheel.
    """
    from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller, HookMissing, UnsupportedOperation

    system = read_build_system(project)
    commands: list[Finished] = []

    def hook(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        finished = supervisor.run(
            wrap(cmd),
            cwd=project if cwd is None else project / cwd,
            env={**env, **(extra_environ or {})},
            log=log,
            timeout_s=timeout_s,
            on_line=on_line,
            name=f"the build backend {system.backend}",
        )
        commands.append(finished)
        if after:
            after()

    try:
        caller = BuildBackendHookCaller(
            str(project),
            system.backend,
            system.backend_path,
            runner=hook,
            python_executable=str(environment.python),
        )
    except ValueError as error:
        raise BuildFailedError(
            f"backend-path: {error}",
            where=str(project / "pyproject.toml"),
            hint="patch the project's pyproject.toml",
        ) from error
    out.mkdir(parents=True, exist_ok=True)
    settings = dict(config_settings or {})
    try:
        with _warnings_into(log):
            _require(caller, settings, environment)
            name = caller.build_wheel(str(out), settings)
    except BackendUnavailable as error:
        reason = error.traceback.strip().rpartition("\n")[2] or str(error)
        raise BuildFailedError(
            f"the build backend {system.backend} cannot be imported: {reason}",
            where=str(log),
            hint="add what provides it to the recipe's build.requires, and lock again",
        ) from error
    except (HookMissing, UnsupportedOperation) as error:
        raise BuildFailedError(
            f"the build backend {system.backend} cannot build wheels",
            where=str(project),
            hint="see whether the project names the right backend in its pyproject.toml",
        ) from error
    except (OSError, ValueError) as error:
        # The hook's answer is a JSON file, written when it returns.
        raise BuildFailedError(
            f"the build backend {system.backend} ended without telling its result",
            where=str(log),
            hint="it left by another way than returning, such as os._exit; see the log",
        ) from error
    return BuiltWheel(_only_wheel(out, name), tuple(commands))


@contextmanager
def _warnings_into(log: Path) -> Iterator[None]:
    """Write a backend's warnings into the log, where its other output is, instead of onto the terminal.

    Filters belong to the process, and several backends may run, each in a thread: the first sets them and
    the last takes them back.
    """
    _LISTENERS.enter(log)
    try:
        yield
    finally:
        _LISTENERS.leave()


class _Listeners:
    """Which thread's backend warns into which log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[int, Path] = {}
        self._filters: warnings.catch_warnings[None] | None = None

    def enter(self, log: Path) -> None:
        from pyproject_hooks import BuildBackendWarning

        with self._lock:
            if self._filters is None:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("always", BuildBackendWarning)
                others = warnings.showwarning

                def show(message: Warning | str, category: type[Warning], *args: Any, **named: Any) -> None:
                    told = self._logs.get(threading.get_ident())
                    if told is None or not issubclass(category, BuildBackendWarning):
                        others(message, category, *args, **named)
                        return
                    with told.open("a", encoding="utf-8") as stream:
                        stream.write(f"{category.__name__}: {message}\n")

                warnings.showwarning = show
            self._logs[threading.get_ident()] = log

    def leave(self) -> None:
        with self._lock:
            del self._logs[threading.get_ident()]
            if not self._logs and self._filters is not None:
                self._filters.__exit__(None, None, None)
                self._filters = None


_LISTENERS = _Listeners()


def _require(caller: BuildBackendHookCaller, settings: dict[str, str], environment: Environment) -> None:
    """See that all the backend asks for is there."""
    asked = caller.get_requires_for_build_wheel(settings)
    missing = [text for text in asked if not _is_met(text, environment)]
    if missing:
        raise BuildFailedError(
            f"the build backend asks for {', '.join(missing)}, which the environment lacks",
            where=caller.source_dir,
            hint=f"add {missing[0]!r} to the recipe's build.requires, and lock again",
        )


def _is_met(text: str, environment: Environment) -> bool:
    from importlib.metadata import distributions

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    if requirement.marker and not requirement.marker.evaluate():
        return True
    path = [str(folder) for folder in environment.search_path]
    for found in distributions(name=requirement.name, path=path):
        return requirement.specifier.contains(found.version, prereleases=True)
    return False


def _only_wheel(out: Path, name: str) -> Path:
    found = sorted(path.name for path in out.glob("*.whl") if path.is_file() and not path.is_symlink())
    if found != [name]:
        raise BuildFailedError(
            f"the build backend says it made {name!r}; in its folder are: {', '.join(found) or 'no wheels'}",
            where=str(out),
            hint="the backend breaks PEP 517; see the log",
        )
    return out / name
