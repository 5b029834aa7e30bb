"""Which toolkit is chosen, and what is said about the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import faketools
import pytest

from orchestrator.errors import LockError, ToolkitError
from orchestrator.model.lock import LockedFile
from orchestrator.model.stack import Toolkit as Spec
from orchestrator.report.events import Note, silent
from orchestrator.store.facts import Facts
from orchestrator.store.home import Home
from orchestrator.toolchain import system
from orchestrator.toolchain.cuda import Toolkit, decide_toolkit, provide_toolkit, wheels_identity

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.report.events import Event
    from orchestrator.toolchain.compiler import Compiler

SPEC = Spec(
    version="==13.0.*",
    packages=("cuda-toolkit",),
    headers=("cublas_v2.h", "cusparse.h"),
    libraries=("libcublas.so",),
)


def locked(name: str, version: str = "13.0.88", sha256: str = "0" * 64) -> LockedFile:
    return LockedFile(name=name, version=version, file=f"{name}.whl", sha256=sha256, size=1)


FILES = (locked("nvidia-cuda-nvcc"), locked("nvidia-cublas", "13.1.1.3", "1" * 64))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return faketools.toolkit(tmp_path / "whole", headers=SPEC.headers, libraries=SPEC.libraries)


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return faketools.toolkit(tmp_path / "partial")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what this machine has below /usr/local."""
    original = system.candidates

    def hidden(facts: Facts, *, environ: dict[str, str] | None = None) -> list[system.Candidate]:
        return original(facts, environ=environ, local=tmp_path / "no-local")

    monkeypatch.setattr("orchestrator.toolchain.cuda.candidates", hidden)


def decide(
    choice: str,
    facts: Facts,
    *,
    files: tuple[LockedFile, ...] = FILES,
    events: list[Event] | None = None,
    archs: tuple[str, ...] = (),
    compiler: Compiler | None = None,
    **environ: str,
) -> Toolkit:
    return decide_toolkit(
        choice,
        spec=SPEC,
        files=files,
        facts=facts,
        emit=silent if events is None else events.append,
        archs=archs,
        compiler=compiler,
        environ={"PATH": "/nonexistent"} | environ,
    )


def test_auto_takes_an_installed_one_that_serves(whole: Path, facts: Facts) -> None:
    events: list[Event] = []
    chosen = decide("auto", facts, events=events, CUDA_HOME=str(whole))
    assert (chosen.kind, chosen.root, chosen.version) == ("system", whole, "13.0.88")
    assert chosen.identity == system.identity(whole, facts)
    assert "CUDA_HOME" in chosen.text
    assert events == []


def test_auto_goes_on_to_the_next_place(whole: Path, partial: Path, facts: Facts) -> None:
    assert decide("auto", facts, CUDA_HOME=str(partial), CUDA_PATH=str(whole)).root == whole


@pytest.mark.usefixtures("nowhere")
def test_auto_takes_wheels_and_says_what_was_missing(partial: Path, facts: Facts) -> None:
    events: list[Event] = []
    chosen = decide("auto", facts, events=events, CUDA_HOME=str(partial))
    assert (chosen.kind, chosen.root, chosen.version) == ("pip", None, "13.0.88")
    (note,) = events
    assert isinstance(note, Note)
    assert note.text == f"CUDA is taken from wheels: {partial} lacks cublas_v2.h, cusparse.h, libcublas.so"
    assert "cusparse.h" in chosen.why


@pytest.mark.usefixtures("nowhere")
def test_auto_on_a_bare_machine_is_quiet(facts: Facts) -> None:
    events: list[Event] = []
    chosen = decide("auto", facts, events=events)
    assert chosen.text == "CUDA 13.0.88 from wheels: no CUDA toolkit is installed"
    assert events == []


@pytest.mark.usefixtures("nowhere")
def test_auto_passes_over_one_that_cannot_assemble(tmp_path: Path, facts: Facts, compiler: Compiler) -> None:
    root = faketools.toolkit(
        tmp_path / "old",
        headers=SPEC.headers,
        libraries=SPEC.libraries,
        assemble="echo nvcc fatal: Unsupported gpu architecture; exit 1",
    )
    chosen = decide("auto", facts, archs=("sm_121a",), compiler=compiler, CUDA_HOME=str(root))
    assert chosen.kind == "pip"
    assert "Unsupported gpu architecture" in chosen.why
    assert decide("auto", facts, CUDA_HOME=str(root)).root == root


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("choice", ["system", "auto"])
def test_nothing_serves_and_there_are_no_wheels(partial: Path, facts: Facts, choice: str) -> None:
    with pytest.raises(ToolkitError, match=r"lacks cublas_v2\.h, cusparse\.h, libcublas\.so") as caught:
        decide(choice, facts, files=(), CUDA_HOME=str(partial))
    assert caught.value.exit_code == 4
    assert "--cuda pip" in str(caught.value.hint)


@pytest.mark.usefixtures("nowhere")
def test_system_never_takes_wheels(facts: Facts) -> None:
    with pytest.raises(ToolkitError, match="none is installed"):
        decide("system", facts)


def test_a_path_must_serve(tmp_path: Path, whole: Path, partial: Path, facts: Facts) -> None:
    assert decide(str(whole), facts).root == whole
    assert decide(str(whole / "bin/nvcc"), facts).root == whole
    with pytest.raises(ToolkitError, match=r"lacks cublas_v2\.h"):
        decide(str(partial), facts, CUDA_HOME=str(whole))
    with pytest.raises(ToolkitError, match="no such CUDA toolkit"):
        decide(str(tmp_path / "typo"), facts)


def test_pip_ignores_what_is_installed(whole: Path, facts: Facts) -> None:
    chosen = decide("pip", facts, CUDA_HOME=str(whole))
    assert (chosen.kind, chosen.identity) == ("pip", wheels_identity(FILES))


def test_pip_needs_wheels_of_the_stacks_version(facts: Facts) -> None:
    with pytest.raises(LockError, match="no nvidia-cuda-nvcc"):
        decide("pip", facts, files=FILES[1:])
    with pytest.raises(LockError, match=r"wants CUDA ==13\.0\.\*, the lock holds 12\.9\.1"):
        decide("pip", facts, files=(locked("nvidia-cuda-nvcc", "12.9.1"),))


def test_the_identity_of_wheels_is_their_lock_lines() -> None:
    assert wheels_identity(FILES) == wheels_identity(FILES[::-1])
    assert wheels_identity(FILES) != wheels_identity(
        (FILES[0], locked("nvidia-cublas", "13.1.1.3", "2" * 64))
    )


def test_deciding_again_starts_no_process(tmp_path: Path, whole: Path, compiler: Compiler) -> None:
    def run() -> Toolkit:
        facts = Facts(tmp_path / "facts.json")
        return decide("auto", facts, archs=("sm_121a",), compiler=compiler, CUDA_HOME=str(whole))

    first = run()
    count = faketools.calls(whole / "calls")
    assert run() == first
    assert faketools.calls(whole / "calls") == count == 2


def test_an_installed_one_is_provided_as_it_is(
    tmp_path: Path, whole: Path, facts: Facts, compiler: Compiler
) -> None:
    chosen = decide("auto", facts, CUDA_HOME=str(whole))

    def fetch(files: object) -> dict[str, Path]:
        raise AssertionError(files)

    root = provide_toolkit(
        chosen,
        spec=SPEC,
        files=FILES,
        home=Home(tmp_path / "home"),
        emit=silent,
        fetch=fetch,
        compiler=compiler,
        facts=facts,
        archs=("sm_121a",),
    )
    assert root == whole
    assert not (tmp_path / "home").exists()
