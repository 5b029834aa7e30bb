"""The tiny CUDA project: a git repository with a submodule, its recipe, stack and lock, in one folder.

Everything is real: git, nvcc from the lock's toolkit wheels, pip, processes. The toolkit's layer is
shared by all tests of a session, and between sessions where SPARKBUILD_TEST_CACHE names a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.model.catalog import Catalog, find_places, lock_file
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target
from orchestrator.model.reader import load_lock
from orchestrator.store.home import Home

DATA = Path(__file__).resolve().parent.parent / "data"
# The installed package, not the folder that pytest runs in.
SPARKBUILD = (sys.executable, "-P", "-m", "orchestrator")
TOOLKIT = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")

RECIPE = """\
schema: sparkbuild.recipe/1
name: tiny-cuda
summary: Two units and a submodule
sources:
  main: {{git: "{url}"}}
patches: {patches}
arch:
  env: {{TINY_NVCC_GENCODE: nvcc}}
build:
  env: {env}
{probe}
modules:
  - {{match: "tiny_cuda/_C*.so", expect: {expect}}}
"""

STACK = """\
schema: sparkbuild.stack/1
name: tiny
summary: The tiny project alone
platforms: [linux-x86_64, linux-aarch64]
pythons: ["3.11", "3.12", "3.13", "3.14"]
toolkit:
  version: "==13.0.*"
  packages: ["cuda-toolkit[nvcc,cudart]==13.0.3"]
  headers: [cuda_runtime.h]
components:
  tiny-cuda: {{version: "1.0", commits: {{main: "{commit}"}}}}
"""

PATCH = """\
Why: to have something to apply.
Upstream: none, the project is ours
--- a/csrc/scale.cu
+++ b/csrc/scale.cu
@@ -4,3 +4,3 @@
   int i = blockIdx.x * blockDim.x + threadIdx.x;
-  if (i < n) data[i] = tinymath::fused(data[i], factor, 0.0f);
+  if (i < n) data[i] = tinymath::fused(data[i], factor, {shift});
 }}
"""


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with an identity and dates of its own."""
    environment = os.environ | {
        **dict.fromkeys(
            ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
            "tiny@example.test",
        ),
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(folder: Path, data: Path) -> str:
    """Make a repository of a data folder's files and return its commit."""
    shutil.copytree(data, folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return git(folder, "rev-parse", "HEAD")


@dataclass
class TinyProject:
    """The repositories, a recipes folder, a state folder and a dist folder below `root`."""

    root: Path
    shared: Path
    """Where the toolkit's layer is kept between tests."""
    patches: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    """The recipe's `probe`; empty: it has none."""
    expect: str = "native"
    commit: str = ""
    submodule: str = ""
    target: Target = field(default_factory=Target.here)
    sparkbuild: tuple[str, ...] = SPARKBUILD
    """What runs the command, such as in an emulated machine that has `target`."""
    limit_s: float = 300
    """How long a command may take."""

    @classmethod
    def make(cls, root: Path, shared: Path, target: Target | None = None) -> TinyProject:
        """Make repositories, recipe, stack and lock, and link the shared layers into a fresh state folder."""
        project = cls(root, shared, target=target or Target.here())
        project.submodule = make_repository(root / "tinymath", DATA / "tinymath")
        make_repository(project.repository, DATA / "tiny")
        git(project.repository, "submodule", "-q", "add", "../tinymath", "third_party/tinymath")
        git(project.repository, "commit", "-q", "-m", "add the submodule")
        project.commit = git(project.repository, "rev-parse", "HEAD")
        Home(project.home).claim()
        for name in ("wheels", "layers", "downloads"):
            (shared / name).mkdir(parents=True, exist_ok=True)
            (project.home / name).symlink_to(shared / name)
        project.write()
        return project

    @property
    def repository(self) -> Path:
        """The main repository."""
        return self.root / "tiny"

    @property
    def home(self) -> Path:
        """SPARKBUILD_HOME."""
        return self.root / "home"

    @property
    def recipes(self) -> Path:
        """The folder for --recipes."""
        return self.root / "recipes"

    @property
    def dist(self) -> Path:
        """Where the stack's wheels are served."""
        return self.root / "dist" / "tiny"

    @property
    def wheel(self) -> Path:
        """The one wheel that is served."""
        (wheel,) = self.dist.glob("*.whl")
        return wheel

    def write(self) -> None:
        """Write recipe, stack and lock anew from the fields."""
        stacks = self.recipes / "stacks"
        stacks.mkdir(parents=True, exist_ok=True)
        text = RECIPE.format(
            url=self.repository.as_uri(),
            patches=json.dumps(list(self.patches)),
            env=json.dumps(self.env),
            probe=f"probe: {json.dumps(self.probe)}" if self.probe else "",
            expect=self.expect,
        )
        (self.recipes / "tiny-cuda.yaml").write_text(text)
        (stacks / "tiny.yaml").write_text(STACK.format(commit=self.commit))
        target = self.target
        catalog = Catalog(find_places([self.recipes]))
        stack = catalog.stack("tiny")
        lock = Lock(
            schema="sparkbuild.lock/1",
            stack="tiny",
            platform=target.platform,
            python=target.python,
            inputs=lock_inputs(stack, catalog.recipes(stack.components), target),
            toolkit=toolkit_files(target),
            components={
                "tiny-cuda": LockedComponent(
                    version="1.0",
                    sources={
                        "main": LockedSource(
                            commit=self.commit, submodules={"third_party/tinymath": self.submodule}
                        )
                    },
                )
            },
        )
        (stacks / lock_file("tiny", target)).write_bytes(msgspec.json.encode(lock))

    def add_patch(self, name: str = "0001-shift", *, shift: str = "1.0f", text: str | None = None) -> None:
        """Write a patch and name it in the recipe."""
        folder = self.recipes / "patches" / "tiny-cuda"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.patch").write_text(text or PATCH.format(shift=shift))
        if name not in self.patches:
            self.patches = (*self.patches, name)
        self.write()

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment of a command."""
        return os.environ | {"SPARKBUILD_HOME": str(self.home), "NO_COLOR": "1", "TERM": "dumb"} | changes

    def command(self, *arguments: str, arch: str = "12.1a") -> list[str]:
        """Return the argument list of a sparkbuild command on this project; empty `arch`: without --arch."""
        options = ["--arch", arch] if arch else []
        if (
            arguments[0] in {"all", "plan", "probe", "why", "fetch", "tiny-cuda"}
            and "--cuda" not in arguments
        ):
            # Whatever the machine has, the tests are about the toolkit that sparkbuild provides.
            options += ["--cuda", "pip"]
        return [*self.sparkbuild, "--recipes", str(self.recipes), *arguments, *options]

    def start(self, *arguments: str, arch: str = "12.1a", **changes: str) -> subprocess.Popen[str]:
        """Start `sparkbuild` in the background."""
        return subprocess.Popen(
            self.command(*arguments, arch=arch),
            cwd=self.root,
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, arch: str = "12.1a", **changes: str) -> Ran:
        """Run `sparkbuild` to its end."""
        process = self.start(*arguments, arch=arch, **changes)
        try:
            out, err = process.communicate(timeout=self.limit_s)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise
        return Ran(process.returncode, out, err)

    def build(self, *arguments: str, arch: str = "12.1a", **changes: str) -> dict[str, Any]:
        """Build the stack, which must go well, and return the run's JSON."""
        ran = self.run("all", "--stack", "tiny", "--json", *arguments, arch=arch, **changes)
        assert ran.code == 0, ran.err
        report: dict[str, Any] = json.loads(ran.out)
        return report


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def toolkit_files(target: Target) -> tuple[LockedFile, ...]:
    """Return the few wheels of the quickstart's lock that the tiny project needs."""
    catalog = Catalog(find_places())
    lock = load_lock(catalog.lock_path("quickstart", target))
    return tuple(file for file in lock.toolkit if file.name in TOOLKIT)
