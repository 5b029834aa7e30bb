"""Synthetic stacks: many recipes with a lock, and trivial pure-Python projects."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from orchestrator.model.catalog import Catalog, find_places, lock_file
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target

if TYPE_CHECKING:
    from pathlib import Path

STACK = """\
schema: sparkbuild.stack/1
name: {name}
summary: Synthetic
platforms: [linux-x86_64, linux-aarch64]
pythons: ["3.11", "3.12", "3.13", "3.14"]
components:
"""

RECIPE = """\
schema: sparkbuild.recipe/1
name: {name}
summary: Synthetic recipe of the size of a real one
homepage: https://example.test/{name}
sources:
  main: {{sdist: {name}}}
needs: {{build: {needs}, run: {needs}}}
arch:
  env: {{TORCH_CUDA_ARCH_LIST: torch-extension, EXTRA_GENCODE: nvcc}}
build:
  backend: pep517
  requires: [ninja, packaging, setuptools]
  env: {{FORCE_BUILD: "TRUE", WITH_TESTS: "0"}}
  memory_per_unit: 4 GiB
  variants:
    - when: {{version: ">=2"}}
      env: {{NEWER: "1"}}
    - when: {{arch: "9.0a"}}
      env: {{HOPPER: "1"}}
modules:
  - {{match: "{name}/_C*.so", expect: native}}
  - {{match: "{name}/_host*.so", expect: host, reason: no device code in it}}
"""

PURE = """\
schema: sparkbuild.recipe/1
name: {name}
summary: A module and nothing else
sources:
  main: {{local: projects/{name}}}
build: {{}}
"""

BACKEND = '''\
"""An in-tree backend that zips one module."""
import zipfile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "{module}-1.0-py3-none-any.whl"
    info = "{module}-1.0.dist-info"
    with zipfile.ZipFile(f"{{wheel_directory}}/{{name}}", "w") as wheel:
        wheel.writestr("{module}.py", "answer = 42")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: {module}\\nVersion: 1.0\\n")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
'''


def many_recipes(folder: Path, count: int) -> None:
    """Write `count` recipes, each needing up to two earlier ones, with stack `big` and its lock."""
    names = [f"part-{number:04d}" for number in range(count)]
    for number, name in enumerate(names):
        needs = [names[number // 2], names[number // 3]] if number else []
        (folder / f"{name}.yaml").write_text(RECIPE.format(name=name, needs=sorted(set(needs))))
    components = {
        name: LockedComponent(
            version="1.0",
            sources={"main": LockedSource(file=_file(name, f"{name}-1.0.tar.gz"))},
            requires=tuple(
                _file(tool, f"{tool}-1.0-py3-none-any.whl") for tool in ("ninja", "packaging", "setuptools")
            ),
        )
        for name in names
    }
    write_stack(folder, "big", components)


def trivial_projects(folder: Path, count: int) -> None:
    """Write `count` pure-Python projects with recipes, stack `trivial` and its lock."""
    components = {}
    for number in range(count):
        name = f"pure-{number:02d}"
        project = folder / "projects" / name
        project.mkdir(parents=True)
        system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        (project / "pyproject.toml").write_text(system)
        (project / "backend.py").write_text(BACKEND.format(module=name.replace("-", "_")))
        (folder / f"{name}.yaml").write_text(PURE.format(name=name))
        components[name] = LockedComponent(version="1.0")
    write_stack(folder, "trivial", components)


def write_stack(folder: Path, name: str, components: dict[str, LockedComponent]) -> None:
    """Write a stack of these components at version 1.0, and its lock for this machine."""
    stacks = folder / "stacks"
    stacks.mkdir()
    lines = [f'  {component}: {{version: "1.0"}}\n' for component in components]
    (stacks / f"{name}.yaml").write_text(STACK.format(name=name) + "".join(lines))
    target = Target.here()
    catalog = Catalog(find_places([folder]))
    stack = catalog.stack(name)
    lock = Lock(
        schema="sparkbuild.lock/1",
        stack=name,
        platform=target.platform,
        python=target.python,
        inputs=lock_inputs(stack, catalog.recipes(stack.components), target),
        components=components,
    )
    (stacks / lock_file(name, target)).write_bytes(msgspec.json.encode(lock))


def _file(name: str, file: str) -> LockedFile:
    digest = hashlib.sha256(file.encode()).hexdigest()
    return LockedFile(name=name, version="1.0", file=file, sha256=digest, size=1)
