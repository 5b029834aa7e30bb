"""Locked wheels through the real pip, from an index on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import msgspec
import pytest
from processes import survivors, wait_for_count
from source_help import locked, make_wheel, send, served

from orchestrator.errors import MismatchError, NoSpaceError, OfflineError, SourceError
from orchestrator.report.events import Event, Note, Progress
from orchestrator.source import wheels
from orchestrator.source.index import index_config
from orchestrator.source.wheels import fetch_wheels

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from source_help import DiskIndex

    from orchestrator.store.home import Home


def test_missing_ones_come_by_one_pip_and_are_kept(
    home: Home, disk_index: DiskIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What contradicts the lock must not matter: constraints, a demand for an environment.
    (tmp_path / "constraints.txt").write_text("one<1\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nconstraint = {tmp_path / 'constraints.txt'}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    made = [make_wheel(tmp_path / "w", name) for name in ("one", "two")]
    for wheel in made:
        disk_index.list(locked(wheel).name, wheel)
    files = [locked(wheel) for wheel in made]
    heard: list[Event] = []
    found = fetch_wheels([*files, files[0]], home=home, emit=heard.append, step="demo")
    assert {sha: path.read_bytes() for sha, path in found.items()} == {
        file.sha256: wheel.read_bytes() for file, wheel in zip(files, made, strict=True)
    }
    assert list(found.values()) == [home.downloads / f.sha256 / f.file for f in files]
    assert heard[0] == Progress("demo", "pip downloads 2 wheels, 0.00 GiB")
    assert sorted(entry.name for entry in home.downloads.iterdir()) == sorted(found)
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")
    assert fetch_wheels(files, home=home, offline=True) == found


def test_none_wanted_is_none(home: Home) -> None:
    assert fetch_wheels([], home=home) == {}
    assert not home.root.exists()


def test_two_files_of_one_distribution(home: Home, disk_index: DiskIndex, tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "1", "demo", "1.0")
    two = make_wheel(tmp_path / "2", "demo", "2.0")
    disk_index.list("demo", one, two)
    found = fetch_wheels([locked(one), locked(two, version="2.0")], home=home)
    assert sorted(path.name for path in found.values()) == [one.name, two.name]


def test_offline_lists_what_is_missing(home: Home, tmp_path: Path) -> None:
    files = [locked(make_wheel(tmp_path, f"demo{number:02}")) for number in range(10)]
    with pytest.raises(OfflineError, match=r"10 of 10 wheels.*demo00-1.0-py3-none-any.whl,.* and 2 more"):
        fetch_wheels(files, home=home, offline=True)


def test_other_bytes_on_the_index(home: Home, disk_index: DiskIndex, tmp_path: Path) -> None:
    wanted = locked(make_wheel(tmp_path / "a", "demo", text="as locked"))
    other = make_wheel(tmp_path / "b", "demo", text="tampered")
    disk_index.list("demo", other, sha256=wanted.sha256)
    with pytest.raises(MismatchError, match=f"expected .*{wanted.sha256}, found {locked(other).sha256}"):
        fetch_wheels([wanted], home=home)
    assert list(home.downloads.iterdir()) == []


def test_a_wheel_that_no_index_has_or_that_is_foreign(
    home: Home, disk_index: DiskIndex, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "demo")
    with pytest.raises(SourceError, match=r"no package index has a wheel of demo==1\.0"):
        fetch_wheels([locked(wheel)], home=home)
    foreign = wheel.rename(tmp_path / "demo-1.0-cp27-cp27m-win32.whl")
    disk_index.list("demo", foreign)
    with pytest.raises(SourceError, match="for this machine and Python"):
        fetch_wheels([locked(foreign)], home=home)


def test_an_sdist_is_never_taken_for_a_wheel(home: Home, disk_index: DiskIndex, tmp_path: Path) -> None:
    sdist = tmp_path / "demo-1.0.tar.gz"
    sdist.write_bytes(b"would run code")
    disk_index.list("demo", sdist)
    with pytest.raises(SourceError, match="no package index has a wheel"):
        fetch_wheels([locked(sdist)], home=home)


def test_other_trouble_of_pip_is_quoted(
    home: Home, disk_index: DiskIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del disk_index
    monkeypatch.setenv("PIP_TIMEOUT", "not a number")
    with pytest.raises(SourceError, match=r"pip ended with \d: .*timeout"):
        fetch_wheels([locked(make_wheel(tmp_path, "demo"))], home=home)


def test_a_file_that_lost_its_size_is_fetched_again(
    home: Home, disk_index: DiskIndex, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "demo")
    disk_index.list("demo", wheel)
    (path,) = fetch_wheels([locked(wheel)], home=home).values()
    path.write_bytes(b"")
    fetch_wheels([locked(wheel)], home=home)
    assert path.read_bytes() == wheel.read_bytes()


def test_a_flipped_byte_in_a_kept_wheel_is_fetched_again(
    home: Home, disk_index: DiskIndex, tmp_path: Path
) -> None:
    made = [make_wheel(tmp_path / "w", name) for name in ("one", "two")]
    for wheel in made:
        disk_index.list(locked(wheel).name, wheel)
    files = [locked(wheel) for wheel in made]
    found = fetch_wheels(files, home=home)
    bad = found[files[0].sha256]
    bad.write_bytes(b"?" + made[0].read_bytes()[1:])
    with pytest.raises(OfflineError, match=f"1 of 2 .*damaged: expected sha256 {files[0].sha256}, found"):
        fetch_wheels(files, home=home, offline=True)
    heard: list[Event] = []
    assert fetch_wheels(files, home=home, emit=heard.append) == found
    assert bad.read_bytes() == made[0].read_bytes()
    (told,) = (event for event in heard if isinstance(event, Note))
    assert (told.level, files[0].file in told.text) == ("warning", True)


def test_what_pip_says_of_a_full_disk(home: Home, tmp_path: Path) -> None:
    text = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    home.downloads.mkdir(parents=True)
    error = wheels._told(text, 1, [locked(make_wheel(tmp_path, "demo"))], home.downloads / ".pip-x")
    assert isinstance(error, NoSpaceError)


def test_pip_dies_with_us_and_the_next_run_cleans_up(
    home: Home, disk_index: DiskIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path, "demo")
    file = locked(wheel)
    tag = str(home.root)

    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        del count
        if request.path.endswith(".whl"):
            send(request, wheel.read_bytes()[:10], told=1000)
            time.sleep(3)
        else:
            request.send_response(200)
            request.send_header("Content-Type", "text/html")
            page = f'<a href="/{file.file}#sha256={file.sha256}">{file.file}</a>'.encode()
            request.send_header("Content-Length", str(len(page)))
            request.end_headers()
            request.wfile.write(page)

    script = (
        "import msgspec, sys, pathlib\n"
        "from orchestrator.model.lock import LockedFile\n"
        "from orchestrator.source.wheels import fetch_wheels\n"
        "from orchestrator.store.home import Home\n"
        "file = msgspec.json.decode(sys.argv[1], type=LockedFile)\n"
        "fetch_wheels([file], home=Home(pathlib.Path(sys.argv[2])))\n"
    )
    with served(answer) as (url, ranges):
        argv = [sys.executable, "-c", script, msgspec.json.encode(file).decode(), tag]
        with subprocess.Popen(argv, env={**os.environ, "PIP_INDEX_URL": url}) as process:
            end = time.monotonic() + 20
            while len(ranges) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            wait_for_count(tag, 2)
            process.send_signal(signal.SIGKILL)
        assert survivors(tag) == []
    assert list(home.downloads.glob(".pip-*"))
    disk_index.list("demo", wheel)
    monkeypatch.setenv("PIP_INDEX_URL", disk_index.url)
    index_config.cache_clear()
    (path,) = fetch_wheels([file], home=home).values()
    assert path.read_bytes() == wheel.read_bytes()
    assert list(home.downloads.glob(".pip-*")) == []
