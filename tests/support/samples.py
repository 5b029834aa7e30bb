"""A small stack, its recipes and its lock, as values: what plan tests vary one thing of."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import msgspec

from orchestrator.model.arch import parse_request
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.recipe import ArchUse, Build, ModulePolicy, Needs, PatchRef, Recipe, Source
from orchestrator.model.stack import Component, Stack
from orchestrator.plan.key import MachineFacts
from orchestrator.plan.planner import PlanInputs


def sha(text: str) -> str:
    """Return the sha256 of a text: a stand-in for a file's."""
    return hashlib.sha256(text.encode()).hexdigest()


def locked_file(name: str, version: str = "1.0", *, content: str = "") -> LockedFile:
    """Return a locked wheel whose sha256 follows from its content."""
    file = f"{name}-{version}-py3-none-any.whl"
    return LockedFile(name=name, version=version, file=file, sha256=sha(content or file), size=1000)


TORCH = Recipe(schema="sparkbuild.recipe/1", name="pytorch", summary="Tensors", distribution="torch")

KERNELS = Recipe(
    schema="sparkbuild.recipe/1",
    name="kernels",
    summary="Kernels",
    sources={"main": Source(sdist="kernels")},
    patches=(PatchRef(name="0001-first"), PatchRef(name="0002-second")),
    needs=Needs(build=("pytorch",), run=("pytorch",)),
    arch=ArchUse(env={"SPARKBUILD_NVCC_GENCODE": "nvcc"}),
    build=Build(requires=("ninja",), env={"FORCE": "1"}, config_settings={"fast": "no"}),
    modules=(ModulePolicy(match="kernels/_C*.so", expect="native"),),
)

PURE = Recipe(
    schema="sparkbuild.recipe/1",
    name="pure",
    summary="No device code",
    sources={"main": Source(sdist="pure")},
    build=Build(),
)

STACK = Stack(
    schema="sparkbuild.stack/1",
    name="demo",
    summary="For tests",
    platforms=("linux-x86_64",),
    pythons=("3.12",),
    components={
        "pytorch": Component(version="2.14.1", prebuilt=True),
        "kernels": Component(version="1.0"),
        "pure": Component(version="3.0"),
    },
)

LOCK = Lock(
    schema="sparkbuild.lock/1",
    stack="demo",
    platform="linux-x86_64",
    python="3.12",
    inputs="",
    components={
        "pytorch": LockedComponent(
            version="2.14.1", prebuilt=locked_file("torch", "2.14.1"), run=(locked_file("sympy"),)
        ),
        "kernels": LockedComponent(
            version="1.0",
            sources={"main": LockedSource(file=locked_file("kernels"))},
            requires=(locked_file("ninja"),),
        ),
        "pure": LockedComponent(version="3.0", sources={"main": LockedSource(file=locked_file("pure"))}),
    },
)

MACHINE = MachineFacts(
    platform="linux-x86_64",
    python_abi="cpython-312",
    libc="glibc 2.39",
    compiler="g++ 13.3",
    toolkit="pip abc",
    environment={"LANG": "C.UTF-8"},
)


def plan_inputs(**changes: Any) -> PlanInputs:
    """Return the sample's inputs with some replaced."""
    inputs = PlanInputs(
        stack=STACK,
        lock=LOCK,
        recipes={"pytorch": TORCH, "kernels": KERNELS, "pure": PURE},
        arch=parse_request("12.1a"),
        machine=MACHINE,
        patch_digest=lambda recipe, patch: sha(f"{recipe}/{patch}"),
    )
    return dataclasses.replace(inputs, **changes)


def with_recipe(recipe: Recipe) -> PlanInputs:
    """Return the sample with one recipe replaced by its name."""
    return plan_inputs(recipes={"pytorch": TORCH, "kernels": KERNELS, "pure": PURE, recipe.name: recipe})


def with_locked(name: str, **changes: Any) -> PlanInputs:
    """Return the sample with fields of one locked component replaced."""
    component = msgspec.structs.replace(LOCK.components[name], **changes)
    return plan_inputs(lock=msgspec.structs.replace(LOCK, components=LOCK.components | {name: component}))
