"""Pure-Python projects that need each other, as local sources: whole runs in a second, without a toolkit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.model.catalog import Catalog, find_places, lock_file
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource, lock_bytes
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target

if TYPE_CHECKING:
    from pathlib import Path

STACK = """\
schema: sparkbuild.stack/1
name: pure
summary: For tests
platforms: [linux-x86_64, linux-aarch64]
pythons: ["3.11", "3.12", "3.13", "3.14"]
components: {components}
"""
RECIPE = """\
schema: sparkbuild.recipe/1
name: {name}
summary: For tests
sources:
  main: {{local: projects/{name}}}
needs: {{build: [{needs}]}}
build: {build}
"""
SYSTEM = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = '''\
"""An in-tree backend; `code` runs first and may set what the module says."""
import zipfile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    says = ["{name}"]
{code}
    name = "{name}-{version}-py3-none-any.whl"
    info = "{name}-{version}.dist-info"
    with zipfile.ZipFile(f"{{wheel_directory}}/{{name}}", "w") as wheel:
        wheel.writestr("{name}.py", f"SAYS = {{says!r}}")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
'''


@dataclass(frozen=True)
class Ran:
    """How a run ended; `actions` is component -> what became of it."""

    code: int
    err: str
    actions: dict[str, str]


def finish(process: subprocess.Popen[str], limit_s: float = 120) -> Ran:
    """Wait for the end of a run that was started."""
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    report: dict[str, Any] = json.loads(out) if out else {"rows": []}
    return Ran(process.returncode, err, {row["name"]: row["action"] for row in report["rows"]})


class PureStack:
    """A folder of recipes and projects, a state folder and a dist folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipes = root / "recipes"
        self.dist = root / "dist" / "pure"
        self.home = root / "home"
        self.sources: dict[str, dict[str, LockedSource]] = {}
        """Component -> what its lock holds of sources that are not local folders."""
        self.published: dict[str, LockedFile] = {}
        """Component that is taken as published -> its wheel."""
        self._names: list[str] = []
        (self.recipes / "stacks").mkdir(parents=True)

    def project(
        self, name: str, *needs: str, code: str = "", build: str = "{}", version: str = "1.0", wheel: str = ""
    ) -> None:
        """Write one project and its recipe; without `code`, the module says what its needs say."""
        folder = self.recipes / "projects" / name
        folder.mkdir(parents=True, exist_ok=True)
        lines = code or "\n".join(f"import {need}; says += {need}.SAYS" for need in needs)
        indented = "".join(f"    {line}\n" for line in lines.splitlines())
        (folder / "pyproject.toml").write_text(SYSTEM)
        text = BACKEND.format(name=wheel or name, code=indented, version=version)
        (folder / "backend.py").write_text(text)
        recipe = RECIPE.format(name=name, needs=", ".join(needs), build=build)
        (self.recipes / f"{name}.yaml").write_text(recipe)
        if name not in self._names:
            self._names.append(name)

    def write(self) -> None:
        """Write the stack and its lock."""
        stacks = self.recipes / "stacks"
        components = {
            **{name: {"version": "1.0"} for name in self._names},
            **{name: {"version": "1.0", "prebuilt": True} for name in self.published},
        }
        (stacks / "pure.yaml").write_text(STACK.format(components=json.dumps(components)))
        target = Target.here()
        catalog = Catalog(find_places([self.recipes]))
        stack = catalog.stack("pure")
        lock = Lock(
            schema="sparkbuild.lock/1",
            stack="pure",
            platform=target.platform,
            python=target.python,
            inputs=lock_inputs(stack, catalog.recipes(stack.components), target),
            components={
                name: LockedComponent(
                    version="1.0", sources=self.sources.get(name, {}), prebuilt=self.published.get(name)
                )
                for name in components
            },
        )
        (stacks / lock_file("pure", target)).write_bytes(lock_bytes(lock))

    def command(self, *arguments: str) -> list[str]:
        """Return the argument list that builds the stack, or what `arguments` say."""
        command = [sys.executable, "-P", "-m", "orchestrator", "--recipes", str(self.recipes)]
        return [*command, *(arguments or ["all"]), "--stack", "pure", "--arch", "12.1a", "--json"]

    def environment(self) -> dict[str, str]:
        """Return the environment of a run."""
        return os.environ | {"SPARKBUILD_HOME": str(self.home)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start building the stack, or what `arguments` say, in the background."""
        self.write()
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> Ran:
        """Build the stack, or what `arguments` say."""
        return finish(self.start(*arguments))

    def log(self, name: str) -> str:
        """Return all logs of one component, oldest first."""
        return "".join(
            path.read_text(errors="replace") for path in sorted(self.home.glob(f"logs/*/{name}.log"))
        )

    def stored(self, name: str) -> Path:
        """Return the one stored wheel of a component."""
        (wheel,) = self.home.glob(f"artifacts/*/{name}-*.whl")
        return wheel
