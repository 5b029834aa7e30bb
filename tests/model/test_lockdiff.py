"""What changed between two locks."""

from __future__ import annotations

import msgspec

from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.lockdiff import LockChange, lock_changes


def file(name: str, version: str, *, sha256: str = "a" * 64) -> LockedFile:
    return LockedFile(name=name, version=version, file=f"{name}-{version}.whl", sha256=sha256, size=1)


LOCK = Lock(
    schema="sparkbuild.lock/1",
    stack="small",
    platform="linux-x86_64",
    python="3.12",
    inputs="0" * 64,
    toolkit=(file("nvcc", "13.0"),),
    components={
        "torch": LockedComponent(version="2", prebuilt=file("torch", "2"), run=(file("sympy", "1"),)),
        "vec": LockedComponent(
            version="1",
            sources={"main": LockedSource(commit="1" * 40, submodules={"sub": "2" * 40})},
            requires=(file("ninja", "1"), file("sympy", "1")),
        ),
    },
)


def with_vec(**changes: object) -> Lock:
    vec = msgspec.structs.replace(LOCK.components["vec"], **changes)
    return msgspec.structs.replace(LOCK, components={**LOCK.components, "vec": vec})


def test_equal_locks_differ_in_nothing() -> None:
    assert lock_changes(LOCK, msgspec.structs.replace(LOCK, inputs="1" * 64)) == ()


def test_a_new_lock_is_all_new() -> None:
    changes = lock_changes(None, LOCK)
    assert len(changes) == 7
    assert all(change.before is None for change in changes)


def test_versions_commits_and_what_is_gone() -> None:
    new = with_vec(
        requires=(file("ninja", "2"),),
        sources={"main": LockedSource(commit="3" * 40, submodules={"sub": "2" * 40})},
    )
    assert lock_changes(LOCK, new) == (
        LockChange("vec", "ninja (to build)", "1", "2"),
        LockChange("vec", "source main", "1" * 40, "3" * 40),
        LockChange("vec", "sympy (to build)", "1", None),
    )
    assert str(lock_changes(LOCK, new)[2]) == "vec: sympy (to build) 1 -> (none)"


def test_the_runtime_closure_and_tags() -> None:
    """What a component's own part tells already is not told twice."""
    before = msgspec.structs.replace(LOCK, run=(file("sympy", "1"), file("numba", "1")))
    after = msgspec.structs.replace(LOCK, run=(file("sympy", "1"), file("numba", "2")))
    assert lock_changes(before, after) == (LockChange("runtime", "numba", "1", "2"),)
    open_ = with_vec(sources={"main": LockedSource(commit="unresolved", tag="v1")}, requires=())
    read = with_vec(sources={"main": LockedSource(commit="4" * 40, tag="v1")}, requires=())
    assert lock_changes(open_, read) == (LockChange("vec", "source main", "unresolved", "4" * 40),)


def test_other_bytes_of_one_version_are_seen() -> None:
    (change,) = lock_changes(
        LOCK, msgspec.structs.replace(LOCK, toolkit=(file("nvcc", "13.0", sha256="b" * 64),))
    )
    assert change.before == "13.0 (nvcc-13.0.whl aaaaaaaaaaaa)"
    assert change.after == "13.0 (nvcc-13.0.whl bbbbbbbbbbbb)"
