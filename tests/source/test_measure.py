"""Sizes and digests of files at addresses, from a real server and from disk."""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import SourceError
from orchestrator.source.measure import digest_of, size_of
from orchestrator.source.pipconfig import IndexConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = IndexConfig(index_urls=(), find_links=(), timeout_s=10)
BODY = b"x" * 100_000


class Answers(BaseHTTPRequestHandler):
    """`/told` says its size, `/untold` does not, `/short` breaks its promise, `/moved` redirects."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/told")
            self.end_headers()
            return
        self.send_response(200 if self.path != "/absent" else 404)
        if self.path == "/told":
            self.send_header("Content-Length", str(len(BODY)))
        if self.path == "/short":
            self.send_header("Content-Length", str(len(BODY) + 1))
        self.end_headers()
        try:
            self.wfile.write(BODY)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        del format, args


@contextmanager
def served() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("page", ["told", "untold", "moved"])
def test_size_and_digest(page: str) -> None:
    with served() as root:
        assert size_of(f"{root}/{page}", CONFIG) == len(BODY)
        assert digest_of(f"{root}/{page}", CONFIG) == (len(BODY), hashlib.sha256(BODY).hexdigest())


@pytest.mark.parametrize("page", ["absent", "short"])
def test_what_cannot_be_had(page: str) -> None:
    with served() as root, pytest.raises(SourceError) as caught:
        digest_of(f"{root}/{page}", CONFIG)
    assert caught.value.exit_code == 5
    assert page in (caught.value.where or "")


def test_files_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a file.tar.gz"
    path.write_bytes(BODY)
    assert size_of(path.as_uri(), CONFIG) == len(BODY)
    assert digest_of(path.as_uri(), CONFIG) == (len(BODY), hashlib.sha256(BODY).hexdigest())
    with pytest.raises(SourceError, match="cannot be had"):
        size_of((tmp_path / "absent").as_uri(), CONFIG)


def test_nobody_answers() -> None:
    with served() as root:
        pass
    with pytest.raises(SourceError, match="cannot be had"):
        size_of(f"{root}/told", CONFIG)
