"""An emulated aarch64 Debian: qemu-user behind binfmt_misc, in namespaces of its own.

From Linux 6.7 on, a user namespace has handlers of its own; so nothing is registered on the machine, and no
root is needed. With an older kernel, a handler that the machine has (with the flag F) serves as well.
"""

from __future__ import annotations

import os
import platform
import shutil
import ssl
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from debiantree import KEYRING, Apt, codename

from orchestrator.source.pipconfig import index_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGES = ("?essential", "python3", "python3-dev", "python3-venv", "g++", "git")
_TOOLS = ("apt-get", "apt-config", "dpkg-deb", "tar", "unshare", "chroot")
_NAMESPACES = ("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")
_REGISTER = """\
set -e
handlers=/proc/sys/fs/binfmt_misc
if mount -t binfmt_misc none $handlers 2>/dev/null; then cat "$1" > $handlers/register; fi
"""
# Arguments: the handler, the tree, how many folders are shared with it, these, the command.
_ENTER = f"""\
{_REGISTER}
tree=$2; shared=$3; shift 3
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
while [ "$shared" -gt 0 ]; do
  mkdir -p "$tree$1"; mount --bind "$1" "$tree$1"; shift; shared=$((shared - 1))
done
exec chroot "$tree" "$@"
"""


def obstacle() -> str:
    """Return why aarch64 cannot be emulated here; empty when nothing is known against it."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"this is {sys.platform} on {platform.machine()}; the emulation is for Linux on x86_64"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"the tree is made with {', '.join(missing)}, not found here"
    if not codename() or not KEYRING.exists():
        return f"the tree is made of this machine's Debian, and this is none, or lacks {KEYRING}"
    command = [*_NAMESPACES, "mount", "-t", "proc", "proc", "/proc"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if tried.returncode != 0:
        return f"no user namespace with mounts of its own: {tried.stderr.strip()}"
    return ""


@dataclass(frozen=True)
class Emulation:
    """The tree, and what starts programs in it."""

    tree: Path
    handler: Path
    """What binfmt_misc is told: how to know a program for aarch64, and who runs it."""

    @classmethod
    def make(cls, cache: Path) -> Emulation:
        """Return the tree that the cache has for today's packages, or make it: 200 MB of downloads.

        Args:
            cache: a folder that is kept, or not; one session at a time.
        """
        qemu = Apt.make(cache / "apt-amd64", "amd64").provide("qemu", "qemu-user-static")
        program = next(qemu.glob("usr/bin/qemu-aarch64-static"))
        told = (qemu / "usr/lib/binfmt.d/qemu-aarch64.conf").read_text().strip()
        knows, _, _ = told.rpartition(":/")
        handler = qemu / "handler"
        handler.write_text(f"{knows}:{program}:OPF")
        tree = Apt.make(cache / "apt-arm64", "arm64").provide("tree", *PACKAGES)
        emulation = cls(tree, handler)
        emulation._connect()
        return emulation

    def _connect(self) -> None:
        """Give the tree this machine's resolver and authorities."""
        shutil.copyfile("/etc/resolv.conf", self.tree / "etc" / "resolv.conf")
        shutil.copyfile("/etc/hosts", self.tree / "etc" / "hosts")
        authorities = index_config().cert or ssl.get_default_verify_paths().cafile
        if authorities:
            place = self.tree / "etc" / "ssl" / "certs" / "ca-certificates.crt"
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(authorities, place)

    def obstacle(self) -> str:
        """Return why programs of the tree do not run; empty when they do."""
        tried = subprocess.run(
            self.command("/bin/uname", "-m"), capture_output=True, text=True, check=False, timeout=60
        )
        if tried.stdout.strip() == "aarch64":
            return ""
        kernel = platform.release()
        return f"programs for aarch64 do not run (Linux {kernel}; it takes 6.7): {tried.stderr.strip()}"

    @property
    def python(self) -> str:
        """The version of its Python, such as 3.11."""
        return (self.tree / "usr" / "bin" / "python3").readlink().name.removeprefix("python")

    def command(
        self,
        *argv: str | Path,
        cwd: str | Path = "/",
        shared: tuple[Path, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the argument list that runs a command in the tree; who kills it, kills all it started.

        Args:
            argv: the command, as seen from inside.
            cwd: where it runs.
            shared: folders of this machine that are seen inside, under the same paths.
            env: its environment, beside what leads to the package index.
        """
        variables = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        variables |= _index() | dict(env or {})
        enter = (self.handler, self.tree, len(shared), *shared)
        inside = ("/usr/bin/env", "-i", "-C", cwd, *(f"{name}={value}" for name, value in variables.items()))
        return [str(part) for part in (*_NAMESPACES, "sh", "-c", _ENTER, "enter", *enter, *inside, *argv)]


def _index() -> dict[str, str]:
    """Return variables that lead to the index that this machine's pip asks."""
    config = index_config()
    main, *more = config.index_urls
    variables = {
        "PIP_INDEX_URL": main,
        "PIP_EXTRA_INDEX_URL": " ".join(url for url in more if not url.startswith("file:")),
        "PIP_TRUSTED_HOST": " ".join(config.trusted_hosts),
        "PIP_PROXY": config.proxy or "",
        "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt" if config.cert else "",
        **{name: os.environ.get(name, "") for name in ("http_proxy", "https_proxy", "no_proxy")},
    }
    return {name: value for name, value in variables.items() if value}
