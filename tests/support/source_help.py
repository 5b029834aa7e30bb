"""Real things for tests of sources: tiny wheels, a package index on disk, a server that misbehaves, git."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import wheelhouse

from orchestrator.model.lock import LockedFile
from orchestrator.source.index import index_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest


def locked(path: Path, *, name: str | None = None, version: str = "1.0") -> LockedFile:
    """Return what a lock says of a file that is there."""
    data = path.read_bytes()
    return LockedFile(
        name=name or path.name.split("-")[0],
        version=version,
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )


def make_wheel(folder: Path, name: str, version: str = "1.0", *, text: str = "") -> Path:
    """Write a pure wheel of one module that holds `text`."""
    folder.mkdir(parents=True, exist_ok=True)
    return wheelhouse.make_wheel(folder, name, {f"{name}.py": text}, version=version)[1]


class DiskIndex:
    """A package index in the simple layout, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "files").mkdir(parents=True)

    @property
    def url(self) -> str:
        """Its address."""
        return (self.root / "simple").as_uri()

    def list(self, name: str, *files: Path, sha256: str | None = None) -> None:
        """Write the page of a distribution; `sha256` is claimed of all files instead of their own."""
        page = self.root / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        links = "".join(
            f'<a href="{file.as_uri()}#sha256={sha256 or locked(file).sha256}">{file.name}</a>\n'
            for file in files
        )
        page.write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")


def only_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> DiskIndex:
    """Make an index, and make it the only one that pip knows; whoever ends clears `index_config`'s cache."""
    index = DiskIndex(root / "index")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    index_config.cache_clear()
    return index


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[tuple[str, list[str | None]]]:
    """Serve on loopback; `answer` gets the request and how many came before it.

    Yields:
        The address, and the Range headers of the requests so far.
    """
    ranges: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ranges.append(self.headers.get("Range"))
            answer(self, len(ranges) - 1)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(request: BaseHTTPRequestHandler, data: bytes, *, status: int = 200, told: int | None = None) -> None:
    """Answer with `data`; `told` is a Content-Length that differs."""
    request.send_response(status)
    request.send_header("Content-Length", str(len(data) if told is None else told))
    request.end_headers()
    request.wfile.write(data)


def send_rest(request: BaseHTTPRequestHandler, data: bytes) -> None:
    """Answer with what the request's Range asks for."""
    wanted = request.headers.get("Range")
    if wanted is None:
        send(request, data)
        return
    begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
    request.send_header("Content-Length", str(len(data) - begin))
    request.end_headers()
    request.wfile.write(data[begin:])


def run_git(folder: Path, *arguments: str) -> str:
    """Run git as a fixed person at a fixed time, whatever this machine's configuration says."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{
            f"GIT_{who}_{what}": "t@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
        **{f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(
        [shutil.which("git") or "git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def make_repository(folder: Path, files: dict[str, str]) -> str:
    """Make a repository with one commit; return the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q", "-b", "main")
    return commit_files(folder, files)


def commit_files(folder: Path, files: dict[str, str]) -> str:
    """Write files, commit all that is there, return the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", "x", "--allow-empty")
    return run_git(folder, "rev-parse", "HEAD")


def tree_of(root: Path) -> dict[str, str]:
    """Return path -> text of files, `-> target` of links, of all below a folder."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes().decode(errors="replace")
    return found
