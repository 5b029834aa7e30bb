"""Unpacks Debian packages of any architecture into a folder: no root, no maintainer scripts.

apt chooses, downloads and verifies them, from where this machine's own apt gets its Debian; what it notes,
it notes in a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LIMIT_S = 600
_MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into usr; who installs a Debian makes them, no package does."""


def run(*argv: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return what it wrote to stdout; its stderr is in the error."""
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=_LIMIT_S, env=os.environ | (env or {})
    )
    assert done.returncode == 0, f"{argv[0]} {argv[1]}: {done.stderr[-2000:]}"
    return done.stdout


def codename() -> str:
    """Return the name of this machine's Debian, such as `bookworm`; empty where it is none."""
    release = Path("/etc/os-release")
    pairs = [line.partition("=") for line in release.read_text().splitlines()] if release.exists() else []
    said = {name: value.strip('"') for name, _, value in pairs}
    return said.get("VERSION_CODENAME", "") if said.get("ID") == "debian" else ""


@dataclass(frozen=True)
class Apt:
    """An apt of its own, below `folder`: for one architecture, and knowing of no installed package."""

    folder: Path
    architecture: str

    @classmethod
    def make(cls, folder: Path, architecture: str) -> Apt:
        """Write its configuration, and get the lists of packages."""
        apt = cls(folder, architecture)
        # What an interrupted session downloaded would be missing in what apt says it would download.
        shutil.rmtree(folder / "cache", ignore_errors=True)
        for name in ("state/lists/partial", "cache/archives/partial", "etc/preferences.d"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        said = run("apt-config", "dump", "--no-empty", "Acquire").splitlines()  # proxies, and the like
        ours = (
            f'Dir "{folder}";',
            *(
                'Dir::Etc "etc";',
                'Dir::Etc::parts "/dev/null";',
                'Dir::State "state";',
                'Dir::Cache "cache";',
            ),
            f'Dir::State::status "{folder / "status"}";',
            *(f'APT::Architecture "{architecture}";', f'APT::Architectures {{ "{architecture}"; }};'),
            *('APT::Install-Recommends "false";', 'APT::Sandbox::User "";', 'Debug::NoLocking "true";'),
        )
        kept = [
            line for line in said if not line.startswith(("Acquire::IndexTargets", "Acquire::Changelogs"))
        ]
        apt.config.write_text("\n".join([*kept, *ours]) + "\n")
        shown = ("--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
        targets = run("apt-get", "indextargets", "--no-release-info", *shown).splitlines()
        release = codename()
        (folder / "etc" / "sources.list").write_text(
            "".join(
                f"deb [signed-by={KEYRING}] {target}\n"
                for target in sorted(set(targets))
                if target.split()[1].startswith(release)
            )
        )
        apt._get("update", "--error-on=any")
        return apt

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / "apt.conf"

    def _get(self, *arguments: str) -> str:
        return run("apt-get", "-q", "-y", *arguments, env={"APT_CONFIG": str(self.config), "LC_ALL": "C"})

    def provide(self, name: str, *packages: str) -> Path:
        """Return `name-<digest>` beside its folder: packages and all they need; older ones are removed."""
        chosen = self._get("install", "--print-uris", *packages).splitlines()
        contents = "\n".join(sorted(line for line in chosen if line.startswith("'")))  # address, size, hash
        tree = self.folder.with_name(f"{name}-{hashlib.sha256(contents.encode()).hexdigest()[:16]}")
        for old in set(self.folder.parent.glob(f"{name}-*")) - {tree}:
            shutil.rmtree(old)
        if not tree.exists():
            self.unpack(tree, *packages)
        return tree

    def unpack(self, tree: Path, *packages: str) -> None:
        """Unpack packages, and all they need, into `tree`; whole or not at all."""
        self._get("install", "--download-only", *packages)
        half = tree.with_name(f"{tree.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        for name in _MERGED:
            (half / "usr" / name).mkdir(parents=True)
            (half / name).symlink_to(f"usr/{name}")
        for archive in sorted((self.folder / "cache" / "archives").glob("*.deb")):
            unpack(archive, half)
            archive.unlink()
        half.rename(tree)


def unpack(archive: Path, tree: Path) -> None:
    """Lay the files of one package into `tree`, through the links of its merged folders."""
    tar = ("tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", tree)
    reader = ("dpkg-deb", "--fsys-tarfile", archive)
    with subprocess.Popen(reader, stdout=subprocess.PIPE) as source:
        subprocess.run(tar, stdin=source.stdout, check=True, timeout=_LIMIT_S)
    assert source.returncode == 0, f"{archive.name} cannot be read"
