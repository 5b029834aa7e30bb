"""Downloads from a server on loopback that misbehaves."""

from __future__ import annotations

import base64
import dataclasses
import errno
import hashlib
import os
from typing import TYPE_CHECKING

import msgspec
import pytest
from powers import as_anybody
from source_help import DiskIndex, locked, send, send_rest, served

from orchestrator.errors import MismatchError, NoSpaceError, OfflineError, SourceError
from orchestrator.report.events import Event, Note, Progress
from orchestrator.source import disk, download, index
from orchestrator.source.download import fetch_file, fetch_unhashed

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from orchestrator.model.lock import LockedFile
    from orchestrator.store.home import Home

DATA = hashlib.shake_128(b"any bytes").digest(3_000_000)


@pytest.fixture(autouse=True)
def _impatient(shared_index: DiskIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    del shared_index
    monkeypatch.setattr(download, "RETRY_WAITS_S", (0.0, 0.0))


@pytest.fixture
def file(tmp_path: Path) -> LockedFile:
    (tmp_path / "demo-1.0.tar.gz").write_bytes(DATA)
    return locked(tmp_path / "demo-1.0.tar.gz")


def leftovers(home: Home) -> list[Path]:
    return [path for path in home.downloads.rglob("*") if path.is_file()]


def test_an_sdist_comes_from_the_index_once(
    home: Home, tmp_path: Path, shared_index: DiskIndex, file: LockedFile
) -> None:
    shared_index.list("demo", tmp_path / file.file)
    heard: list[Event] = []
    path = fetch_file(file, home=home, emit=heard.append)
    assert path == home.downloads / file.sha256 / file.file
    assert path.read_bytes() == DATA
    assert heard == [Progress("demo", "downloading demo-1.0.tar.gz (2.9 MiB)")]
    (tmp_path / file.file).unlink()
    assert fetch_file(file, home=home, offline=True, emit=heard.append) == path
    assert len(heard) == 1
    assert leftovers(home) == [path]


def test_offline_and_missing(home: Home, file: LockedFile) -> None:
    with pytest.raises(OfflineError, match=file.file):
        fetch_file(file, home=home, offline=True)
    assert not home.root.exists()


def test_a_kept_file_of_another_size_is_fetched_again(home: Home, file: LockedFile) -> None:
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        path = fetch_file(file, home=home, url=f"{url}/x")
        path.write_bytes(DATA[:10])
        assert fetch_file(file, home=home, url=f"{url}/x").read_bytes() == DATA
    assert len(ranges) == 2


def test_a_flipped_byte_in_a_kept_file_is_fetched_again(home: Home, file: LockedFile) -> None:
    flipped = b"?" + DATA[1:]
    heard: list[Event] = []
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        path = fetch_file(file, home=home, url=f"{url}/x")
        path.write_bytes(flipped)
        with pytest.raises(OfflineError, match=f"damaged .*expected sha256 {file.sha256}, found ") as caught:
            fetch_file(file, home=home, offline=True)
        assert (caught.value.exit_code, caught.value.where) == (5, str(path))
        assert path.read_bytes() == flipped
        assert fetch_file(file, home=home, url=f"{url}/x", emit=heard.append).read_bytes() == DATA
    assert len(ranges) == 2
    (told,) = (event for event in heard if isinstance(event, Note))
    assert (told.level, file.file in told.text, "expected sha256" in told.text) == ("warning", True, True)
    kept = [path for path in home.quarantine.iterdir() if path.suffix != ".why"]
    assert [path.read_bytes() for path in kept] == [flipped]


def place_a_folder(place: Path) -> None:
    (place / "in").mkdir(parents=True)


def place_a_pipe(place: Path) -> None:
    place.parent.mkdir(parents=True)
    os.mkfifo(place)


def place_a_link(place: Path) -> None:
    place.parent.mkdir(parents=True)
    (place.parent / "other").write_bytes(DATA)
    place.symlink_to("other")


def place_a_file_above(place: Path) -> None:
    place.parent.parent.mkdir(parents=True)
    place.parent.write_bytes(b"x")


def place_a_link_above(place: Path) -> None:
    decoy = place.parent.parent.parent / "decoy"
    decoy.mkdir(parents=True)
    (decoy / place.name).write_bytes(b"of somebody else")
    place.parent.parent.mkdir()
    place.parent.symlink_to(decoy)


@pytest.mark.parametrize(
    "put", [place_a_folder, place_a_pipe, place_a_link, place_a_file_above, place_a_link_above]
)
def test_whatever_lies_where_a_file_should_be(
    home: Home, file: LockedFile, put: Callable[[Path], None]
) -> None:
    place = home.downloads / file.sha256 / file.file
    put(place)
    heard: list[Event] = []
    with pytest.raises(OfflineError, match="damaged"):
        fetch_file(file, home=home, offline=True)
    with served(lambda request, _: send(request, DATA)) as (url, _):
        assert fetch_file(file, home=home, url=f"{url}/x", emit=heard.append) == place
    assert place.read_bytes() == DATA
    assert not place.is_symlink()
    assert [event.level for event in heard if isinstance(event, Note)] == ["warning"]
    decoy = home.root / "decoy" / file.file
    assert not decoy.parent.exists() or decoy.read_bytes() == b"of somebody else"


@pytest.mark.parametrize("put", [place_a_folder, place_a_pipe, place_a_link])
def test_whatever_lies_where_a_download_goes_on(
    home: Home, file: LockedFile, put: Callable[[Path], None]
) -> None:
    put(home.downloads / ".parts" / file.sha256)
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        assert fetch_file(file, home=home, url=f"{url}/x").read_bytes() == DATA
    assert ranges == [None]


UNREADABLE = """
import sys
from orchestrator.model.lock import LockedFile
from orchestrator.source.download import fetch_file
from orchestrator.store.home import Home
from pathlib import Path
home, name, sha256, size, url = sys.argv[1:]
file = LockedFile(name="demo", version="1.0", file=name, sha256=sha256, size=int(size))
print(fetch_file(file, home=Home(Path(home)), url=url, emit=lambda event: print(event.text)))
"""


def test_a_kept_file_that_cannot_be_read(home: Home, file: LockedFile, tmp_path: Path) -> None:
    url = (tmp_path / file.file).as_uri()
    path = fetch_file(file, home=home, url=url)
    path.chmod(0)
    told = as_anybody(UNREADABLE, str(home.root), file.file, file.sha256, str(file.size), url)
    assert "it cannot be read: Permission denied" in told
    assert told.splitlines()[-1] == str(path)
    assert path.read_bytes() == DATA


def test_other_bytes_are_refused_and_not_kept(home: Home, file: LockedFile) -> None:
    other = DATA[:-1] + b"?"
    with (
        served(lambda request, _: send(request, other)) as (url, _),
        pytest.raises(MismatchError, match=f"expected sha256 {file.sha256}.* found ") as caught,
    ):
        fetch_file(file, home=home, url=f"{url}/x")
    assert caught.value.exit_code == 5
    assert leftovers(home) == []


@pytest.mark.parametrize("size", [0, 100, len(DATA) + 5_000_000])
def test_more_or_fewer_bytes_are_refused(home: Home, file: LockedFile, size: int) -> None:
    data = (DATA * 3)[:size]
    with served(lambda request, _: send(request, data)) as (url, _), pytest.raises(MismatchError):
        fetch_file(file, home=home, url=f"{url}/x")
    assert leftovers(home) == []


def test_a_broken_connection_is_resumed(home: Home, file: LockedFile) -> None:
    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        if count == 0:
            send(request, DATA[:2_000_000], told=len(DATA))
            request.close_connection = True
        else:
            send_rest(request, DATA)

    with served(answer) as (url, ranges):
        assert fetch_file(file, home=home, url=f"{url}/x").read_bytes() == DATA
    assert ranges == [None, "bytes=2000000-"]


def test_a_server_that_cannot_resume_sends_all(home: Home, file: LockedFile) -> None:
    part = home.downloads / ".parts" / file.sha256
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA[:1000])
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        assert fetch_file(file, home=home, url=f"{url}/x").read_bytes() == DATA
    assert ranges == ["bytes=1000-"]


@pytest.mark.parametrize("stale", [b"rubbish", DATA + b"too long", b"?" * len(DATA)])
def test_wrong_bytes_of_an_earlier_run_do_not_last(home: Home, file: LockedFile, stale: bytes) -> None:
    part = home.downloads / ".parts" / file.sha256
    part.parent.mkdir(parents=True)
    part.write_bytes(stale)
    with served(lambda request, _: send_rest(request, DATA)) as (url, _):
        assert fetch_file(file, home=home, url=f"{url}/x").read_bytes() == DATA


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_passing_trouble_is_waited_for(home: Home, file: LockedFile, status: int) -> None:
    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        send(request, DATA if count == 2 else b"", status=200 if count == 2 else status)

    with served(answer) as (url, ranges):
        assert fetch_file(file, home=home, url=f"{url}/x").is_file()
    assert len(ranges) == 3


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (500, 3)])
def test_a_lasting_trouble_is_told(home: Home, file: LockedFile, status: int, tries: int) -> None:
    with served(lambda request, _: send(request, b"", status=status)) as (url, ranges):
        with pytest.raises(SourceError, match=f"server said {status}") as caught:
            fetch_file(file, home=home, url=url.replace("//", "//me:secret@") + "/x")
        assert "secret" not in str(caught.value)
    assert len(ranges) == tries


def test_nobody_listens_or_no_such_file_or_scheme(home: Home, file: LockedFile, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="refused"):
        fetch_file(file, home=home, url="http://127.0.0.1:9/x")
    with pytest.raises(SourceError, match="could not be downloaded"):
        fetch_file(file, home=home, url=(tmp_path / "none").as_uri())
    with pytest.raises(SourceError, match="no address"):
        fetch_file(file, home=home, url="ftp://127.0.0.1/x")


def test_credentials_stay_with_their_host(home: Home, file: LockedFile) -> None:
    seen: list[str | None] = []

    def second(request: BaseHTTPRequestHandler, count: int) -> None:
        del count
        seen.append(request.headers.get("Authorization"))
        send(request, DATA)

    with served(second) as (other, _):

        def first(request: BaseHTTPRequestHandler, count: int) -> None:
            del count
            seen.append(request.headers.get("Authorization"))
            request.send_response(302)
            request.send_header("Location", f"{other}/y".replace("127.0.0.1", "localhost"))
            request.send_header("Content-Length", "0")
            request.end_headers()

        with served(first) as (url, _):
            fetch_file(file, home=home, url=url.replace("//", "//me:s%20x@") + "/x")
    assert seen == ["Basic " + base64.b64encode(b"me:s x").decode(), None]


def test_pips_proxy_is_used(
    home: Home, file: LockedFile, shared_index: DiskIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    del shared_index
    with served(
        lambda request, _: send(request, DATA if request.path == "http://host.example/x" else b"")
    ) as (
        proxy,
        ranges,
    ):
        config = dataclasses.replace(index.index_config(), proxy=proxy)
        monkeypatch.setattr(index, "index_config", lambda: config)
        assert fetch_file(file, home=home, url="http://host.example/x").read_bytes() == DATA
    assert len(ranges) == 1


def test_a_lock_cannot_name_places_outside(home: Home, file: LockedFile) -> None:
    for name in ("../x", "a/b", "..", ""):
        with pytest.raises(MismatchError, match="no file name"):
            fetch_file(msgspec.structs.replace(file, file=name), home=home)
    with pytest.raises(MismatchError, match="no sha256"):
        fetch_file(msgspec.structs.replace(file, sha256="../../x"), home=home)


def test_more_than_the_disk_holds_is_not_begun(home: Home, file: LockedFile) -> None:
    huge = msgspec.structs.replace(file, size=1 << 60)
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        with pytest.raises(NoSpaceError, match="needed"):
            fetch_file(huge, home=home, url=f"{url}/x")
        assert ranges == []


def test_full_disk_and_quota_are_told_others_are_not(tmp_path: Path) -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(NoSpaceError) as caught, disk.telling_full(tmp_path / "not" / "there"):
            raise OSError(number, "full")
        assert caught.value.exit_code == 4
    with pytest.raises(PermissionError), disk.telling_full(tmp_path):
        raise PermissionError


def unhashed(url: str, home: Home, *, size: int = len(DATA)) -> Path:
    return fetch_unhashed(url, name="demo", version="1.0", file="demo-1.0.tar.gz", size=size, home=home)


def test_a_file_of_unknown_sha256_is_kept_under_its_own(home: Home, file: LockedFile) -> None:
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        path = unhashed(f"{url}/x", home)
        assert path == home.downloads / file.sha256 / file.file
        assert fetch_file(file, home=home, offline=True) == path
        path.write_bytes(DATA[:10])
        assert unhashed(f"{url}/x", home).read_bytes() == DATA  # the damaged one made way
    assert ranges == [None, None]
    assert leftovers(home) == [path]


def test_a_file_of_unknown_sha256_is_never_glued_to_an_earlier_start(home: Home) -> None:
    with served(lambda request, _: send_rest(request, DATA)) as (url, ranges):
        part = home.downloads / ".parts" / hashlib.sha256(f"{url}/x".encode()).hexdigest()
        part.parent.mkdir(parents=True)
        part.write_bytes(b"of a file that was replaced since")
        assert unhashed(f"{url}/x", home).read_bytes() == DATA
    assert ranges == [None]


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_a_file_of_unknown_sha256_has_the_size_that_was_told(home: Home, size: int) -> None:
    with (
        served(lambda request, _: send(request, DATA)) as (url, _),
        pytest.raises(MismatchError, match=f"should have {size} bytes, and {len(DATA)} came"),
    ):
        unhashed(f"{url}/x", home, size=size)
    assert leftovers(home) == []


def test_a_file_of_unknown_sha256_that_does_not_fit_is_not_begun(home: Home) -> None:
    with served(lambda request, _: send(request, DATA)) as (url, ranges):
        with pytest.raises(NoSpaceError, match="needed"):
            unhashed(f"{url}/x", home, size=1 << 60)
        assert ranges == []
