"""Real sources of recipes, and a real torch to configure them against. Downloads; kept between tests."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import shippedplans

from orchestrator.build.environ import command_environ
from orchestrator.build.layers import ensure_layer, needs
from orchestrator.build.venv import make_environment
from orchestrator.model.lock import LockedFile, LockedSource
from orchestrator.model.platform import Target
from orchestrator.report.events import silent
from orchestrator.source.fetch import fetch_source
from orchestrator.source.patch import apply
from orchestrator.source.patch_format import read_patch
from orchestrator.source.wheels import fetch_wheels
from orchestrator.store.facts import Facts
from orchestrator.toolchain.compiler import host_compiler
from orchestrator.toolchain.cuda import decide_toolkit, provide_toolkit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.build.venv import Environment
    from orchestrator.source.patch_format import Patch
    from orchestrator.store.home import Home
    from orchestrator.toolchain.compiler import Compiler

SDISTS = {
    "flash-attn": LockedFile(
        name="flash-attn",
        version="2.8.3.post2",
        file="flash_attn-2.8.3.post2.tar.gz",
        sha256="d0f9f0b08a986cdeadbffcf5ec8b3a8f514366c68ad1853d3ab061bc83cc340b",
        size=8453127,
    ),
    "mamba-ssm": LockedFile(
        name="mamba-ssm",
        version="2.3.2.post1",
        file="mamba_ssm-2.3.2.post1.tar.gz",
        sha256="104cc47e9101e5401a675fa2b784f2952b9b037f3b1dd83b5ac544394e95d028",
        size=216439,
    ),
    "causal-conv1d": LockedFile(
        name="causal-conv1d",
        version="1.7.0",
        file="causal_conv1d-1.7.0.tar.gz",
        sha256="3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b",
        size=30328,
    ),
    "vllm": LockedFile(
        name="vllm",
        version="0.33.0",
        file="vllm-0.33.0.tar.gz",
        sha256="f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112",
        size=47101396,
    ),
}

_NINJA = """\
#!/bin/sh
# Says a version and builds nothing: what was to be built stands in build.ninja.
[ "$1" = --version ] && echo 1.11.1 && exit 0
exit 1
"""
_HOOK = "from setuptools.build_meta import __legacy__ as backend; backend.build_wheel('.')"


def patches_of(name: str) -> list[Patch]:
    """Return a shipped recipe's patches, in order."""
    catalog = shippedplans.shipped_catalog()
    return [read_patch(path) for path in catalog.patch_files(catalog.recipe(name))]


def lay_sdist(name: str, dest: Path, home: Home, *, patched: bool = False) -> Path:
    """Lay out the sdist of one of `SDISTS` and return `dest`."""
    file = SDISTS[name]
    fetch_source(
        name="main",
        source=shippedplans.shipped_catalog().recipe(name).sources["main"],
        locked=LockedSource(file=file),
        version=file.version,
        home=home,
    ).lay(dest)
    if patched:
        apply(dest, patches_of(name))
    return dest


@dataclass(frozen=True, slots=True)
class Call:
    """One compiler call that a build would make."""

    source: str
    """Name of the source file."""
    arguments: tuple[str, ...]
    """Without the compiler."""
    command: str
    """For a shell, in `folder`."""
    folder: Path
    output: str


@dataclass(frozen=True, slots=True)
class TorchBox:
    """A build environment with the published torch of the quickstart, and its whole toolkit."""

    root: Path
    environment: Environment
    ninja: Path
    toolkit: Path
    compiler: Compiler

    @classmethod
    def make(cls, root: Path, home: Home) -> TorchBox:
        """Make one below `root`; layers are kept in `home`."""
        catalog = shippedplans.shipped_catalog()
        spec = catalog.stack("quickstart").toolkit
        assert spec is not None
        lock = catalog.lock("quickstart", Target.here())
        torch = lock.components["pytorch"]
        assert torch.prebuilt is not None
        base = (torch.prebuilt, *torch.run)
        there = {file.name for file in base}
        own = tuple(file for file in lock.components["causal-conv1d"].requires if file.name not in there)
        layers = []
        for files in (base, own):
            paths = fetch_wheels(needs(files, home=home), home=home)
            layers.append(ensure_layer(files, paths, home=home, emit=silent).path)
        facts = Facts(home.facts)
        compiler = host_compiler(facts)
        toolkit = provide_toolkit(
            decide_toolkit("pip", spec=spec, files=lock.toolkit, facts=facts),
            spec=spec,
            files=lock.toolkit,
            home=home,
            emit=silent,
            fetch=lambda wanted: fetch_wheels(wanted, home=home),
            compiler=compiler,
            facts=facts,
            archs=("sm_121a",),
        )
        environment = make_environment(root / "env", layers=layers)
        ninja = environment.bin / "ninja"
        real = ninja.rename(ninja.with_name("ninja.real"))
        ninja.write_text(_NINJA)
        ninja.chmod(0o755)
        (root / "tmp").mkdir()
        return cls(root, environment, real, toolkit, compiler)

    def environ(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that a step's commands get; `extra` is the recipe's and the arch's."""
        return command_environ(
            prefix=self.environment.prefix,
            home=self.root / "tmp",
            tmp=self.root / "tmp",
            jobs=1,
            source_date_epoch=315532800,
            maps={self.root: "box"},
            toolkit=self.toolkit,
            cc=self.compiler.cc,
            cxx=self.compiler.cxx,
            extra=extra,
        )

    def device_calls(self, tree: Path, extra: Mapping[str, str]) -> list[Call]:
        """Configure the project in `tree` by its own setup.py and torch's extension builder.

        Returns:
            Every call of nvcc that was to follow; none is made.
        """
        shutil.rmtree(tree / "build", ignore_errors=True)
        done = subprocess.run(
            [self.environment.python, "-c", _HOOK],
            cwd=tree,
            env=self.environ(extra),
            check=False,
            capture_output=True,
            text=True,
        )
        made = list(tree.glob("build/temp.*/build.ninja"))
        assert len(made) == 1, done.stdout + done.stderr
        folder = made[0].parent
        told = subprocess.run(
            [self.ninja, "-t", "compdb", "cuda_compile"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return [_call(entry, folder) for entry in json.loads(told.stdout)]

    def run(self, call: Call, extra: Mapping[str, str]) -> Path:
        """Make one of these calls and return its object."""
        made = call.folder / call.output
        made.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["/bin/sh", "-c", call.command],
            cwd=call.folder,
            env=self.environ(extra),
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return made


def _call(entry: Mapping[str, str], folder: Path) -> Call:
    words = shlex.split(entry["command"])
    assert words[0].endswith("/nvcc")
    return Call(
        source=entry["file"].rpartition("/")[2],
        arguments=tuple(words[1:]),
        command=entry["command"],
        folder=folder,
        output=entry["output"],
    )


def recipe_environ(arch: str, name: str) -> dict[str, str]:
    """Return the variables that a recipe and its arch dialects set for a request."""
    keyed = shippedplans.shipped_plan(arch, name).step(name).keyed
    return dict(keyed.view.build.env) | dict(keyed.arch_env)
