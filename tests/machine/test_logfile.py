"""What passes for a log: text in any encoding, however odd; and nothing that never ends."""

from __future__ import annotations

import io
import os
import pty
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.machine.logfile import as_log, is_binary, is_endless


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a",
        b"\x1b[1m\x1b[31merror\x1b[0m\r\x07" * 50,
        "\u65e5\u672c\u8a9e\u306e\u30ed\u30b0".encode("shift-jis") * 50,
        b"\0" * 900 + b"cut while it was written\n",
        b"x" * 200 + b"\0\x01",
    ],
)
def test_text(text: bytes) -> None:
    assert not is_binary(text)
    assert as_log(io.BytesIO(text), "it").read() == text


def test_text_past_the_probe_is_whole_and_lazy() -> None:
    text = b"0123456789abcde\n" * 20_000
    stream = io.BytesIO(text)
    log = as_log(stream, "it")
    assert stream.tell() < len(text)
    assert log.read(10) == text[:10]
    assert log.read() == text[10:]


def test_utf_16_that_is_cut_or_broken() -> None:
    assert as_log(io.BytesIO(b"\xff\xfeo\0k\0!"), "it").read() == "ok\ufffd".encode()
    assert as_log(io.BytesIO(b"\xff\xfeo\0\x00\xdck\0"), "it").read() == "o\ufffdk".encode()


def test_binary_says_what_it_is() -> None:
    with pytest.raises(UsageError, match=r"a\.so is no log \(it is binary\)"):
        as_log(io.BytesIO(b"\x7fELF" + b"text" * 100), "a.so")


def test_what_may_never_end(tmp_path: Path) -> None:
    assert is_endless(Path("/dev/zero"))
    assert not is_endless(Path("/dev/stdin"))
    file = tmp_path / "log"
    file.touch()
    (tmp_path / "link").symlink_to("/dev/zero")
    assert not is_endless(file)
    assert is_endless(tmp_path / "link")
    ours, theirs = pty.openpty()
    try:
        assert not is_endless(Path(os.ttyname(theirs)))
    finally:
        os.close(theirs)
        os.close(ours)
    with pytest.raises(FileNotFoundError):
        is_endless(tmp_path / "none")
