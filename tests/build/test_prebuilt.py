"""The audit of a published wheel, from a real layer of a made wheel with real device code."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest
from devicefiles import FOLDER
from faketools import assembler
from samples import TORCH, plan_inputs, with_locked, with_recipe
from wheelhouse import make_wheel

from orchestrator.build import prebuilt, verdict
from orchestrator.build.layers import ensure_layer
from orchestrator.errors import SpecError
from orchestrator.model.arch import parse_request
from orchestrator.model.recipe import Assembler, ModulePolicy
from orchestrator.plan.planner import keyed_steps
from orchestrator.report.events import silent
from orchestrator.store.audits import keep_audit, read_audit
from orchestrator.store.home import Home
from orchestrator.store.manifest import Audit

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.plan.steps import KeyedStep


def wheel_of(folder: Path, name: str, *modules: str) -> tuple[LockedFile, Path]:
    files = {f"{name}/{module}": (FOLDER / module).read_bytes() for module in modules}
    return make_wheel(folder, name, {**files, f"{name}/__init__.py": ""})


def step(
    file: LockedFile,
    *run: LockedFile,
    policy: tuple[ModulePolicy, ...] = (),
    assemblers: tuple[Assembler, ...] = (),
    arch: str = "12.1a",
) -> KeyedStep:
    inputs = dataclasses.replace(
        with_recipe(msgspec.structs.replace(TORCH, modules=policy, assemblers=assemblers)),
        lock=with_locked("pytorch", prebuilt=file, run=run).lock,
        arch=parse_request(arch),
    )
    return next(item for item in keyed_steps(inputs, ()) if item.name == "pytorch")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def laid(home: Home, *wheels: tuple[LockedFile, Path]) -> None:
    files = [file for file, _ in wheels]
    ensure_layer(files, {file.sha256: path for file, path in wheels}, home=home, emit=silent)


def test_it_is_audited_once_from_its_layer_and_remembered(tmp_path: Path, home: Home) -> None:
    torch, other = (
        wheel_of(tmp_path, "torch", "native.so", "family.so"),
        wheel_of(tmp_path, "other", "wrong.so"),
    )
    asked = step(torch[0], other[0])
    assert prebuilt.audited(home, asked) is None, "no layer"
    assert prebuilt.known(home, [asked]) == {}
    laid(home, torch, other)
    found = prebuilt.audited(home, asked)
    assert found is not None
    audit, report = found
    assert report is not None
    assert (audit.verdict, audit.coverage) == ("pass", "2 exact, 2 compatible of 4 units on 12.1")
    assert {module.path for module in report.devices[0].modules} == {"torch/native.so", "torch/family.so"}
    assert prebuilt.audited(home, asked) == (audit, None)
    assert prebuilt.known(home, [asked]) == {"pytorch": audit.coverage}
    assert prebuilt.known(home, [step(torch[0], other[0], arch="9.0a")]) == {}, "another device"


def test_what_lies_nowhere_unpacked_is_fetched_once(tmp_path: Path, home: Home) -> None:
    file, path = wheel_of(tmp_path, "torch", "native.so")
    fetched: list[LockedFile] = []

    def fetch(wanted: LockedFile) -> Path:
        fetched.append(wanted)
        return path

    asked = step(file)
    found = prebuilt.audited(home, asked, fetch)
    assert found is not None
    assert (found[0].verdict, found[0].coverage) == ("pass", "2 exact of 2 units on 12.1")
    assert prebuilt.audited(home, asked, fetch) == (found[0], None)
    assert fetched == [file]


def test_one_that_lies_unpacked_for_another_s_layer_is_not_fetched(tmp_path: Path, home: Home) -> None:
    torch, other = wheel_of(tmp_path, "torch", "native.so"), wheel_of(tmp_path, "other", "wrong.so")
    laid(home, torch, other)

    def fetch(wanted: LockedFile) -> Path:
        raise AssertionError(wanted)

    found = prebuilt.audited(home, step(torch[0]), fetch)
    assert found is not None
    assert found[0].coverage == "2 exact of 2 units on 12.1", "without what is in the layer's other wheel"


@pytest.mark.parametrize("unpacked", [True, False])
def test_its_assembler_is_asked_once(tmp_path: Path, home: Home, *, unpacked: bool) -> None:
    calls = tmp_path / "calls"
    files = {"torch/__init__.py": "", "torch/ptxas": assembler("sm_121a", calls=str(calls))}
    file, path = make_wheel(tmp_path, "torch", files)
    assemblers = (Assembler(file="torch/ptxas"),)
    if unpacked:
        laid(home, (file, path))
    asked = step(file, assemblers=assemblers)
    for _ in range(2):
        found = prebuilt.audited(home, asked, lambda _file: path)
        assert found is not None
        assert (found[0].verdict, found[0].coverage) == ("pass", "host only; ptxas assembles sm_121a")
    assert calls.read_text().split() == ["sm_121a"]
    found = prebuilt.audited(home, step(file, assemblers=assemblers, arch="12.0f"), lambda _file: path)
    assert found is not None
    assert found[0].verdict == "fail"


def test_the_recipe_s_policy_holds_for_the_published_wheel_too(tmp_path: Path, home: Home) -> None:
    torch = wheel_of(tmp_path, "torch", "wrong.so")
    laid(home, torch)
    assert prebuilt.audited(home, step(torch[0])) is not None
    stranger = prebuilt.audited(home, step(torch[0]))
    assert stranger is not None
    assert (stranger[0].verdict, stranger[0].coverage) == ("fail", "2 by JIT of 2 units on 12.1")
    jit = (ModulePolicy(match="torch/*.so", expect="jit", reason="old"),)
    excused = prebuilt.audited(home, step(torch[0], policy=jit))
    assert excused is not None
    assert excused[0].verdict == "pass"


def test_a_wheel_of_host_code_only(tmp_path: Path, home: Home) -> None:
    torch = wheel_of(tmp_path, "torch")
    laid(home, torch)
    found = prebuilt.audited(home, step(torch[0]))
    assert found is not None
    assert (found[0].verdict, found[0].coverage) == ("pass", "host only")


def test_a_layer_without_what_its_name_says(tmp_path: Path, home: Home) -> None:
    file, path = wheel_of(tmp_path, "other")
    named = msgspec.structs.replace(file, name="torch")
    laid(home, (file, path))
    with pytest.raises(SpecError, match="torch is not installed there"):
        prebuilt.audited(home, step(named))


@pytest.mark.parametrize("text", [b"", b"{", b"null", b'{"key": "b", "verdict": "pass", "coverage": ""}'])
def test_a_file_that_cannot_be_believed_is_no_audit(home: Home, text: bytes) -> None:
    home.audits.mkdir(parents=True)
    (home.audits / "a.json").write_bytes(text)
    assert read_audit(home, "a") is None
    keep_audit(home, Audit(key="a", verdict="pass", coverage="c"))
    assert read_audit(home, "a") == Audit(key="a", verdict="pass", coverage="c")


def test_only_prebuilts_are_looked_up(home: Home) -> None:
    steps = keyed_steps(plan_inputs(), ())
    for each in steps:
        if each.key:
            key = verdict.key_of(each, [each.key])
            keep_audit(home, Audit(key=key, verdict="pass", coverage=each.name))
    assert prebuilt.known(home, steps) == {"pytorch": "pytorch"}
